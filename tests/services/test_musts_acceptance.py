"""Node acceptance fails closed: what a test printed badly, what the kernel told, and what a wrong clock shows."""

from datetime import timedelta

import pytest
from django.utils import timezone

from fleet.execution.models import Subject
from fleet.models import Evidence, Hold, Node, NodeAcceptance, TrailEntry
from fleet.rules.message import said
from fleet.rules.refusals import Conflict, NeedsReason
from fleet.selectors import serving
from fleet.selectors.nodes import placeable
from fleet.services.acceptances import acceptance_start, acceptances_advance
from fleet.services.holds import hold_lift
from tests.acceptances import (
    BUSBW_GBS,
    PINS,
    accepted_now,
    answer_all,
    answer_looks,
    answer_probes,
    dd_text,
    end_test,
    make_gold,
    make_good,
    nccl_table,
)
from tests.factories import make_actor, make_node, make_person
from tests.probe_texts import KERNEL_LOG

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def pins(monkeypatch):
    monkeypatch.setattr(serving, "_SOURCES", [lambda nodes: {node.pk: [PINS] for node in nodes}])


@pytest.fixture
def node():
    make_gold()
    return make_node()


def start(node: Node) -> None:
    make_good(node)
    acceptance_start(nodes=[node], actor=make_actor(), user=make_person())


def newest(node: Node) -> NodeAcceptance:
    node.refresh_from_db()
    return NodeAcceptance.objects.filter(node=node).latest("pk")


def check(row: NodeAcceptance, name: str) -> dict:
    return next(one for one in row.checks if one["name"] == name)


def after_tests(node: Node, step: str, text: str, rc: int = 0) -> NodeAcceptance:
    """Carry an acceptance to its verdict; one of its two tests ends with this text and exit code."""
    start(node)
    answer_probes()
    acceptances_advance()
    answer_looks()
    texts = {"nccl": (nccl_table(), 0), "disk": (dd_text(), 0)} | {step: (text, rc)}
    for subject in Subject.objects.exclude(state="done"):
        end_test(subject, *texts[subject.name.rpartition("-")[2]])
    acceptances_advance()
    return newest(node)


def in_unit(unit: str) -> str:
    """The same table, its columns in another unit than GB/s."""
    return nccl_table(BUSBW_GBS * 1000).replace("(GB/s)", f"({unit})")


def without_rows() -> str:
    """A table whose head and summary are there, and no row of it."""
    return "\n".join(
        line for line in nccl_table().splitlines() if line.startswith("#") or not line.strip()
    )


