"""What needs a person on the fleet page: at most six lines, worst first, each with its next action."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from fleet.marks import CRIT, HOLD, IDLE, WARN, Mark, mark_of
from fleet.rules.message import said
from fleet.selectors.control import ControlState
from fleet.selectors.fleet import NodeRow, PoolSeen, UnitSeen
from fleet.selectors.units import BROKEN, IN_DOUBT

MOST = 6
NAMED = 3  # nodes with the same trouble that are named before the rest is counted


@dataclass(frozen=True)
class Link:
    text: str
    url: str


@dataclass(frozen=True)
class Item:
    mark: Mark
    title: str
    detail: str = ""
    links: tuple[Link, ...] = field(default_factory=tuple)


def attention_items(
    rows: list[NodeRow], pools: list[PoolSeen], control: ControlState | None
) -> list[Item]:
    """Build every line; the page shows the first MOST and counts the rest. The brake has a panel of its own."""
    return [
        *(_console(control) if control else ()),
        *_units(pools),
        *_doubted(pools),
        *_nodes(rows),
        *_waiting(rows),
        *_unprobed(rows),
    ]


def _failed() -> Mark:
    return Mark(CRIT, "crit", _("Failed"))


def _warned() -> Mark:
    return Mark(WARN, "warn", _("Attention"))


def _console(control: ControlState) -> Iterator[Item]:
    if control.is_conductor_silent:
        yield Item(
            _warned(),
            _("No conductor is ticking"),
            _("Launches and probes do not advance. Start the conductor and its beat."),
        )
    if control.is_watch_silent:
        yield Item(
            _warned(),
            _("The watch is silent"),
            _("Reachability and logs grow old; nothing is judged by them. Start the watch."),
        )


def _units(pools: list[PoolSeen]) -> Iterator[Item]:
    for pool in pools:
        for unit in pool.units:
            if unit.state not in BROKEN:
                continue
            links = [Link(_("Unit"), reverse("replica", args=[unit.name]))]
            if unit.generation:
                links.append(
                    Link(_("Launch"), reverse("launch", args=[unit.name, unit.generation]))
                )
                links.append(Link(_("Log"), reverse("log", args=[unit.name, unit.generation])))
            title = _("%(unit)s, generation %(n)d") % {"unit": unit.name, "n": unit.generation}
            yield Item(_failed(), title, said(unit.explanation, _), tuple(links))


def _doubted(pools: list[PoolSeen]) -> Iterator[Item]:
    units = [unit for pool in pools for unit in pool.units]
    for state in sorted(IN_DOUBT):
        found = [unit for unit in units if unit.state == state]
        if not found:
            continue
        mark = mark_of("replica", state)
        links = [Link(unit.name, reverse("replica", args=[unit.name])) for unit in found[:NAMED]]
        if len(found) > NAMED:
            links.append(Link(_("Replicas"), reverse("replica-list") + "?kind=doubt"))
        title = _("%(units)s: %(state)s") % {
            "units": _names(found),
            "state": str(mark.word).lower(),
        }
        yield Item(mark, title, said(found[0].explanation, _), tuple(links))


def _nodes(rows: list[NodeRow]) -> Iterator[Item]:
    troubles = (
        (_failed(), lambda r: r.key_state == "changed", _("%(nodes)s: host key changed"),
         _("Nothing connects to it until its key is accepted.")),
        (_failed(), lambda r: r.reach == "unreachable", _("%(nodes)s: unreachable"), ""),
        (_failed(), lambda r: r.state == "quarantined", _("%(nodes)s: quarantined"), ""),
        (_failed(), lambda r: "failed" in r.healths, _("%(nodes)s: a GPU failed"), ""),
        (_warned(), lambda r: r.reach == "suspect", _("%(nodes)s: answers are missing"), ""),
        (_warned(), lambda r: r.key_state == "unset", _("%(nodes)s: no host key pinned"),
         _("Compare its fingerprint on the node page, then accept it.")),
        (_warned(), lambda r: "attention" in r.healths,
         _("%(nodes)s: a GPU needs attention"), ""),
    )  # fmt: skip
    seen: set[str] = set()
    for mark, is_so, title, detail in troubles:
        found = [row for row in rows if row.name not in seen and is_so(row)]
        seen.update(row.name for row in found)
        if found:
            yield Item(
                mark, title % {"nodes": _names(found)}, detail or _detail(found), _links(found)
            )


def _names(rows: Sequence[NodeRow | UnitSeen]) -> str:
    named = ", ".join(row.name for row in rows[:NAMED])
    rest = len(rows) - NAMED
    if rest <= 0:
        return named
    return ngettext("%(named)s and %(n)d more", "%(named)s and %(n)d more", rest) % {
        "named": named,
        "n": rest,
    }


def _detail(rows: list[NodeRow]) -> str:
    words = [row.trouble or row.explanation for row in rows if row.trouble or row.explanation]
    return said(words[0], _) if words else ""


def _links(rows: list[NodeRow]) -> tuple[Link, ...]:
    links = [Link(row.name, reverse("node", args=[row.name])) for row in rows[:NAMED]]
    if len(rows) > NAMED:
        links.append(Link(_("Table"), reverse("fleet-table")))
    return tuple(links)


def _waiting(rows: list[NodeRow]) -> Iterator[Item]:
    found = [row for row in rows if row.state == "acceptance"]
    if found:
        title = ngettext(
            "%(n)d node waits for acceptance", "%(n)d nodes wait for acceptance", len(found)
        ) % {"n": len(found)}
        yield Item(
            Mark(HOLD, "hold", _("Waits for you")),
            title,
            _detail(found) or _("Probe it again; nothing is placed on it before."),
            _links(found),
        )


def _unprobed(rows: list[NodeRow]) -> Iterator[Item]:
    count = sum(1 for row in rows if row.probed_at is None)
    if count:
        title = ngettext("%(n)d node was never probed", "%(n)d nodes were never probed", count) % {
            "n": count
        }
        yield Item(
            Mark(IDLE, "unk", _("Unknown")),
            title,
            _("Nothing is placed on a node before a probe passed. Probe all nodes to begin."),
        )
