from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
from django.db import connection
from django.utils import timezone

from fleet.execution.models import Host
from fleet.models import Hold, Node, TrailEntry
from fleet.rules.refusals import Conflict, NeedsReason, NotAllowed, Refused
from fleet.selectors.nodes import placeable
from fleet.services.holds import hold_add, hold_lift, holds_expire
from fleet.services.reach import reach_settle
from fleet.services.trail import rule_actor
from tests.factories import (
    make_actor,
    make_hold,
    make_node,
    make_nodes,
    make_person,
    make_pool,
    make_replica,
)


def names(nodes) -> set[str]:
    return {node.name for node in nodes}


@pytest.mark.django_db
class TestPlaceable:
    def test_a_ready_node_without_holds_is_placeable(self):
        node = make_node()
        assert names(placeable()) == {node.name}

    def test_one_live_hold_is_enough_to_keep_work_away(self):
        node = make_node()
        first, second = make_hold(node), make_hold(node, "acceptance")
        hold_lift(hold=first, reason="fans are fine", actor=make_actor())
        assert names(placeable()) == set()
        Hold.objects.filter(pk=second.pk).update(lifted_at=timezone.now())
        assert names(placeable()) == {node.name}

    @pytest.mark.parametrize(
        ("host", "state"),
        [
            ({"reach": Host.Reach.UNKNOWN}, Node.State.READY),
            ({"reach": Host.Reach.SUSPECT}, Node.State.READY),
            ({"key_state": Host.Key.CHANGED}, Node.State.READY),
            ({}, Node.State.ACCEPTANCE),
        ],
    )
    def test_what_is_not_known_to_be_good_is_not_placeable(self, host, state):
        make_node(host=host, state=state)
        assert names(placeable()) == set()


@pytest.mark.django_db
class TestHold:
    def test_it_is_stored_with_owner_reason_and_a_trail_entry(self):
        node = make_node()
        hold_add(node=node, kind="cordon", reason="fans", actor=make_actor("ana"))
        hold = Hold.objects.get()
        assert (hold.owner, hold.reason, hold.kind) == ("user:ana", "fans", "cordon")
        entry = TrailEntry.objects.get()
        assert (entry.verb, entry.object_id, entry.reason) == ("hold.add", node.name, "fans")
        assert Node.objects.get().version == node.version + 1

    def test_it_needs_words(self):
        with pytest.raises(NeedsReason):
            hold_add(node=make_node(), kind="cordon", reason=" ", actor=make_actor())
        assert not Hold.objects.exists()

    def test_an_unknown_kind_is_refused(self):
        with pytest.raises(Refused, match="cordon, drain, maintenance"):
            hold_add(node=make_node(), kind="banish", reason="x", actor=make_actor())

    def test_another_owners_hold_is_not_lifted_without_an_override(self):
        hold = make_hold(make_node(), "user:ana")
        with pytest.raises(Conflict, match="belongs to user:ana"):
            hold_lift(hold=hold, reason="I need the node", actor=make_actor("bo"))

    def test_an_override_needs_a_reason_and_is_in_the_trail(self):
        hold = make_hold(make_node(), "user:ana")
        with pytest.raises(NeedsReason):
            hold_lift(hold=hold, reason="", actor=make_actor("bo"), override=True)
        hold_lift(hold=hold, reason="ana is away", actor=make_actor("bo"), override=True)
        entry = TrailEntry.objects.get()
        assert (entry.actor, entry.verb, entry.reason) == ("bo", "hold.override", "ana is away")

    def test_a_rule_never_lifts_what_a_person_holds(self):
        hold = make_hold(make_node(), "user:ana")
        with pytest.raises(Conflict):
            hold_lift(hold=hold, reason="fault cleared", actor=rule_actor("unreachable"))

    def test_a_changed_host_key_is_not_overridden(self):
        hold = make_hold(make_node(), "host-key")
        with pytest.raises(NotAllowed, match="pinned again"):
            hold_lift(hold=hold, reason="trust me", actor=make_actor("dana"), override=True)

    def test_only_an_approver_lifts_a_hold_of_acceptance(self):
        hold = make_hold(make_node(), "acceptance")
        with pytest.raises(NotAllowed):
            hold_lift(
                hold=hold,
                reason="enough",
                actor=make_actor("ana"),
                user=make_person("ana"),
                override=True,
            )
        hold_lift(
            hold=hold,
            reason="enough",
            actor=make_actor("bo"),
            user=make_person("bo"),
            override=True,
        )

    def test_an_operator_of_another_pool_may_not_hold_a_node(self):
        node = make_node()
        make_replica(nodes=[node])
        other = make_person("eve", role="operator", pool=make_pool("dsv4"))
        with pytest.raises(NotAllowed, match="glm52"):
            hold_add(node=node, kind="cordon", reason="x", actor=make_actor("eve"), user=other)

    def test_the_second_lift_says_who_was_first(self):
        hold = make_hold(make_node())
        hold_lift(hold=hold, reason="done", actor=make_actor("ana"))
        with pytest.raises(Conflict, match="already lifted by ana"):
            hold_lift(hold=hold, reason="done", actor=make_actor("ana"))

    def test_it_ends_with_its_time_and_the_second_run_changes_nothing(self):
        node = make_node()
        make_hold(node, expires_at=timezone.now() - timedelta(seconds=1))
        make_hold(node, "user:bo", expires_at=timezone.now() + timedelta(hours=1))
        assert (holds_expire(), holds_expire()) == (1, 0)
        assert Hold.objects.filter(lifted_at=None).count() == 1
        assert TrailEntry.objects.get().actor == "rule:hold-expiry"