def cut(tenths: int) -> str:
    whole = nccl_table()
    return whole[: len(whole) * tenths // 10] + "\n"


BAD_TABLES = [
    *((f"cut at {tenths} tenths", cut(tenths), 0) for tenths in range(1, 10)),
    ("in MB/s", in_unit("MB/s"), 0),
    ("in Gb/s", in_unit("Gb/s"), 0),
    ("without rows", without_rows(), 0),
    ("empty", "\n", 0),
    ("no error, exit code 1", nccl_table(), 1),
    ("good numbers, killed", nccl_table(), 137),
    ("good numbers, no container", nccl_table(), 125),
]


@pytest.mark.parametrize(
    ("text", "rc"), [row[1:] for row in BAD_TABLES], ids=[r[0] for r in BAD_TABLES]
)
def test_a_bad_table_is_never_accepted_and_its_raw_output_is_linked(node, text, rc):
    row = after_tests(node, "nccl", text, rc)
    assert row.verdict in ("rejected", "not_measured")
    found = check(row, "allreduce")
    assert found["verdict"] in ("fail", "unknown")
    assert not accepted_now([node.pk])
    (evidence,) = found["evidence"]
    kept = bytes(Evidence.objects.get(pk=int(evidence.partition(":")[2])).body).decode()
    assert kept.strip() == text.strip()


BAD_READS = [
    ("cut", dd_text()[:40], 0),
    ("without a rate", "reading /models/a\n", 0),
    ("in an unknown unit", dd_text().replace("GB/s", "furlongs/s").replace(" s,", " d,"), 0),
    ("empty", "\n", 0),
    ("a good rate, exit code 1", dd_text(), 1),
]


@pytest.mark.parametrize(
    ("text", "rc"), [row[1:] for row in BAD_READS], ids=[r[0] for r in BAD_READS]
)
def test_a_bad_read_of_the_disk_is_never_accepted(node, text, rc):
    row = after_tests(node, "disk", text, rc)
    assert row.verdict in ("rejected", "not_measured")
    assert check(row, "disk_read")["verdict"] in ("fail", "unknown")
    assert not accepted_now([node.pk])


def test_the_same_steps_with_good_outputs_are_accepted(node):
    assert after_tests(node, "nccl", nccl_table()).verdict == "accepted"


# -- Xids


def kernel(*codes: int, hours: float = 1.0) -> bytes:
    """A kernel log with these Xids on one card."""
    at = (timezone.now() - timedelta(hours=hours)).strftime("%Y-%m-%dT%H:%M:%S,%f+00:00")
    lines = [f"{at} NVRM: Xid (PCI:0000:4e:00): {code}, pid=1, name=x, said so" for code in codes]
    return (KERNEL_LOG + "\n".join(lines) + "\n").encode()


def accept(node: Node, *codes: int, hours: float = 1.0) -> NodeAcceptance:
    start(node)
    answer_all(**({"kernel_log": kernel(*codes, hours=hours)} if codes else {}))
    return newest(node)


def lift(node: Node, reason: str = "the card was reset", by: str = "bo") -> None:
    hold = Hold.objects.get(node=node, owner="acceptance", lifted_at=None)
    hold_lift(hold=hold, reason=reason, actor=make_actor(by), override=True)


@pytest.mark.parametrize(
    ("code", "verdict", "words"),
    [
        (13, "pass", ""), (31, "pass", ""), (43, "pass", ""), (45, "pass", ""), (63, "pass", ""),
        (94, "pass", ""), (48, "fail", "Reset the card"), (74, "fail", "Reset the card"),
        (79, "fail", "Power the node off and on"), (95, "fail", "Reset the card"),
        (119, "fail", "Reset the card"), (999, "marginal", "A person decides"),
    ],
)  # fmt: skip
def test_each_xid_of_the_table_has_its_check_action_and_line(node, code, verdict, words):
    found = check(accept(node, code), "xid")
    assert (found["verdict"], words in said(found["next"])) == (verdict, True)
    assert found["evidence"][0].endswith("/host"), "the lines themselves are one click away"


def test_an_unknown_xid_asks_a_person_and_the_node_is_not_used_meanwhile(node):
    row = accept(node, 999)
    assert (row.verdict, node.state) == ("marginal", Node.State.READY), "neither broken nor healthy"
    hold = Hold.objects.get(lifted_at=None)
    assert (hold.owner, said(hold.reason)) == ("acceptance", "Xid 999 (Xid 999)")
    assert not placeable().exists()
    with pytest.raises(Conflict):
        hold_lift(hold=hold, reason="looked it up", actor=make_actor("bo"))
    with pytest.raises(NeedsReason):
        lift(node, reason=" ")
    assert accept(node, 999).verdict == "marginal", "nobody has answered"
    lift(node, reason="a test message of the driver")
    assert accept(node, 999).verdict == "accepted"
    assert placeable().exists()
    told = TrailEntry.objects.get(verb="hold.override")
    assert (told.actor, told.reason) == ("bo", "a test message of the driver")


@pytest.mark.parametrize("code", [48, 74, 95, 119])
def test_a_reset_card_comes_back_by_a_person_and_a_new_acceptance(node, code):
    assert (accept(node, code).verdict, node.state) == ("rejected", Node.State.QUARANTINED)
    assert accept(node, code).verdict == "rejected", "time alone ends nothing"
    lift(node)
    assert (accept(node, code).verdict, node.state) == ("accepted", Node.State.READY)
    assert not Hold.objects.filter(lifted_at=None).exists()


def test_what_the_kernel_tells_after_the_answer_is_judged_anew(node):
    accept(node, 74)
    lift(node)
    assert accept(node, 74, hours=-0.1).verdict == "rejected"


def test_a_card_off_the_bus_is_answered_by_no_word_only_by_a_clean_log(node):
    accept(node, 79)
    lift(node, reason="looks fine to me")
    assert accept(node, 79).verdict == "rejected"
    lift(node, reason="power cycled")
    assert (accept(node).verdict, node.state) == ("accepted", Node.State.READY)


def test_an_unknown_xid_on_busy_cards_asks_a_person_too(node):
    start(node)
    answer_probes(kernel_log=kernel(999))
    NodeAcceptance.objects.filter(node=node).update(skipped="")
    acceptances_advance()
    answer_looks()
    for subject in Subject.objects.exclude(state="done"):
        end_test(subject, "\n", 125)
    acceptances_advance()
    assert newest(node).verdict == "not_measured"
    assert said(Hold.objects.get(lifted_at=None).reason) == "Xid 999 (Xid 999)"
