"""A node that is started again takes its unit with it, brake or no brake, and the unit can be launched anew."""

import pytest

from fleet.models import Brake, Replica
from fleet.rules.message import said
from tests.flows.conftest import probe_all

pytestmark = [pytest.mark.lab, pytest.mark.django_db(transaction=True)]


def test_a_reboot_takes_the_unit_down_under_the_brake_and_it_is_launched_again(
    console, ready_launch, launch_unit
):
    launch = ready_launch
    brake = Brake.objects.create(cause="many nodes turned bad")
    console.lab.fault("h100-002", "node.reboot")

    def state() -> str:
        launch.refresh_from_db()
        return launch.state

    console.until(lambda: state() == "failed", "the unit to be proved gone")
    assert said(launch.cause) == "h100-002 was rebooted: its ranks are gone."
    assert Replica.objects.get(pk=launch.replica_id).is_reboot_proved
    assert Brake.objects.filter(cleared_at=None).get() == brake, "only a person clears it"

    probe_all(console)
    again = launch_unit()

    def is_ready() -> bool:
        again.refresh_from_db()
        return again.state == "ready"

    console.until(is_ready, "the next launch to be ready")
    unit = Replica.objects.get(pk=launch.replica_id)
    assert (unit.shown_state, unit.is_reboot_proved) == ("ready", False)
