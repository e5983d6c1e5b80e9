"""Which rank of a unit is gone, told by boot ids, by what the logs say, or by its state alone. Pure.

Source: LAB.md 4.6 (who stays silent when a rank dies), manual A 12.4.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from fleet.rules.message import say

if TYPE_CHECKING:
    from releases.rules.launch import PositionSeen

    Positions = Sequence[PositionSeen]

# Kinds of failure that tell what another rank's death did to this one; the higher, the less telling.
_ECHOES = {"watchdog": 1, "rpc_timeout": 2, "engine_fatal": 3, "engine_dead": 3}
# Kinds whose line is that of a rank which waits; the rank that hangs may have said nothing.
_WAITS = frozenset({"watchdog", "rpc_timeout"})
_BY_LOG = "%(node)s (position %(position)s): %(failure)s"
_BY_WAIT = (
    "A rank hangs or is lost; which one is not known. "
    "%(node)s (position %(position)s) waited for it in vain: %(failure)s"
)
_BY_EXIT = "%(node)s lost its ranks: the engine ended with exit code %(rc)s. %(why)s"
_BY_ABSENCE = "%(node)s lost its ranks: the engine's process is no longer there."


def lost_rank(positions: Positions) -> str:
    """Say which rank is gone, or return nothing. An exit code of 0 is not taken as success."""
    return _lost_by_boot(positions) or _lost_by_log(positions) or _lost_by_state(positions)


def _lost_by_boot(positions: Positions) -> str:
    """Before what the logs tell: the last lines of a node that went down are about its going down."""
    nodes = rebooted(positions)
    if len(nodes) > 1:
        return say("%(nodes)s were rebooted: their ranks are gone.", nodes=names_of(nodes))
    return say("%(node)s was rebooted: its ranks are gone.", node=nodes[0]) if nodes else ""


def _lost_by_log(positions: Positions) -> str:
    """The most telling line of all logs: a dead worker's own, before those of ranks that missed it."""
    told = [
        (_ECHOES.get(kind, 0), place.position, place.node, kind, text)
        for place in positions
        if place.failure
        for kind, text in (
            (place.log_cause_kind, place.log_cause),
            (place.failure_kind, place.failure),
        )
        if text
    ]
    if not told:
        return ""
    _, position, node, kind, text = min(told, key=lambda one: one[:2])
    if kind in _WAITS:
        return say(_BY_WAIT, node=node, position=position, failure=text)
    return say(_BY_LOG, node=node, position=position, failure=text)


def _lost_by_state(positions: Positions) -> str:
    for place in positions:
        if place.subject == "done":
            return say(_BY_EXIT, node=place.node, rc=place.rc, why=place.log_cause)
        if place.subject in {"lost", "gone"}:
            return say(_BY_ABSENCE, node=place.node)
    return ""


def rebooted(positions: Positions) -> list[str]:
    """Name the nodes that show another boot id than the one under which the ranks were started."""
    return [place.node for place in positions if place.boot_changed]


def better_cause(cause: str, positions: Positions) -> str:
    """What the logs tell by now of a lost rank: an exit is often noticed before its last lines are read."""
    if cause.startswith((_BY_EXIT, _BY_ABSENCE, _BY_LOG, _BY_WAIT)):
        return _lost_by_log(positions)
    return ""


def names_of(nodes: list[str]) -> str:
    """Return names as they stand in a sentence."""
    return " and ".join(nodes) if len(nodes) < 3 else f"{', '.join(nodes[:-1])} and {nodes[-1]}"
