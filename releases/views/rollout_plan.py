"""Draws what a signature lets run: each node's command beside the one that runs there now, and what moved since."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fleet.marks import Mark, mark_of
from fleet.models import Replica
from releases.models import Approval, Launch, Rollout
from releases.services.launches import launch_preview
from releases.views.plan import argv_lines
from releases.views.release_drawn import DiffLine, diff_lines

Commands = list[list[Any]]  # [node, words] of each node, as services/rollout_facts.py stores them


@dataclass(frozen=True)
class NodeCommand:
    """One node's command line by line. `changed`: lines that are added or gone, None when nothing runs there."""

    node: str
    lines: list[DiffLine]
    changed: int | None


@dataclass(frozen=True)
class PlanCard:
    """The commands of one unit, the digests that they pin, and the gate runs that speak for the release.

    `like`: the unit that stands for nodes that are not chosen yet.
    """

    nodes: list[NodeCommand]
    like: str
    image: str
    manifest: str
    release_sha256: str
    gates: list[tuple[str, str, Mark]]


def plan_card(rollout: Rollout, facts: dict[str, Any], unit: Replica | None) -> PlanCard:
    """Return what will run on the nodes of a wave; for a wave without nodes yet, as on the pool's first unit."""
    commands, like = facts.get("commands") or [], ""
    if not commands:
        first = rollout.waves.filter(replica__isnull=False).order_by("number").first()
        unit = first.replica if first else None
        commands, like = _previewed(rollout, unit), unit.name if unit else ""
    content = rollout.new_release.content
    return PlanCard(
        nodes=_compared(_running(unit), commands),
        like=like,
        image=content.get("image", {}).get("digest", ""),
        manifest=content.get("model", {}).get("manifest_sha256", ""),
        release_sha256=rollout.new_release.content_sha256,
        gates=[(unit, run, mark_of("gate", state)) for unit, run, state in facts.get("gates", [])],
    )


def moved_lines(approval: Approval, now: dict[str, Any]) -> list[NodeCommand]:
    """Return the lines that differ between what was asked for and what would run now, of each node that differs."""
    drawn = _compared(approval.facts.get("commands") or [], now.get("commands") or [])
    return [one for one in drawn if one.changed]


def _previewed(rollout: Rollout, unit: Replica | None) -> Commands:
    if unit is None or not rollout.new_release.content:
        return []
    plan = launch_preview(replica=unit, release=rollout.new_release).plan
    return [[place["node"], place["argv"]] for place in plan.get("positions", [])]


def _running(unit: Replica | None) -> Commands:
    """The commands of the unit's live launch."""
    launch = Launch.objects.filter(replica=unit, state__in=Launch.LIVE).first() if unit else None
    return [[p["node"], p["argv"]] for p in launch.plan["positions"]] if launch else []


def _compared(old: Commands, new: Commands) -> list[NodeCommand]:
    before = {node: _lines(words) for node, words in old}
    after = {node: _lines(words) for node, words in new}
    return [_node(node, before.get(node), after.get(node, [])) for node in {**after, **before}]


def _node(node: str, before: list[str] | None, after: list[str]) -> NodeCommand:
    if before is None:
        return NodeCommand(node, [DiffLine(text) for text in after], None)
    lines = diff_lines(before, after)
    return NodeCommand(node, lines, sum(bool(line.sign) for line in lines))


def _lines(words: list[str]) -> list[str]:
    """The words as lines; the token of a launch's own names differs between any two and says nothing."""
    token = words[words.index("--name") + 1].rpartition("-")[2] if "--name" in words else ""
    return argv_lines([word.replace(token, "…") if token else word for word in words])
