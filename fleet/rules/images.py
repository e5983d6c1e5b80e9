"""Container images by digest on nodes: how one is pulled and verified, which pulls start next, what an end means.

Pure. A pull goes through the registry's exit and into a leaf as a download of weights from the store does, and a copy
between nodes goes into the leaf too, so that all of them count against the same limits. Source: 384-card manual,
sections 4.1 (immutable digests) and 12.8 (downloads at once in a leaf).
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from fleet.rules.fanout import Limits
from fleet.rules.message import foreign, say

WANTED, PULLING, READY, FAILED = "wanted", "pulling", "ready", "failed"
MOVES: dict[str, frozenset[str]] = {
    WANTED: frozenset({PULLING, FAILED}),
    PULLING: frozenset({READY, FAILED, WANTED}),
    READY: frozenset({WANTED}),
    FAILED: frozenset({WANTED}),
}
NAME = re.compile(
    r"[a-z0-9][a-z0-9.-]*(:[0-9]{1,5})?(/[a-z0-9._-]+)+(:[A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?"
)
DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
ABSENT_RC = 3  # of a look: the image is not on the node
_MARK = "== inspect"
# An engine's image is about 20 GB, which 10 MB/s bring in 33 minutes; a registry that is slower, or stands still,
# is a person's to look at (our choice). A look asks docker alone.
PULL_S, LOOK_S = 3600, 120
LATE_RC = 124  # of timeout(1)

# What is on the node under this digest is never pulled again: then the registry need not answer.
_PULL = r"""
most=$1 mode=$2 ref=$3
if [ "$mode" = pull ]; then
    docker image inspect "$ref" >/dev/null 2>&1 || timeout -k 10 "$most" docker pull "$ref" 2>&1 || exit $?
fi
echo "== inspect"
docker image inspect --format json "$ref" 2>&1 || exit 3
"""


def ref_of(name: str, digest: str) -> str:
    """Return NAME@DIGEST, as docker reads it. Raises ValueError for what may not be part of a command."""
    if len(name) > 255 or not NAME.fullmatch(name) or not DIGEST.fullmatch(digest):
        raise ValueError(
            f"{name!r:.120} @ {digest!r:.80}: expected a registry's name and sha256:64 hex"
        )
    return f"{name}@{digest}"


def split_ref(text: str) -> tuple[str, str]:
    """Return (name, digest) of NAME@sha256:HEX. Raises ValueError: a tag alone may change under us."""
    name, _at, digest = text.strip().partition("@")
    ref_of(name, digest)
    return name, digest


def pull_argv(name: str, digest: str, *, is_check: bool) -> list[str]:
    """Pull the image unless the node has it, then ask docker what it is; `is_check`: ask only.

    The node ends a pull of more than PULL_S seconds by itself, also while no console looks.
    """
    mode = "check" if is_check else "pull"
    return ["sh", "-c", _PULL, "pull", str(PULL_S), mode, ref_of(name, digest)]


def late_text(is_check: bool) -> str:
    """Say that a pull or a look took too long; what came of it stays on the node."""
    if is_check:
        return say("docker did not answer within %(n)s s: look at it on the node.", n=LOOK_S)
    return say(
        "The pull did not end within %(n)s minutes: look at the registry and the node's link, then pull again; "
        "layers that came stay.",
        n=PULL_S // 60,
    )


@dataclass(frozen=True)
class Seen:
    """What a pull or a look came to: `is_ready`, or why not in docker's own words; size in bytes, if told."""

    is_ready: bool
    why: str = ""
    size_bytes: int | None = None


def judge_pull(rc: int | None, text: str, digest: str) -> Seen:
    """Believe only the digest that docker's inspect names; `rc` None: the process was lost with its node."""
    if rc is None:
        return Seen(False, say("The pull was lost: its node was started again."))
    said_by_docker, mark, told = text.partition(_MARK + "\n")
    if rc == LATE_RC and not mark:
        return Seen(False, late_text(is_check=False))
    if rc == ABSENT_RC and mark:
        return Seen(False, say("docker: %(text)s", text=_last(told)))
    if rc != 0 or not mark:
        return Seen(False, say("docker: %(text)s (exit %(rc)s)", text=_last(said_by_docker), rc=rc))
    row = _row(told)
    found = [str(ref).partition("@")[2] for ref in row.get("RepoDigests") or []]
    if digest not in found:
        words = ", ".join(found) or "none"
        return Seen(
            False,
            say("docker names digest %(found)s: expected %(wanted)s.", found=words, wanted=digest),
        )
    size = row.get("Size")
    return Seen(True, size_bytes=size if type(size) is int and size >= 0 else None)


def _row(text: str) -> dict:
    start = min((at for at in (text.find("["), text.find("{")) if at >= 0), default=-1)
    try:
        found, _end = json.JSONDecoder().raw_decode(text[start:]) if start >= 0 else (None, 0)
    except ValueError:
        return {}
    first = found[0] if isinstance(found, list) and found else found
    return first if isinstance(first, dict) else {}


def _last(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip() not in ("", "[]")]
    return foreign(lines[-1][:300]) if lines else "-"


@dataclass(frozen=True)
class Queue:
    """Who waits for an image and what loads the leaves: node -> leaf, what goes into each leaf, leaves that rest."""

    wanting: Mapping[str, int]
    pulling: Collection[int] = ()  # the leaf of each pull that runs
    from_store: Collection[int] = ()  # the leaf of each copy of weights out of the store
    from_nodes: Collection[int] = ()  # the leaf of each copy of weights from another node
    paused: Mapping[int, str] = field(default_factory=dict)
    dead: Collection[str] = ()


def choose(queue: Queue, limits: Limits) -> tuple[list[str], dict[str, str]]:
    """Return the nodes that begin to pull now, and why the others wait."""
    outside = Counter(queue.pulling) + Counter(queue.from_store)
    into = outside + Counter(queue.from_nodes)
    total, start, waiting = sum(into.values()), [], {}
    for name, leaf in sorted(queue.wanting.items()):
        if name in queue.dead:
            waiting[name] = say("The node does not answer; it is served once it does.")
        elif leaf in queue.paused:
            waiting[name] = queue.paused[leaf]
        elif total >= limits.at_once:
            waiting[name] = say("%(n)s downloads run, as many as may at once.", n=total)
        elif outside[leaf] >= limits.store_per_leaf:
            waiting[name] = say(
                "%(n)s downloads run into leaf %(leaf)s, as many as may.",
                n=outside[leaf],
                leaf=leaf,
            )
        elif into[leaf] >= limits.per_leaf:
            waiting[name] = say(
                "%(n)s copies run into leaf %(leaf)s, as many as may.", n=into[leaf], leaf=leaf
            )
        else:
            start.append(name)
            outside[leaf] += 1
            into[leaf] += 1
            total += 1
    return start, waiting
