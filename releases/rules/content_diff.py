"""What differs between two releases, piece by piece, and what follows from it. Pure.

The pieces are those of the manual's fixed set: a change of any of them changes what or how fast the model answers
(A 4.1 and its questions on rollback), so that none is "only" a change. What each needs besides a relaunch is a table.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from fleet.rules.message import say
from releases.rules.content import PINS, SIZES

MODEL, PROTOCOL, IMAGE, PLATFORM, LAUNCH, GOLDEN = (
    "model",
    "protocol",
    "image",
    "platform",
    "launch",
    "golden",
)
PIECES = (MODEL, PROTOCOL, IMAGE, PLATFORM, LAUNCH, GOLDEN)
# Flags that belong to the tokenizer, the template and the parsers, wherever they stand on the command line.
PROTOCOL_FLAGS = frozenset(
    {
        "--tokenizer",
        "--tokenizer-mode",
        "--tokenizer-revision",
        "--chat-template",
        "--chat-template-content-format",
        "--tool-call-parser",
        "--tool-parser-plugin",
        "--enable-auto-tool-choice",
        "--reasoning-parser",
        "--reasoning-parser-plugin",
    }
)
MEMORY_FLAGS = frozenset(
    {
        "--gpu-memory-utilization",
        "--kv-cache-dtype",
        "--kv-cache-memory-bytes",
        "--block-size",
        "--max-model-len",
        "--max-num-seqs",
        "--max-num-batched-tokens",
        "--speculative-config",
        "--enforce-eager",
    }
)
ON, OFF = "on", "off"  # how a switch without a value is shown
_ORDER = {
    where: place
    for place, where in enumerate(
        [*(where for where, _pattern, _expected in PINS), *(f"shape.{name}" for name in SIZES)]
    )
}


@dataclass(frozen=True)
class Change:
    """One field that differs; None on a side means that the side does not have it."""

    piece: str
    field: str
    before: str | None
    after: str | None

    @property
    def kind(self) -> str:
        if self.before is None:
            return "added"
        return "removed" if self.after is None else "changed"


def content_fields(content: dict[str, Any]) -> dict[tuple[str, str], str]:
    """Return (piece, field) -> value in words for everything that a content pins, in the order of the pieces."""
    flags = {
        str(flag): ON if value is None else str(value) for flag, value in content.get("args") or []
    }
    env = content.get("env") or {}
    of_pieces = {
        MODEL: _named(content, "model"),
        PROTOCOL: _named(content, "tokenizer")
        | {flag: value for flag, value in flags.items() if flag in PROTOCOL_FLAGS},
        IMAGE: _named(content, "image"),
        PLATFORM: _named(content, "platform"),
        LAUNCH: {"launcher": _words(content.get("launcher") or "")}
        | _named(content, "shape")
        | {flag: value for flag, value in flags.items() if flag not in PROTOCOL_FLAGS}
        | {f"env {name}": str(env[name]) for name in sorted(env)},
        GOLDEN: _golden(content.get("golden") or []),
    }
    return {
        (piece, field): value
        for piece, fields in of_pieces.items()
        for field, value in fields.items()
    }


def _named(content: dict[str, Any], part: str) -> dict[str, str]:
    """The fields of one part in the order of the pins, since a database keeps an order of its own."""
    found = {f"{part}.{name}": _words(value) for name, value in (content.get(part) or {}).items()}
    return {
        where: found[where]
        for where in sorted(found, key=lambda where: (_ORDER.get(where, len(_ORDER)), where))
    }


def _golden(prompts: list[dict[str, Any]]) -> dict[str, str]:
    """The answer of each prompt, and everything else of it: another question is another proof."""
    found = {}
    for prompt in prompts:
        asked = {key: value for key, value in prompt.items() if key not in ("id", "expect")}
        found[f"golden {prompt.get('id')}"] = str(prompt.get("expect"))
        found[f"golden {prompt.get('id')} asked"] = json.dumps(
            asked, ensure_ascii=False, sort_keys=True
        )
    return found


def _words(value: Any) -> str:
    return (ON if value else OFF) if isinstance(value, bool) else str(value)


def content_diff(before: dict[str, Any], after: dict[str, Any]) -> list[Change]:
    """Return what `after` adds, removes and changes against `before`, in the order of the pieces."""
    old, new = content_fields(before), content_fields(after)
    changes = [
        Change(piece, field, old.get((piece, field)), new.get((piece, field)))
        for piece, field in dict.fromkeys([*old, *new])
        if old.get((piece, field)) != new.get((piece, field))
    ]
    return sorted(changes, key=lambda change: PIECES.index(change.piece))


@dataclass(frozen=True)
class Consequence:
    """What must happen because of a change (a sentence), and where the manuals say so."""

    sentence: str
    source: str


def consequences(changes: list[Change]) -> list[Consequence]:
    """Return what follows from these changes, in the order in which it must happen; none needs nothing."""
    found = [what for applies, what in _TABLE if any(applies(change) for change in changes)]
    if len({change.piece for change in changes} - {GOLDEN}) > 1:
        found.append(_TWO_CAUSES)
    return found


def _of(*pieces: str) -> Callable[[Change], bool]:
    return lambda change: change.piece in pieces


def _of_network(change: Change) -> bool:
    return change.field.startswith(("env NCCL_", "env GLOO_", "env UCX_"))


def _of_memory(change: Change) -> bool:
    return change.field.startswith("shape.") or change.field in MEMORY_FLAGS


_TABLE: tuple[tuple[Callable[[Change], bool], Consequence], ...] = (
    (
        _of(PLATFORM),
        Consequence(
            say(
                "A node whose driver or firmware changes passes acceptance again before it serves."
            ),
            "A 4.3",
        ),
    ),
    (
        _of(MODEL),
        Consequence(
            say("The weights must lie complete on every node of a unit before it is launched."),
            "A 4.2",
        ),
    ),
    (
        _of(IMAGE),
        Consequence(
            say("Every node needs the image of this digest; the old one stays, to roll back to."),
            "A 4.1",
        ),
    ),
    (
        _of(*PIECES),
        Consequence(
            say("Units are launched anew, each as a whole; nothing changes while one runs."),
            "A 8.1",
        ),
    ),
    (
        _of_network,
        Consequence(
            say("The transport of every rank is proved anew from the NCCL log of its launch."),
            "A 4.5, 12.2",
        ),
    ),
    (
        _of_memory,
        Consequence(
            say("The memory of every rank is measured anew, at full length and concurrency."),
            "A 2.2, 12.3",
        ),
    ),
    (
        _of(MODEL, PROTOCOL, IMAGE, PLATFORM, LAUNCH),
        Consequence(
            say("Correctness and performance gates run anew: each of these can change an answer."),
            "A 10, 14",
        ),
    ),
    (
        lambda change: change.field == "launcher",
        Consequence(
            say("Performance gets a new baseline: numbers of two launchers are never mixed."),
            "A 5.2",
        ),
    ),
    (
        _of(MODEL, PROTOCOL),
        Consequence(
            say(
                "Sessions stay with their release until they end; new units begin with a cold cache."
            ),
            "A 12.7",
        ),
    ),
)
_TWO_CAUSES = Consequence(
    say(
        "Several pieces change at once: a difference in the gates cannot be put down to one of them."
    ),
    "A 5.3",
)
