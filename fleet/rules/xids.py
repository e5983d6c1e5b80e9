"""What the Xids of a kernel log ask for, card by card: class, suggested action, expiry and way back. Pure.

The classes of single codes are readings/kernel_log/classes.py (catalogue of CATALOGUE); here stands what follows from
them. Source: NVIDIA's Xid catalogue; our policy: design, diagnosis D04. A code that nobody knows means neither healthy
nor broken: a person decides, and the node is not used meanwhile.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from fleet.readings.kernel_log.classes import XidClass, xid_class
from fleet.rules.message import say

# A note, or the fault of a program that ended: after a day it says nothing of the card any more.
EXPIRES: dict[XidClass, timedelta | None] = {
    "app": timedelta(hours=24),
    "info": timedelta(hours=24),
    "follow": timedelta(hours=24),
    "reset": None,
    "hardware": None,
    "ask": None,
}
# What ends an event that no time ends.
ENDS: dict[XidClass, str] = {
    "reset": say(
        "Reset the card or reboot the node, lift the hold with that reason, accept again."
    ),
    "hardware": say("Power the node off and on, or replace the card, then accept again."),
    "ask": say(
        "A person decides: look the code up, lift the hold with what was found, accept again."
    ),
}
_ACTIONS: dict[XidClass, str] = {
    "app": say("Restart the unit; the card stays trusted."),
    "info": say("Nothing to do; it is a note."),
    "follow": say("Look at the code that it follows."),
    **ENDS,
}
_OF_CODE = {
    63: say("Reset the card at the next drain."),
    94: say("Restart the unit; reset the card at the next drain."),
}
_SEVERE, _MILD = "fatal", ("non-fatal", "nonfatal")
_NVLINK5 = range(144, 151)
# Xid 154 names the action itself (NVML's recovery actions).
_RECOVERY: tuple[tuple[str, XidClass], ...] = (
    ("none", "info"), ("p2p", "ask"), ("reset", "reset"), ("reboot", "reset"),
)  # fmt: skip


@dataclass(frozen=True)
class Event:
    """One code of one card. `is_over`: its time has passed, or a person answered for it."""

    code: int
    bus: str
    kind: XidClass
    action: str
    expires: timedelta | None
    is_over: bool


def events(
    rows: Iterable[Any], *, now: datetime | None = None, answered_at: datetime | None = None
) -> list[Event]:
    """Return the events of a kernel log as a probe stores them; rows without a code are left out.

    `answered_at`: up to when a person has answered, by lifting the hold of an acceptance with a reason; it ends what
    came before, hardware excepted. Without `now` no time ends anything.
    """
    known = [row for row in rows if code_of(row) is not None]
    beside: dict[str, set[int]] = defaultdict(set)
    for row in known:
        beside[_bus(row)].add(code_of(row) or 0)
    everywhere = {code_of(row) or 0 for row in known}
    return [_event(row, beside[_bus(row)], everywhere, now, answered_at) for row in known]


def code_of(row: Any) -> int | None:
    """Return the code of a stored row, or None."""
    code = row.get("code") if isinstance(row, dict) else row
    return code if isinstance(code, int) and not isinstance(code, bool) else None


def is_answered(row: Any, answered_at: datetime | None) -> bool:
    """Whether every line of this event is older than a person's answer. An event without a time never is."""
    last = _last_at(row)
    return answered_at is not None and last is not None and last <= answered_at


def _event(
    row: Any,
    beside: set[int],
    everywhere: set[int],
    now: datetime | None,
    answered_at: datetime | None,
) -> Event:
    code = code_of(row) or 0
    kind = _kind(row, code, beside, everywhere)
    expires, last = EXPIRES[kind], _last_at(row)
    is_old = now is not None and expires is not None and last is not None and last + expires <= now
    is_over = is_old or (kind in ("reset", "ask") and is_answered(row, answered_at))
    return Event(code, _bus(row), kind, _OF_CODE.get(code, _ACTIONS[kind]), expires, is_over)


def _kind(row: Any, code: int, beside: set[int], everywhere: set[int]) -> XidClass:
    kind = xid_class(code)
    if kind != "follow":
        return kind
    if code == 154:
        return _recovery(str(row.get("action") or "") if isinstance(row, dict) else "")
    if code in _NVLINK5:
        return _by_severity(str(row.get("text") or "") if isinstance(row, dict) else "")
    if code == 48:
        return _double_bit(beside)
    if code == 45:  # a clean-up: of another event, or alone of its own program
        return "follow" if beside - {45} else "app"
    return "follow" if everywhere - {code} else "ask"  # the cause is on the peer of this card


def _double_bit(beside: set[int]) -> XidClass:
    """What an uncorrectable error of memory means is told by how it was contained."""
    for other, kind in ((64, "hardware"), (95, "reset"), (94, "app")):
        if other in beside:
            return kind  # type: ignore[return-value]
    return "reset"


def _recovery(action: str) -> XidClass:
    lowered = action.lower()
    return next((kind for word, kind in _RECOVERY if word in lowered), "ask")


def _by_severity(text: str) -> XidClass:
    lowered = text.lower()
    if any(word in lowered for word in _MILD):
        return "info"
    return "reset" if _SEVERE in lowered else "ask"


def _bus(row: Any) -> str:
    return str(row.get("bus") or "") if isinstance(row, dict) else ""


def _last_at(row: Any) -> datetime | None:
    """When the newest line of an event was written; None when that is not known."""
    if not isinstance(row, dict):
        return None
    told = row.get("last_at") or (row.get("at") if row.get("count") == 1 else None)
    try:
        found = datetime.fromisoformat(str(told).replace(",", "."))
    except ValueError:
        return None
    return found if found.tzinfo is not None else None


def still_open(found: Sequence[Event], *kinds: XidClass) -> list[int]:
    """Return the codes of these kinds that nothing has ended, each once, in the order of the log."""
    return list(dict.fromkeys(one.code for one in found if one.kind in kinds and not one.is_over))


def action_for(found: Sequence[Event], codes: Sequence[int]) -> str:
    """Return what the first of these codes asks for."""
    return next((one.action for one in found if one.code in codes and not one.is_over), "")
