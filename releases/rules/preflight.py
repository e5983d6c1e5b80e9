"""Judges what a node answered before a launch: weights, image, driver, cards, leftovers. Pure; unknown never passes."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fleet.rules.message import say

# What a container is when nothing of it runs; paused, restarting and words of no kind are not among them.
_AT_REST = frozenset({"created", "exited", "dead"})
SECTIONS = ("ready", "image", "platform", "gpus", "leftovers")


@dataclass(frozen=True)
class Answer:
    """One section of the node's answer: exit code and text."""

    rc: int
    text: str


def preflight_sections(position: dict[str, Any], content: dict[str, Any], unit: str) -> list[dict]:
    """Return the read-only commands of a pre-flight, one section each (shim verb probe)."""
    image = f"{content['image']['name']}@{content['image']['digest']}"
    leftovers = ["docker", "ps", "-a", "--no-trunc", "--filter", f"label=fleet.unit={unit}"]
    argvs = {
        "ready": ["cat", f"{position['model_dir']}/.ready"],
        "image": ["docker", "image", "inspect", image, "--format", "json"],
        "platform": [
            "nvidia-smi",
            "--query-gpu=driver_version,vbios_version",
            "--format=csv,noheader",
        ],
        "gpus": ["nvidia-smi", "-L"],
        "leftovers": [*leftovers, "--format", "json"],
    }
    return [{"name": name, "timeout_s": 10, "argv": argvs[name]} for name in SECTIONS]


def judge_preflight(content: dict[str, Any], answers: Mapping[str, Answer]) -> list[str]:
    """Name everything that forbids a start on this node; an empty list is a pass."""
    problems = []
    for name, judge in (
        ("ready", _judge_ready),
        ("image", _judge_image),
        ("platform", _judge_platform),
        ("gpus", _judge_gpus),
        ("leftovers", _judge_leftovers),
    ):
        answer = answers.get(name)
        if answer is None:
            problems.append(say("%(section)s: no answer came back.", section=name))
        else:
            problems += judge(content, answer)
    return problems


def _judge_ready(content: dict[str, Any], answer: Answer) -> list[str]:
    """Ready means the marker names this release's manifest; a directory alone proves nothing (P35)."""
    wanted = content["model"]["manifest_sha256"]
    if answer.rc:
        return [say("weights: no .ready marker (%(text)s).", text=_short(answer.text))]
    found = _mapping(_json(answer.text)).get("manifest_sha256")
    if found == wanted:
        return []
    return [
        say(
            "weights: .ready names manifest %(found)s, the release pins %(wanted)s.",
            found=str(found)[:12],
            wanted=wanted[:12],
        )
    ]


def _judge_image(content: dict[str, Any], answer: Answer) -> list[str]:
    wanted = content["image"]["digest"]
    if answer.rc:
        return [say("image: %(text)s", text=_short(answer.text))]
    rows = _json(answer.text)
    row = _mapping(rows[0] if isinstance(rows, list) and rows else rows)
    digests = [str(ref).partition("@")[2] for ref in row.get("RepoDigests") or []]
    if wanted in digests:
        return []
    return [
        say(
            "image: digest %(found)s on the node, the release pins %(wanted)s.",
            found=", ".join(digests) or "none",
            wanted=wanted,
        )
    ]


def _judge_platform(content: dict[str, Any], answer: Answer) -> list[str]:
    """An image that starts under a driver is not thereby right under it (manual A 4.1)."""
    wanted = content.get("platform")
    if not wanted:
        return [say("driver and firmware: the release pins none.")]
    pinned = f"{wanted['driver']}, {wanted['vbios']}"
    if answer.rc:
        return [say("driver and firmware: %(text)s", text=_short(answer.text))]
    found = sorted({line.strip() for line in answer.text.splitlines() if line.strip()})
    if found == [pinned]:
        return []
    return [
        say(
            "driver and firmware: %(found)s on the node, the release pins %(pinned)s.",
            found="; ".join(found) or say("nothing"),
            pinned=pinned,
        )
    ]


def _judge_gpus(content: dict[str, Any], answer: Answer) -> list[str]:
    listed = set(re.findall(r"^GPU (\d+):", answer.text, re.MULTILINE))
    named = content["shape"].get("gpus")
    if named is not None:
        listed &= {str(index) for index in named}
    wanted, found = content["shape"]["gpus_per_node"], len(listed)
    if answer.rc == 0 and found == wanted:
        return []
    return [
        say(
            "GPUs that answer: %(found)s, the shape needs %(wanted)s (%(text)s).",
            found=found,
            wanted=wanted,
            text=_short(answer.text if answer.rc else ""),
        )
    ]


def _judge_leftovers(content: dict[str, Any], answer: Answer) -> list[str]:
    if answer.rc:
        return [say("docker: %(text)s", text=_short(answer.text))]
    running = [
        str(row.get("Names") or _short(line))
        for line in answer.text.splitlines()
        # A warning of docker's own is no container; a line that should be one and cannot be read may be.
        if line.lstrip().startswith("{")
        and (row := _mapping(_json(line))).get("State") not in _AT_REST
    ]
    if not running:
        return []
    return [
        say(
            "%(names)s of this unit still runs here; stop it before another launch.",
            names=", ".join(running),
        )
    ]


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return {}


def _mapping(found: Any) -> dict[str, Any]:
    """What a node wrote may be anything: a judge that fell over it would hold its launch for ever."""
    return found if isinstance(found, dict) else {}


def _short(text: str) -> str:
    return " ".join(text.split())[:200]
