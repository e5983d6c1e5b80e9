"""The verdicts of a gate run: each check from what was found, and the run from its checks. Pure.

No data is never a pass: a check without an answer is inconclusive. Health alone proves nothing and is no check.
Source: manual A 10.1, 5.2 (transport proof); RELIABILITY.md section 4 (GateRun).
"""

from collections.abc import Iterable
from dataclasses import dataclass

from fleet.readings.sse import StreamedAnswer
from fleet.rules.message import say

QUEUED, RUNNING, PASSED, FAILED = "queued", "running", "passed", "failed"
INCONCLUSIVE, ERRORED, EXPIRED, CANCELLED = "inconclusive", "errored", "expired", "cancelled"
GATE_MOVES: dict[str, frozenset[str]] = {
    QUEUED: frozenset({RUNNING, CANCELLED, EXPIRED}),
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
_SHOWN = 400  # characters of an answer in a row


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
    return Row(GOLDEN, prompt, verdict, expected[:_SHOWN], answer.text[:_SHOWN])


def judge_stream(prompt: str, whole: Answer, streamed: StreamedAnswer | None, problem: str) -> Row:
    """The joined chunks must be the unstreamed answer, ended with a reason and [DONE]."""
    expected = (whole.text or "")[:_SHOWN]
    if whole.text is None or streamed is None:
        return Row(STREAM, prompt, INCONCLUSIVE, expected, "", problem or whole.problem)
    found = streamed.text[:_SHOWN]
    if streamed.error:
        return Row(STREAM, prompt, FAILED, expected, found, streamed.error)
    if not streamed.is_done or not streamed.finish_reason:
        why = say("the stream ended without its end after %(n)s chunks", n=streamed.chunks)
        return Row(STREAM, prompt, FAILED, expected, found, why)
    verdict = PASSED if streamed.text == whole.text else FAILED
    return Row(STREAM, prompt, verdict, expected, found)


@dataclass(frozen=True)
class RankSeen:
    """What one rank's NCCL lines say: channel lines by transport, and whether set-up ended."""

    rank: int
    node: str
    transports: dict[str, int]
    is_complete: bool


@dataclass(frozen=True)
class TransportPlan:
    """What the release plans between nodes, and whether by GPUDirect. Empty `between`: one node only."""

    between: str = "NET/IB"
    gdr: bool = True


def judge_transport(plan: TransportPlan, ranks: Iterable[RankSeen], world_size: int) -> list[Row]:
    """Judge every rank of the world: a rank without lines is not proved, a socket is a failure."""
    seen = {one.rank: one for one in ranks}
    planned = (
        f"{plan.between}{'/GDRDMA' if plan.gdr else ''}" if plan.between else "inside the node"
    )
    return [_rank_row(plan, planned, rank, seen.get(rank)) for rank in range(world_size)]


def _rank_row(plan: TransportPlan, planned: str, rank: int, seen: RankSeen | None) -> Row:
    subject = f"r{rank}"
    if seen is None or not seen.transports:
        why = say("no channel line of this rank: not proven")
        return Row(TRANSPORT, subject, INCONCLUSIVE, planned, "", why)
    found = ", ".join(f"{name} ×{count}" for name, count in sorted(seen.transports.items()))
    network = [name for name in seen.transports if name.startswith("NET/")]
    if bad := [name for name in network if not _is_planned(plan, name)]:
        why = say("%(found)s instead of %(planned)s", found=bad[0], planned=planned)
        return Row(TRANSPORT, subject, FAILED, planned, found[:_SHOWN], why)
    if plan.between and not network:
        why = say("no channel between nodes in its lines: not proven")
        return Row(TRANSPORT, subject, INCONCLUSIVE, planned, found[:_SHOWN], why)
    if not seen.is_complete:
        why = say("its set-up has not ended")
        return Row(TRANSPORT, subject, INCONCLUSIVE, planned, found[:_SHOWN], why)
    return Row(TRANSPORT, subject, PASSED, planned, found[:_SHOWN])


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
            "%(count)s rows failed; the first: %(check)s %(subject)s",
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
            "%(count)s rows prove nothing; the first: %(check)s %(subject)s",
            count=len(open_rows),
            check=first.check,
            subject=first.subject,
        )
    return PASSED, say("%(count)s rows passed", count=len(rows))
