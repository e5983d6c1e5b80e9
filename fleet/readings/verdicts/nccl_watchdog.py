"""What torch's watchdog lines say together: who waited, for what, and who was behind."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fleet.readings.nccl_log.watchdog import Timeout, WatchdogLog
from fleet.readings.report import Finding
from fleet.readings.told import tell


def watchdog_findings(log: WatchdogLog) -> Iterator[Finding]:
    """Tell time-outs once, then divergence and ranks behind by group."""
    timeouts = list(log.timeouts.values())
    if timeouts:
        yield Finding("watchdog_timeout", "error", _words(timeouts), _lines(timeouts))
    if log.cut:
        who = ", ".join(str(rank) for rank, _ in log.cut[:32] if rank is not None)
        text = tell(
            "a time-out of rank %(rank)s is told, and its message is cut",
            rank=who or tell("unknown"),
        )
        lines = tuple(line for _, line in log.cut)
        yield Finding("watchdog_timeout_cut", "error", text, lines)
    ops = {(t.group, t.seq): set[str]() for t in timeouts}
    for timeout in timeouts:
        ops[timeout.group, timeout.seq].add(timeout.op)
    for (_, seq), names in ops.items():
        if len(names) > 1:
            text = tell(
                "at sequence %(seq)s ranks ran different operations: %(names)s",
                seq=seq, names=", ".join(sorted(names)),
            )  # fmt: skip
            yield Finding("divergence", "error", text, _lines(timeouts))
    for group, ranks in log.behind().items():
        text = tell(
            "ranks %(ranks)s had entered fewer operations than the others", ranks=str(ranks[:32])
        )
        if group is not None:
            text = tell("group %(group)s: %(what)s", group=group, what=text)
        yield Finding("ranks_behind", "warn", text)
    if log.repeated:
        text = tell(
            "%(count)s more lines of other ranks are hidden as repeated", count=log.repeated
        )
        yield Finding("ranks_hidden", "warn", text)


def watchdog_values(log: WatchdogLog) -> dict[str, Any]:
    """Return the values of the first time-out, and the state of all ranks."""
    timeouts = list(log.timeouts.values())
    progress = list(log.progress.values())
    if not timeouts and not progress and not log.cut:
        return {}
    ranks = [t.rank for t in timeouts] + [p.rank for p in progress] + [r for r, _ in log.cut]
    seen = list(dict.fromkeys(r for r in ranks if r is not None))
    values: dict[str, Any] = {
        "event": "watchdog_timeout",
        "ranks": seen[:1024],
        "rank": seen[0] if len(seen) == 1 else None,
        "ranks_behind": {str(g): r for g, r in log.behind().items()},
        "repeated": log.repeated or None,
        "last_enqueued": _same([p.enqueued for p in progress]),
        "last_completed": _same([p.completed for p in progress]),
    }
    if not timeouts:
        return values
    first = timeouts[0]
    return values | {
        "seq": _same([t.seq for t in timeouts]),
        "op": _same([t.op for t in timeouts]),
        "numel": first.numel_in,
        "numel_out": first.numel_out,
        "timeout_ms": first.timeout_ms,
        "world_from_numel": _ratio(first),
    }


def _words(timeouts: list[Timeout]) -> str:
    seqs = sorted({t.seq for t in timeouts})
    ops = sorted({t.op for t in timeouts})
    who = ", ".join(str(t.rank) if t.rank is not None else "unknown" for t in timeouts[:32])
    if len(seqs) > 1:
        return tell(
            "ranks %(ranks)s waited for different operations (%(first)s to %(last)s)",
            ranks=who, first=seqs[0], last=seqs[-1],
        )  # fmt: skip
    waited = {"ms": timeouts[0].timeout_ms, "ops": ", ".join(ops), "seq": seqs[0]}
    if len(timeouts) == 1:
        return tell("rank %(rank)s waited %(ms)s ms for %(ops)s %(seq)s", rank=who, **waited)
    told = tell("ranks %(ranks)s waited %(ms)s ms for %(ops)s %(seq)s", ranks=who, **waited)
    if len(ops) > 1:
        return told
    return tell(
        "%(what)s: the same operation on all of them, so a peer or a link is slow or hung",
        what=told,
    )


def _lines(timeouts: list[Timeout]) -> tuple[int, ...]:
    return tuple(t.line for t in timeouts)


def _same(values: list[Any]) -> Any:
    """Return the one value, or all of them by first telling when ranks differ."""
    told = list(dict.fromkeys(v for v in values if v is not None))
    return told[0] if len(told) == 1 else (told or None)


def _ratio(timeout: Timeout) -> int | None:
    """An all-gather's output is its input times the ranks."""
    if "ALLGATHER" not in timeout.op.upper() or not timeout.numel_in:
        return None
    whole, rest = divmod(timeout.numel_out, timeout.numel_in)
    return whole if rest == 0 else None
