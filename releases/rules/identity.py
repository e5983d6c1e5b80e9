"""Judges what a node says of the container that was started there: the image and the plan of the launch, still? Pure.

The start names an image by digest, but what counts is what runs. A unit whose ranks differ in one piece may come up
and answer, and wrongly (manual A 8.1); so no unit is asked anything before every node has proved its own. A container
that somebody started again is another one: its ranks know nothing of the others (MISSION law 1).
"""

import json
from dataclasses import dataclass
from typing import Any

from fleet.rules.message import say
from releases.rules.preflight import Answer

# To be asked (anew), asked, and what came of it; failed: the node told nothing that can be judged.
UNASKED, OPEN, OK, BAD, FAILED = "unasked", "open", "ok", "bad", "failed"
SECTION = "container"


@dataclass(frozen=True)
class Identity:
    """`started_at`: when docker started the container, in its own words, with the id: another start is another run."""

    state: str = ""
    explanation: str = ""
    started_at: str = ""


def identity_sections(position: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the read-only command that shows a position's container (shim verb probe)."""
    argv = ["docker", "container", "inspect", position["container"]]
    return [{"name": SECTION, "timeout_s": 10, "argv": argv}]


def judge_identity(content: dict[str, Any], plan_sha: str, answer: Answer | None) -> Identity:
    """Compare a container with the release's image and the launch's plan; both digests are named when they differ."""
    row = _row(answer)
    config, started_at = row.get("Config"), _started_at(row)
    if not isinstance(config, dict) or not started_at:
        text = " ".join(answer.text.split())[:200] if answer and answer.rc else ""
        return Identity(FAILED, say("its container could not be read. %(text)s", text=text))
    pinned = content["image"]["digest"]
    image = str(config.get("Image"))
    found = image.partition("@")[2] or image
    if found != pinned:
        text = say(
            "image %(found)s runs, the release pins %(pinned)s.", found=found[:200], pinned=pinned
        )
        return Identity(BAD, text)
    labels = config.get("Labels")
    named = str(labels.get("fleet.plan_sha", "-")) if isinstance(labels, dict) else "-"
    if named != plan_sha:
        text = say(
            "its container is of plan %(found)s, the launch has %(wanted)s.",
            found=named[:64],
            wanted=plan_sha,
        )
        return Identity(BAD, text)
    return Identity(OK, started_at=started_at)


def judge_again(first: Identity, now: Identity) -> Identity:
    """Compare a container with what it was when it was proved first: a rank that came back alone is none."""
    if now.state != OK or first.started_at == now.started_at:
        return now
    text = say(
        "its container was started again (%(now)s, before %(first)s): a rank never comes back alone.",
        now=now.started_at,
        first=first.started_at,
    )
    return Identity(BAD, text)


def _row(answer: Answer | None) -> dict[str, Any]:
    """What a node wrote may be anything; what cannot be read proves nothing."""
    if answer is None or answer.rc:
        return {}
    try:
        rows = json.loads(answer.text)
    except (ValueError, RecursionError):
        return {}
    row = rows[0] if isinstance(rows, list) and rows else None
    return row if isinstance(row, dict) else {}


def _started_at(row: dict[str, Any]) -> str:
    state = row.get("State")
    at = state.get("StartedAt") if isinstance(state, dict) else None
    return f"{str(row.get('Id'))[:12]} {str(at)[:40]}" if at else ""
