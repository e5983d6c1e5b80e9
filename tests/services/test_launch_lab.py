"""What the lab launches when it is switched on again: what was there before, and no canary."""

import pytest
from django.core.management import call_command

from fleet.models import Replica
from releases.management.commands import launch_lab
from releases.models import Launch
from tests.rollouts import make_world

pytestmark = pytest.mark.django_db


def test_a_unit_comes_back_with_what_it_served_and_a_canary_does_not(monkeypatch):
    world = make_world(units=2)
    # One wave of a rollout has passed when everything is switched off.
    world.new.state, world.old.state = "in_service", "superseded"
    world.new.save(), world.old.save()
    first, second = Launch.objects.order_by("pk")
    Launch.objects.filter(pk=first.pk).update(release=world.new)
    canary = Replica.objects.create(name="glm52-c1", pool=world.pool, is_canary=True)
    Launch.objects.update(state="failed")
    Replica.objects.update(state="failed")
    asked = {}

    def create(*, replica, release, actor):
        asked[replica.name] = release.title
        return first

    monkeypatch.setattr(launch_lab, "launch_create", create)
    call_command("launch_lab", "glm52", wait=5)
    assert asked == {first.replica.name: "new", second.replica.name: "old"}
    assert canary.name not in asked
