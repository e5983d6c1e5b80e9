"""What every check of a node's acceptance is made of: its three outcomes, readings that say nothing, raw output."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from fleet.rules.acceptance import FAIL, PASS, UNKNOWN, CardRead, Check, NodeSeen, Read
from fleet.rules.message import foreign, say

TAKE_GOLD = say("Take a golden profile of this node class, then accept again.")
PROBE_AGAIN = say("Probe the node; if it stays unread, look at the raw output.")


def passed(name: str, expected: str, found: str, evidence: tuple[str, ...] = ()) -> Check:
    """Return a check that passed."""
    return Check(name, PASS, expected, found, "", evidence)


def failed(name: str, expected: str, found: str, fix: str, evidence: tuple[str, ...] = ()) -> Check:
    """Return a check that failed; `fix` is the next step."""
    return Check(name, FAIL, expected, found, fix, evidence)


def unknown(
    name: str, expected: str, found: str, fix: str, evidence: tuple[str, ...] = ()
) -> Check:
    """Return a check of which nothing is known; `found` says why."""
    return Check(name, UNKNOWN, expected, found, fix, evidence)


def read_of(seen: NodeSeen, key: str) -> tuple[Any, str]:
    """Return the value of a fact, or None and why it says nothing."""
    fact = seen.facts.get(key)
    if fact is None:
        return None, say("%(key)s: no reading", key=key)
    if fact.value is None:
        return None, fact.problem or say("%(key)s: no reading", key=key)
    if fact.is_expired:
        return None, say("%(key)s: the reading is too old", key=key)
    return fact.value, ""


def raw_of(seen: NodeSeen, *keys: str) -> tuple[str, ...]:
    """Return where the raw output of these facts lies, each once."""
    found = [_raw(seen.facts.get(key)) for key in keys]
    return tuple(dict.fromkeys(raw for raw in found if raw))


def _raw(fact: Read | None) -> str:
    return f"{fact.command}/{fact.section}" if fact and fact.command and fact.section else ""


def cards_raw(cards: Iterable[CardRead]) -> tuple[str, ...]:
    """Return where the raw output of the table of cards lies."""
    return tuple(dict.fromkeys(f"{card.command}/gpu-query" for card in cards if card.command))


def is_number(value: Any) -> bool:
    """Tell whether a value is a number; true and false are none."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def words(value: Any, most: int = 80) -> str:
    """Return a node's own words for a sentence: cut, and never a sentence of ours."""
    return foreign(str(value))[:most]


def several(texts: Sequence[str]) -> str:
    """Return the first two of several sentences, and how many more there are."""
    shown = list(dict.fromkeys(texts))
    if len(shown) == 1:
        return shown[0]
    head = say("%(one)s; %(two)s", one=shown[0], two=shown[1])
    return head if len(shown) == 2 else say("%(head)s; %(n)s more", head=head, n=len(shown) - 2)
