"""Nodes are probed by the clock: only what is due, never twice at once, never against the brake."""

from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from fleet.execution.models import Command, Host
from fleet.models import Brake, Node, NodeProbe, ProbeRun, ProbeSchedule, TrailEntry
from fleet.rules.refusals import NotAllowed, Refused, Stale
from fleet.rules.schedule import EVERY_S, interval_problem, why_not_asked
from fleet.services.probes import probe_start
from fleet.services.schedule import probes_due, schedule_change, schedule_now
from fleet.tasks import tick
from tests.factories import make_actor, make_node, make_nodes, make_person

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _as_in_life(settings):
    settings.TIME_SCALE = 1.0


def asked(nodes: list[Node], ago_s: float, *, is_open: bool = False) -> None:
    """Let nodes have been probed so long ago."""
    run = probe_start(nodes=nodes, actor=make_actor())
    then = timezone.now() - timedelta(seconds=ago_s)
    ProbeRun.objects.filter(pk=run.pk).update(created_at=then)
    Command.objects.update(state="queued" if is_open else "succeeded")
    if not is_open:
        NodeProbe.objects.update(settled_at=then, verdict="pass")


def runs() -> list[str]:
    return list(ProbeRun.objects.order_by("pk").values_list("scope", flat=True))[1:]


def test_what_is_due_is_asked_once():
    asked(make_nodes(3), EVERY_S + 5)
    assert (probes_due(), probes_due()) == (3, 0)
    assert runs() == ["all"]
    told = TrailEntry.objects.filter(verb="probe.start").latest("pk")
    assert (told.actor, told.after["nodes"]) == ("rule:probe-schedule", 3)


def test_the_tick_asks_and_a_second_one_does_not_ask_again():
    asked(make_nodes(2), EVERY_S + 5)
    for _ in range(2):
        tick()
    assert Command.objects.filter(state="queued").count() == 2
    assert len(runs()) == 1


def test_what_was_asked_lately_or_by_a_person_is_not_due():
    asked(make_nodes(2), EVERY_S - 60)
    assert probes_due() == 0


def test_only_the_node_whose_time_has_come_is_asked():
    one, two = make_nodes(2)
    asked([one], EVERY_S + 5)
    asked([two], 30)
    assert probes_due() == 1
    assert runs()[-1] == one.name


def test_a_node_that_is_being_asked_is_not_asked_again():
    asked(make_nodes(2), EVERY_S * 9, is_open=True)
    assert probes_due() == 0


@pytest.mark.parametrize(
    ("node", "host", "is_asked"),
    [
        ({}, {}, True),
        ({"state": "quarantined"}, {}, True),
        ({"state": "registered"}, {}, False),
        ({"state": "retired"}, {}, False),
        ({}, {"key_state": "changed"}, False),
        ({}, {"key_state": "unset"}, False),
        ({}, {"reach": "unreachable"}, False),
        ({}, {"reach": "suspect"}, True),
    ],
)
def test_who_is_asked(node, host, is_asked):
    made = make_node(host=host)
    asked([made], EVERY_S + 5)
    Node.objects.filter(pk=made.pk).update(**node)
    Host.objects.filter(pk=made.pk).update(**host)
    assert probes_due() == int(is_asked)
    made.refresh_from_db()
    made.host.refresh_from_db()
    why = why_not_asked(state=made.state, key_state=made.host.key_state, reach=made.host.reach)
    assert (why == "") is is_asked


def test_a_node_that_no_person_ever_probed_is_left_to_them():
    make_node()
    assert probes_due() == 0


def test_the_brake_stops_it_and_its_end_lets_it_go_on():
    asked([make_node()], EVERY_S + 5)
    brake = Brake.objects.create(cause="too many")
    assert probes_due() == 0
    Brake.objects.filter(pk=brake.pk).update(cleared_at=timezone.now())
    assert probes_due() == 1


def test_a_large_fleet_is_asked_in_parts_the_longest_unasked_first():
    nodes = make_nodes(5)
    for number, node in enumerate(nodes):
        asked([node], EVERY_S + 5 + number)
    assert (probes_due(limit=2), runs()[-1]) == (2, "h100-[004-005]")
    assert (probes_due(limit=2), runs()[-1]) == (2, "h100-[002-003]")
    assert (probes_due(limit=2), probes_due(limit=2)) == (1, 0)


def test_the_number_of_queries_does_not_grow_with_the_nodes():
    def queries(nodes) -> int:
        asked(nodes, EVERY_S + 5)
        with CaptureQueriesContext(connection) as seen:
            assert probes_due() == len(nodes)
        return len(seen.captured_queries)

    nodes = make_nodes(12)
    assert queries(nodes[2:]) == queries(nodes[:2])


def change(every_s: int, who: str = "dana", version: int | None = None) -> ProbeSchedule:
    base = schedule_now().version if version is None else version
    return schedule_change(
        every_s=every_s, version=str(base), actor=make_actor(who), user=make_person(who)
    )


def test_an_admin_changes_the_interval_and_switches_it_off():
    asked([make_node()], 200)
    assert schedule_now().every_s == EVERY_S
    change(120)
    assert probes_due() == 1
    NodeProbe.objects.update(settled_at=timezone.now())
    ProbeRun.objects.update(created_at=timezone.now() - timedelta(days=1))
    change(0)
    assert probes_due() == 0
    told = TrailEntry.objects.filter(verb="schedule.change").latest("pk")
    assert (told.before, told.after, told.actor) == ({"every_s": 120}, {"every_s": 0}, "dana")


def test_an_older_page_another_role_or_a_senseless_interval_changes_nothing():
    change(600)
    with pytest.raises(Stale):
        change(300, version=1)
    with pytest.raises(NotAllowed):
        change(300, who="ana")
    for wrong in (1, 59, 86_401):
        assert interval_problem(wrong)
        with pytest.raises(Refused, match="expected 0 for never, or 1 to 1440 minutes"):
            change(wrong)
    assert schedule_now().every_s == 600
