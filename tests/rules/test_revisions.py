"""Whether a node holds a revision: the console's check decides, but for what a later probe does not find."""

from datetime import timedelta

import pytest

from fleet.rules.message import said
from fleet.rules.revisions import (
    ABSENT,
    GONE,
    HELD,
    NOT_VERIFIED,
    UNREAD,
    RevisionsSeen,
    judge_revision,
    revisions_held,
)
from releases.rules.weights_held import judge_held
from tests.factories import NOON

ONE, TWO = "glm/aaa", "glm/bbb"
KNOWN = {ONE: "WA-0001"}
EARLIER, LATER = NOON - timedelta(minutes=1), NOON + timedelta(minutes=1)
CASES = [
    (RevisionsSeen(), UNREAD),
    (RevisionsSeen(frozenset(), NOON), ABSENT),
    (RevisionsSeen(frozenset({ONE}), NOON), HELD),
    (RevisionsSeen(frozenset({ONE}), NOON, KNOWN), NOT_VERIFIED),
    (RevisionsSeen(frozenset({ONE}), NOON, KNOWN, {ONE: ("copying", None)}), NOT_VERIFIED),
    (RevisionsSeen(None, None, KNOWN, {ONE: ("ready", NOON)}), HELD),
    (RevisionsSeen(frozenset({ONE}), LATER, KNOWN, {ONE: ("ready", NOON)}), HELD),
    (RevisionsSeen(frozenset(), EARLIER, KNOWN, {ONE: ("ready", NOON)}), HELD),
    (RevisionsSeen(frozenset(), LATER, KNOWN, {ONE: ("ready", NOON)}), GONE),
    (RevisionsSeen(frozenset(), LATER, KNOWN, {ONE: ("ready", None)}), GONE),
]


@pytest.mark.parametrize(("seen", "verdict"), CASES)
def test_the_check_decides_unless_a_later_probe_misses_the_mark(seen, verdict):
    assert judge_revision(seen, ONE) == verdict


@pytest.mark.parametrize(("seen", "verdict"), CASES)
@pytest.mark.parametrize("is_rollback", [False, True])
def test_a_node_is_named_once_or_not_at_all(seen, verdict, is_rollback):
    told = judge_held(directory=ONE, release="REL-1", nodes={"h1": seen}, is_rollback=is_rollback)
    assert len(told) == (verdict not in (HELD, UNREAD))
    assert all(said(one).startswith("h1 ") for one in told)


def test_what_a_node_holds_is_what_is_judged_held():
    seen = RevisionsSeen(frozenset({ONE, TWO}), NOON, KNOWN)
    assert revisions_held(seen) == {TWO}, "the console knows ONE and never verified it there"
    assert revisions_held(RevisionsSeen()) is None
    assert revisions_held(RevisionsSeen(None, None, KNOWN)) is None
    assert revisions_held(RevisionsSeen(None, None, KNOWN, {ONE: ("ready", NOON)})) == {ONE}
    assert revisions_held(RevisionsSeen(frozenset(), NOON)) == frozenset()
