"""The Xid table: class, suggested action and expiry of each code, what follows what, and what ends an event."""

from datetime import UTC, datetime, timedelta

import pytest

from fleet.readings.kernel_log.classes import CATALOGUE, xid_class
from fleet.rules import xids
from fleet.rules.message import said

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
DAY = timedelta(hours=24)


def row(code: int, bus: str = "0000:4e:00", *, hours: float = 1, **fields) -> dict:
    at = (NOW - timedelta(hours=hours)).strftime("%Y-%m-%dT%H:%M:%S,%f+00:00")  # as dmesg writes it
    return {"code": code, "bus": bus, "count": 1, "at": at, "last_at": at, **fields}


def one(code: int, *others: int, **how) -> xids.Event:
    return xids.events([row(code), *map(row, others)], **how)[0]


TABLE = [
    # code, class, what the action says, expiry
    (13, "app", "Restart the unit", DAY),
    (31, "app", "Restart the unit", DAY),
    (43, "app", "Restart the unit", DAY),
    (45, "app", "Restart the unit", DAY),  # alone: its own program; beside another it follows
    (48, "reset", "Reset the card", None),  # alone; beside 94, 95, 64 as those
    (63, "info", "at the next drain", DAY),
    (74, "reset", "Reset the card", None),
    (79, "hardware", "Power the node off and on", None),
    (94, "app", "reset the card at the next drain", DAY),
    (95, "reset", "Reset the card", None),
    (119, "reset", "Reset the card", None),
    (999, "ask", "A person decides", None),
]


@pytest.mark.parametrize(("code", "kind", "action", "expires"), TABLE)
def test_each_code_has_its_class_action_and_expiry(code, kind, action, expires):
    found = one(code, now=NOW)
    assert (found.kind, found.expires, found.is_over) == (kind, expires, False)
    assert action in said(found.action)


@pytest.mark.parametrize(("code", "_kind", "_action", "expires"), TABLE)
def test_only_a_class_with_an_expiry_is_over_after_it(code, _kind, _action, expires):
    (found,) = xids.events([row(code, hours=24)], now=NOW)
    assert found.is_over is (expires is not None)


def test_the_table_names_its_version():
    assert datetime.fromisoformat(CATALOGUE)


@pytest.mark.parametrize(
    ("code", "beside", "kind"),
    [
        (45, 79, "follow"),
        (48, 94, "app"),
        (48, 95, "reset"),
        (48, 64, "hardware"),
        (48, 13, "reset"),  # a program's fault explains no broken memory
        (137, 74, "follow"),
    ],
)
def test_a_code_that_follows_is_what_stands_beside_it(code, beside, kind):
    assert one(code, beside).kind == kind


def test_what_another_card_says_explains_nothing_of_this_one():
    found = xids.events([row(48, "0000:4e:00"), row(94, "0000:9a:00")])
    assert found[0].kind == "reset"


@pytest.mark.parametrize(
    ("action", "kind"),
    [("None", "info"), ("GPU Reset Required", "reset"), ("Node Reboot Required", "reset"),
     ("Drain P2P", "ask"), ("", "ask")],
)  # fmt: skip
def test_the_last_recovery_action_is_believed(action, kind):
    (found,) = xids.events([row(154, action=action)])
    assert found.kind == kind


@pytest.mark.parametrize(
    ("text", "kind"),
    [("Fatal, Link 3", "reset"), ("Non-fatal, Link 3", "info"), ("Nonfatal", "info"), ("", "ask")],
)
def test_a_unit_of_nvlink_is_as_grave_as_its_line_says(text, kind):
    (found,) = xids.events([row(145, text=text)])
    assert found.kind == kind


@pytest.mark.parametrize(("code", "is_over"), [(74, True), (999, True), (79, False), (54, False)])
def test_a_person_answers_for_a_reset_and_an_unknown_code_never_for_hardware(code, is_over):
    answered = NOW - timedelta(minutes=59)
    assert one(code, answered_at=answered).is_over is is_over
    assert not one(code, answered_at=NOW - timedelta(minutes=61)).is_over, "it came afterwards"
    assert not one(code).is_over


@pytest.mark.parametrize("told", [{"last_at": None, "count": 2}, {"last_at": "yesterday"}])
def test_an_event_whose_time_is_not_known_is_not_answered(told):
    (found,) = xids.events([{**row(999), **told}], answered_at=NOW)
    assert not found.is_over


def test_a_new_line_of_an_old_event_is_not_answered():
    lines = row(74, hours=30, count=2, last_at=row(74)["at"])
    (found,) = xids.events([lines], answered_at=NOW - timedelta(hours=2))
    assert not found.is_over


def test_no_code_is_without_class_or_action():
    for code in range(200):
        assert said(one(code).action)
        assert one(code).kind in xids.EXPIRES
        assert xid_class(code)
