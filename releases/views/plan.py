"""Draws a launch plan: the whole argv of the first node, and of the others only the lines that differ."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from releases.launchers.docker_mp import argv_of


@dataclass(frozen=True)
class PlanLine:
    """One flag with its value, or a run of equal lines that is folded (`folded` > 0)."""

    text: str
    number: int = 0
    is_changed: bool = False
    folded: int = 0


@dataclass(frozen=True)
class PlanNode:
    node: str
    position: int
    address: str
    container: str
    lines: list[PlanLine]


@dataclass(frozen=True)
class PlanDrawn:
    sha256: str
    world_size: int
    master: str
    endpoint: str
    nodes: list[PlanNode]


def plan_drawn(plan: dict[str, Any], sha256: str) -> PlanDrawn:
    """Return a launch plan as lines; of the later nodes only what differs from the first."""
    positions = plan["positions"]
    first = argv_lines(argv_of(positions[0], sha256))
    return PlanDrawn(
        sha256=sha256,
        world_size=plan["world_size"],
        master=f"{plan['master']['address']}:{plan['master']['port']}",
        endpoint=f"{plan['http']['address']}:{plan['http']['port']}",
        nodes=[
            _node(position, sha256, None if n == 0 else first)
            for n, position in enumerate(positions)
        ],
    )


def argv_lines(argv: list[str]) -> list[str]:
    """Join each flag with the value behind it; the words are shown, never run from here."""
    lines: list[str] = []
    for word in argv:
        if (
            lines
            and not word.startswith("-")
            and lines[-1].startswith("-")
            and " " not in lines[-1]
        ):
            lines[-1] = f"{lines[-1]} {word}"
        elif word == "run" and lines == ["docker"]:
            lines[-1] = "docker run"
        else:
            lines.append(word)
    return lines


def _node(position: dict[str, Any], sha256: str, against: list[str] | None) -> PlanNode:
    lines = argv_lines(argv_of(position, sha256))
    if against is None:
        drawn = [PlanLine(text, number) for number, text in enumerate(lines, 1)]
    else:
        drawn = _differing(lines, against)
    return PlanNode(
        position["node"], position["position"], position["address"], position["container"], drawn
    )


def _differing(lines: list[str], against: list[str]) -> list[PlanLine]:
    known, drawn, equal = set(against), [], 0
    for number, text in enumerate(lines, 1):
        if text in known:
            equal += 1
            continue
        if equal:
            drawn.append(PlanLine("", folded=equal))
        drawn.append(PlanLine(text, number, is_changed=True))
        equal = 0
    return [*drawn, PlanLine("", folded=equal)] if equal else drawn