@pytest.mark.django_db
class TestReach:
    def test_an_unreachable_node_is_held_once_and_freed_when_it_answers(self):
        node = make_node(host={"reach": Host.Reach.UNREACHABLE})
        assert (reach_settle(), reach_settle()) == (1, 0)
        assert Hold.objects.get(lifted_at=None).owner == "unreachable"
        Host.objects.update(reach=Host.Reach.OK)
        assert (reach_settle(), reach_settle()) == (1, 0)
        assert names(placeable()) == {node.name}

    def test_a_persons_hold_stays_when_the_fault_clears(self):
        node = make_node(host={"reach": Host.Reach.UNREACHABLE})
        make_hold(node, "user:ana")
        reach_settle()
        Host.objects.update(reach=Host.Reach.OK)
        reach_settle()
        assert Hold.objects.get(lifted_at=None).owner == "user:ana"
        assert names(placeable()) == set()

    def test_a_changed_key_holds_the_node_with_both_fingerprints(self):
        make_node(host={"key_state": Host.Key.CHANGED, "offered_key": "ssh-ed25519 AAAA"})
        assert (reach_settle(), reach_settle()) == (1, 0)
        reason = Hold.objects.get().reason
        assert reason.count("SHA256:") == 2

    def test_a_node_that_booted_since_its_probe_goes_back_to_acceptance(self):
        from fleet.models import Fact

        node = make_node(host={"boot_id": "new"})
        Fact.objects.create(
            node=node,
            key="boot_id",
            value="old",
            observed_at=timezone.now(),
            expires_at=timezone.now() + timedelta(days=1),
        )
        assert (reach_settle(), reach_settle()) == (1, 0)
        node.refresh_from_db()
        assert node.state == Node.State.ACCEPTANCE
        assert "booted" in node.explanation


@pytest.mark.django_db(transaction=True)
def test_fifty_holds_and_ticks_at_once_end_without_a_deadlock():
    nodes = make_nodes(8)
    Host.objects.filter(name__in=["h100-001", "h100-005"]).update(reach=Host.Reach.UNREACHABLE)

    def hold(number: int) -> None:
        try:
            added = hold_add(
                node=nodes[number % 8],
                kind="cordon",
                reason=f"no. {number}",
                actor=make_actor(f"p{number}"),
            )
            if number % 2:
                hold_lift(hold=added, reason="done", actor=make_actor(f"p{number}"))
        finally:
            connection.close()

    def tick(number: int) -> None:
        reach = Host.Reach.OK if number % 2 else Host.Reach.UNREACHABLE
        try:
            Host.objects.filter(name="h100-001").update(reach=reach)
            reach_settle()
            holds_expire()
        finally:
            connection.close()

    with ThreadPoolExecutor(max_workers=12) as pool:
        jobs = [pool.submit(hold, number) for number in range(50)]
        jobs += [pool.submit(tick, number) for number in range(20)]
        for job in jobs:
            job.result(timeout=60)
    assert Hold.objects.filter(owner__startswith="user:").count() == 50
    assert Hold.objects.filter(owner__startswith="user:", lifted_at=None).count() == 25
    assert TrailEntry.objects.filter(verb="hold.add", actor__startswith="p").count() == 50
