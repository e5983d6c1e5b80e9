"""All nodes of a small lab accepted against gold, one rejected for a real injected fault and accepted again."""

import pytest

from fleet.execution.models import Command, Subject
from fleet.models import Evidence, Fact, Hold, Node, NodeAcceptance
from fleet.rules.message import said
from tests.acceptances import accepted_now

pytestmark = [
    pytest.mark.lab,
    pytest.mark.django_db(transaction=True),
    pytest.mark.parametrize("lab", [4], indirect=True),
]


def accept(console, *nodes: Node) -> list[NodeAcceptance]:
    """Accept nodes as Ana would, and wait for the last verdict."""
    from django.contrib.auth import get_user_model

    from fleet.services.acceptances import acceptance_start
    from fleet.services.trail import Actor

    ana = get_user_model().objects.get(username="ana")
    run = acceptance_start(nodes=list(nodes), actor=Actor(name="ana"), user=ana)

    def is_over() -> bool:
        run.refresh_from_db()
        return run.ended_at is not None

    console.until(is_over, "every node to be judged")
    return list(run.nodes.select_related("node__host").order_by("node__host__name"))


def node(name: str) -> Node:
    return Node.objects.get(host__name=name)


def not_passed(row: NodeAcceptance) -> dict[str, str]:
    return {
        check["name"]: f"{check['verdict']}: {said(check['found'])}"
        for check in row.checks
        if check["verdict"] != "pass"
    }


def make_gold(name: str) -> None:
    """Take the profile of a measured node as Ana, and make it current as Bo."""
    from django.contrib.auth import get_user_model

    from fleet.services.golden import profile_make_current, profile_take
    from fleet.services.trail import Actor

    people = {person.username: person for person in get_user_model().objects.all()}
    profile = profile_take(
        node=node(name), reason="first of its class", actor=Actor(name="ana"), user=people["ana"]
    )
    profile_make_current(
        profile=profile, reason="measured twice", actor=Actor(name="bo"), user=people["bo"]
    )


def test_accept_all_finds_the_one_bad_node_and_takes_it_back_when_it_is_mended(console):
    (first,) = accept(console, node("h100-001"))
    assert first.verdict == "not_measured"
    assert "golden profile" in not_passed(first)["nvlink"]
    assert Fact.objects.get(node=first.node, key="allreduce_busbw_gbs").value > 400
    make_gold("h100-001")

    console.lab.fault("h100-003", "gpu.xid79", gpu=3)
    console.lab.fault("h100-004", "gpu.xid94", gpu=5)
    rows = {row.node.name: row for row in accept(console, *Node.objects.all())}
    good = {name: rows[name] for name in ("h100-001", "h100-002")}
    assert {name: not_passed(row) for name, row in good.items()} == {name: {} for name in good}
    assert {row.verdict for row in good.values()} == {"accepted"}
    lost, errors = rows["h100-003"], rows["h100-004"]
    assert (lost.verdict, errors.verdict) == ("rejected", "rejected")
    assert "GPU 3" in not_passed(lost)["cards"]
    assert "Xid 79" in not_passed(lost)["xid"]
    assert "unknown: not run" in not_passed(lost)["allreduce"]
    assert "uncorrected ECC on GPU 5" in said(errors.summary)
    assert set(not_passed(errors)) >= {"ecc", "remap"}
    for name in ("h100-003", "h100-004"):
        held = node(name)
        assert held.state == Node.State.QUARANTINED
        assert Hold.objects.get(node=held, lifted_at=None).owner == "acceptance"
    assert Evidence.objects.filter(object_kind="acceptance", is_rehearsal=True).count() == 9
    assert accepted_now(Node.objects.values_list("pk", flat=True)) == {
        row.node_id for row in good.values()
    }

    console.lab.fault("h100-003", "node.reboot")
    (again,) = accept_when_back(console, "h100-003")
    assert not_passed(again) == {}
    assert node("h100-003").state == Node.State.READY
    assert not Hold.objects.filter(node__host__name="h100-003", lifted_at=None).exists()
    assert node("h100-004").state == Node.State.QUARANTINED

    console.lab.fault("h100-001", "node.reboot")
    console.until(
        lambda: NodeAcceptance.objects.filter(
            node__host__name="h100-001", voided_at__isnull=False
        ).exists(),
        "the reboot to end an acceptance",
    )
    assert (console.lab.directory / "unknown.log").read_text() == ""


def accept_when_back(console, name: str) -> list[NodeAcceptance]:
    console.until(lambda: node(name).host.reach == "ok", "the node to be back")
    rows = accept(console, node(name))
    if rows[0].verdict == "not_measured":  # it was asked while it still came up
        console.until(lambda: node(name).host.reach == "ok", "the node to be back")
        rows = accept(console, node(name))
    return rows


@pytest.mark.long
@pytest.mark.parametrize(
    ("victim", "point"), [("tick", "acceptance-asked"), ("hand", "start-sent")]
)
def test_a_killed_conductor_or_hand_loses_and_doubles_nothing(
    bare_console, tmp_path, victim, point
):
    file = tmp_path / "fault"
    file.write_text(point)
    env = {"FAULT_POINT": f"@{file}"}
    of_hands = env if victim == "hand" else {}
    bare_console.start_hand(
        **of_hands
    )  # the first of the two that starts something dies: it fires once
    bare_console.start_hand(**of_hands)
    bare_console.start_conductor(**(env if victim == "tick" else {}))
    rows = accept(bare_console, node("h100-001"), node("h100-002"))
    assert (tmp_path / "fault.fired").exists(), "somebody was killed there"
    for row in rows:
        assert row.verdict == "not_measured", "there is no gold"
        measured = Fact.objects.filter(
            node=row.node, key__in=["allreduce_busbw_gbs", "disk_read_gbs"]
        )
        assert measured.count() == 2
        assert said(row.summary)
        assert "deadline" not in said(row.summary)
    subjects = Subject.objects.filter(name__startswith="accept-")
    assert sorted(subjects.values_list("state", "rc", "epoch")) == [("done", 0, 1)] * 4
    assert Command.objects.filter(verb="start").count() == 4
