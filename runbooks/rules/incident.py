"""The life of an incident, and what may be closed. Pure. Source: RELIABILITY.md section 4 (Incident)."""

from dataclasses import dataclass

from fleet.rules.message import say

OPEN, ACKNOWLEDGED, MITIGATING = "open", "acknowledged", "mitigating"
MITIGATED, RESOLVED, CLOSED = "mitigated", "resolved", "closed"
INCIDENT_MOVES: dict[str, frozenset[str]] = {
    OPEN: frozenset({ACKNOWLEDGED, MITIGATING, MITIGATED, RESOLVED}),
    ACKNOWLEDGED: frozenset({MITIGATING, MITIGATED, RESOLVED}),
    MITIGATING: frozenset({MITIGATED, RESOLVED}),
    MITIGATED: frozenset({MITIGATING, RESOLVED}),
    RESOLVED: frozenset({OPEN, CLOSED}),
    CLOSED: frozenset(),
}
LIVE = frozenset({OPEN, ACKNOWLEDGED, MITIGATING, MITIGATED})


@dataclass(frozen=True)
class ClosingFacts:
    cause: str
    evidence: int  # pieces linked to it
    live_runs: tuple[str, ...]


def closing_refusals(facts: ClosingFacts) -> list[str]:
    """Say what is missing before an incident may be resolved or closed; empty when nothing is."""
    refusals = []
    if not facts.cause.strip():
        refusals.append(say("Write the cause first."))
    if not facts.evidence:
        refusals.append(say("Link at least one piece of evidence first."))
    if facts.live_runs:
        refusals.append(say("%(runs)s is not ended yet.", runs=", ".join(facts.live_runs)))
    return refusals
