"""A host key that changes while the watch has a connection open."""

from typing import Any

import pytest

from fleet.execution.models import Host
from fleet.models import Hold
from fleet.services.reach import reach_settle
from tests.factories import make_node

pytestmark = [pytest.mark.lab, pytest.mark.django_db(transaction=True)]


def test_it_is_noticed_by_the_scan_blocks_the_node_and_stops_what_is_read(
    node: Any, lab: Any, start_watch: Any, wait_until: Any
) -> None:
    make_node(on=node.host)
    subject = node.start("t-key", ["sh", "-c", "while :; do echo tick; sleep 0.2; done"])
    start_watch(TIME_SCALE="20")

    def row() -> Host:
        return Host.objects.get(pk=node.host.pk)

    def lines() -> int:
        subject.stream.refresh_from_db()
        return int(subject.stream.line_count)

    wait_until(lambda: lines() > 3, 60, "some lines")
    lab.fault(node.host.name, "ssh.hostkey")
    shown = lab.host(node.host.name).directory / "hostkey.pub"
    wait_until(lambda: row().key_state == Host.Key.CHANGED, 60, "the changed key to be noticed")
    assert row().host_key == node.host.host_key, "what a person pinned stays"
    assert row().offered_key.split()[:2] == shown.read_text().split()[:2]
    reach_settle()
    hold = Hold.objects.get(node=node.host.node, lifted_at=None)
    assert (hold.owner, hold.kind) == ("host-key", "cordon")
    assert node.connection.shim("status", "t-key", 0, [], deadline=20)[0]["answer"] == "RUNNING", (
        "what runs there runs on"
    )
    wait_until(_stands_still(lines), 30, "nothing more to be read")


def _stands_still(count: Any) -> Any:
    seen: list[int] = []

    def is_still() -> bool:
        seen.append(count())
        return len(seen) > 10 and len(set(seen[-10:])) == 1

    return is_still
