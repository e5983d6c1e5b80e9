"""The verdicts of a gate run: each check from what was found, and the run from its checks. Pure.

No data is never a pass: a check without an answer is inconclusive. Health alone proves nothing and is no check.
Source: manual A 10.1, 5.2 (transport proof); RELIABILITY.md section 4 (GateRun).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from fleet.readings.nccl_log.wiring import CardWiring
from fleet.readings.sse import StreamedAnswer
from fleet.rules import netwiring
from fleet.rules.message import foreign, say
from fleet.rules.netwiring import Wired

QUEUED, RUNNING, PASSED, FAILED = "queued", "running", "passed", "failed"
INCONCLUSIVE, ERRORED, EXPIRED, CANCELLED = "inconclusive", "errored", "expired", "cancelled"
GATE_MOVES: dict[str, frozenset[str]] = {
    QUEUED: frozenset({RUNNING, ERRORED, CANCELLED, EXPIRED}),
    RUNNING: frozenset({PASSED, FAILED, INCONCLUSIVE, ERRORED, CANCELLED, EXPIRED}),
    PASSED: frozenset(),
    FAILED: frozenset(),
    INCONCLUSIVE: frozenset(),
    ERRORED: frozenset(),
    EXPIRED: frozenset(),
    CANCELLED: frozenset(),
}
ENDED = frozenset(state for state, onward in GATE_MOVES.items() if not onward)
GOLDEN, STREAM, TRANSPORT = "golden", "stream", "transport"
CHECKS = (GOLDEN, STREAM, TRANSPORT)
_SHOWN = 400  # characters of an answer in a row
_BEFORE = 80  # of them before the first that differs, when that is far in


@dataclass(frozen=True)
class Row:
    """One row of a gate run. `verdict`: passed, failed or inconclusive."""

    check: str
    subject: str  # the prompt, or the rank
    verdict: str
    expected: str
    found: str
    explanation: str = ""


@dataclass(frozen=True)
class Answer:
    """An unstreamed answer; `text` is None when there was none, then `problem` says why."""

    text: str | None
    problem: str = ""


def judge_golden(prompt: str, expected: str, answer: Answer) -> Row:
    """Compare exactly: one differing character is a difference."""
    if answer.text is None:
        return Row(GOLDEN, prompt, INCONCLUSIVE, expected[:_SHOWN], "", answer.problem)
    verdict = PASSED if answer.text == expected else FAILED
    return Row(GOLDEN, prompt, verdict, *_pair(expected, answer.text))


def _pair(expected: str, found: str) -> tuple[str, str]:
    """Cut two texts alike, so that the first character that differs is among those that are shown."""
    same = next(
        (n for n, (a, b) in enumerate(zip(expected, found, strict=False)) if a != b),
        min(len(expected), len(found)),
    )
    if same < _SHOWN - _BEFORE or expected == found:
        return expected[:_SHOWN], found[:_SHOWN]
    window = slice(same - _BEFORE, same - _BEFORE + _SHOWN - 1)
    return f"…{expected[window]}", f"…{found[window]}"


def judge_stream(prompt: str, whole: Answer, streamed: StreamedAnswer | None, problem: str) -> Row:
    """The joined chunks must be the unstreamed answer, ended with a reason and [DONE]."""
    if whole.text is None or streamed is None:
        shown = (whole.text or "")[:_SHOWN]
        return Row(STREAM, prompt, INCONCLUSIVE, shown, "", problem or whole.problem)
    expected, found = _pair(whole.text, streamed.text)
    if streamed.error:
        return Row(STREAM, prompt, FAILED, expected, found, foreign(streamed.error))
    if not streamed.is_done or not streamed.finish_reason:
        why = say("the stream ended without its end after %(n)s chunks", n=streamed.chunks)
        return Row(STREAM, prompt, FAILED, expected, found, why)
    verdict = PASSED if streamed.text == whole.text else FAILED
    return Row(STREAM, prompt, verdict, expected, found)


@dataclass(frozen=True)
class RankSeen:
    """What one rank says: its channels by transport, whether set-up ended, its network with the lines of it."""

    rank: int
    node: str
    transports: dict[str, int]
    is_complete: bool
    card: CardWiring | None = None


@dataclass(frozen=True)
class TransportPlan:
    """What the release plans between nodes, and whether by GPUDirect. Empty `between`: one node only."""

    between: str = "NET/IB"
    gdr: bool = True


def transport_plan(content: Mapping[str, Any]) -> TransportPlan | None:
    """Read from a release's content how its ranks are meant to reach other nodes; None when it does not say.

    Source: NCCL's environment variables NCCL_NET, NCCL_IB_DISABLE and NCCL_NET_GDR_LEVEL (2.28).
    """
    shape, env = content.get("shape"), content.get("env")
    if not isinstance(shape, Mapping) or not isinstance(env, Mapping):
        return None
    nodes = shape.get("nodes")
    if not isinstance(nodes, int) or nodes < 1:
        return None
    if nodes == 1:
        return TransportPlan("", False)
    network = str(env.get("NCCL_NET", "")).upper()
    if env.get("NCCL_IB_DISABLE", "0") == "1" or network == "SOCKET":
        return TransportPlan("NET/Socket", False)
    if network not in ("", "IB"):
        return None  # a plugin of its own, whose lines nobody has read yet
    return TransportPlan("NET/IB", env.get("NCCL_NET_GDR_LEVEL", "") not in ("0", "LOC"))


def judge_transport(
    plan: TransportPlan | None,
    ranks: Iterable[RankSeen],
    world_size: int,
    wired: Wired | None = None,
) -> list[Row]:
    """Judge every rank of the world: a rank without lines is not proved, a socket is a failure.

    `wired`: what the signed network matrix put into the environment; cards, interface and GID must be as it says.
    """
    seen = {one.rank: one for one in ranks}
    if plan is None:
        why = say("the release does not say how its ranks reach other nodes: not proven")
        return [
            Row(TRANSPORT, f"r{rank}", INCONCLUSIVE, "", _transports(seen.get(rank)), why)
            for rank in range(world_size)
        ]
    planned = (
        f"{plan.between}{'/GDRDMA' if plan.gdr else ''}" if plan.between else say("inside the node")
    )
    rows = [_rank_row(plan, planned, rank, seen.get(rank)) for rank in range(world_size)]
    if wired is None or not plan.between:
        return rows
    return [_as_wired(row, wired, seen.get(rank)) for rank, row in enumerate(rows)]


def _as_wired(row: Row, wired: Wired, seen: RankSeen | None) -> Row:
    """Hold a rank that would pass against the network matrix; another reason not to pass stays."""
    if row.verdict != PASSED:
        return row
    judged = netwiring.judge_card(wired, seen.card if seen else None)
    if judged.verdict == netwiring.PASS:
        return row
    verdict = FAILED if judged.verdict == netwiring.FAIL else INCONCLUSIVE
    return replace(row, verdict=verdict, explanation=judged.text)


def _transports(seen: RankSeen | None) -> str:
    found = sorted(seen.transports.items()) if seen else []
    return ", ".join(f"{name} ×{count}" for name, count in found)[:_SHOWN]


def _rank_row(plan: TransportPlan, planned: str, rank: int, seen: RankSeen | None) -> Row:
    subject = f"r{rank}"
    if seen is None or not seen.transports:
        why = say("no channel line of this rank: not proven")
        return Row(TRANSPORT, subject, INCONCLUSIVE, planned, "", why)
    found = _transports(seen)
    network = [name for name in seen.transports if name.startswith("NET/")]
    if bad := [name for name in network if not _is_planned(plan, name)]:
        why = say("%(found)s instead of %(planned)s", found=bad[0], planned=planned)
        if seen.card is not None and (line := seen.card.transports.get(bad[0])):
            why = say("%(why)s; %(line)s", why=why, line=netwiring.line_words(line))
        return Row(TRANSPORT, subject, FAILED, planned, found, why)
    if plan.between and not network:
        why = say("no channel between nodes in its lines: not proven")
        return Row(TRANSPORT, subject, INCONCLUSIVE, planned, found, why)
    if not seen.is_complete:
        why = say("its set-up has not ended")
        return Row(TRANSPORT, subject, INCONCLUSIVE, planned, found, why)
    return Row(TRANSPORT, subject, PASSED, planned, found)


def _is_planned(plan: TransportPlan, name: str) -> bool:
    return (
        bool(plan.between) and name.startswith(plan.between) and (not plan.gdr or "GDRDMA" in name)
    )


def judge_run(rows: Iterable[Row], checks: Iterable[str]) -> tuple[str, str]:
    """Return the run's verdict and why. A check that was asked for and has no row is inconclusive."""
    rows = list(rows)
    if failed := [row for row in rows if row.verdict == FAILED]:
        first = failed[0]
        return FAILED, say(
            "Rows failed: %(count)s; the first: %(check)s %(subject)s",
            count=len(failed),
            check=first.check,
            subject=first.subject,
        )
    missing = sorted(set(checks) - {row.check for row in rows})
    if missing:
        return INCONCLUSIVE, say("nothing was found for %(checks)s", checks=", ".join(missing))
    if open_rows := [row for row in rows if row.verdict != PASSED]:
        first = open_rows[0]
        return INCONCLUSIVE, say(
            "Rows that prove nothing: %(count)s; the first: %(check)s %(subject)s",
            count=len(open_rows),
            check=first.check,
            subject=first.subject,
        )
    return PASSED, say("Rows passed: %(count)s", count=len(rows))


@dataclass(frozen=True)
class RunSeen:
    """A gate run as one tick sees it. `wanted`: every (check, subject) that its checks ask for."""

    state: str
    now: datetime
    deadline_at: datetime
    is_launch_ready: bool
    launch: str
    checks: tuple[str, ...]
    wanted: frozenset[tuple[str, str]]
    rows: tuple[Row, ...]

    @property
    def is_complete(self) -> bool:
        return self.wanted <= {(row.check, row.subject) for row in self.rows}


def decide(seen: RunSeen) -> tuple[str | None, str]:
    """Return the run's next state (None: it stays) and why. Results are for one launch while it is ready."""
    if not seen.is_launch_ready:
        why = say("%(launch)s is not ready any more: nothing was proven", launch=seen.launch)
        return CANCELLED, why
    if seen.state == RUNNING and seen.is_complete:
        return judge_run(seen.rows, seen.checks)
    if seen.now >= seen.deadline_at:
        return EXPIRED, say(
            "%(got)s of %(all)s results came before its deadline",
            got=len(seen.rows),
            all=len(seen.wanted),
        )
    if seen.state == QUEUED:
        return RUNNING, say("Asking the endpoint.")
    return None, ""
