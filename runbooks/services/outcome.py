"""What an action or a reading of a step says when it is asked how it stands."""

from dataclasses import dataclass, field
from typing import Any

from runbooks.models import RunStep
from runbooks.rules.run import PASSED, STEP_FAILED, UNKNOWN


@dataclass(frozen=True)
class Outcome:
    """A step's end. `facts` are for later steps and the page, `evidence` ids of frozen rows."""

    state: str
    explanation: str = ""
    facts: dict[str, Any] = field(default_factory=dict)
    evidence: list[int] = field(default_factory=list)


@dataclass(frozen=True)
class Work:
    """A step at work: its row and its arguments with every parameter filled in."""

    step: RunStep
    args: dict[str, Any]

    @property
    def actor_name(self) -> str:
        return self.step.confirmed_by or f"rule:{self.step.run.book_id}"


def passed(explanation: str = "", **facts: Any) -> Outcome:
    """Return the outcome of a step whose proof is there."""
    return Outcome(PASSED, explanation, facts)


def failed(explanation: str, **facts: Any) -> Outcome:
    """Return the outcome of a step that is proved not to hold."""
    return Outcome(STEP_FAILED, explanation, facts)


def unknown(explanation: str, **facts: Any) -> Outcome:
    """Return the outcome of a step of which nothing is proved."""
    return Outcome(UNKNOWN, explanation, facts)
