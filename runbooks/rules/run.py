"""A run of a book: its states and the next step that may begin. Pure.

Unknown blocks: after it nothing that changes the fleet begins until a person records what they saw, except what
only makes things safer. Source: RELIABILITY.md section 4 (RunbookExecution, Step).
"""

from dataclasses import dataclass

from fleet.rules.message import say

PROPOSED, RUNNING, WAITING = "proposed", "running", "waiting_human"
SUCCEEDED, FAILED, ABORTED = "succeeded", "failed", "aborted"
RUN_MOVES: dict[str, frozenset[str]] = {
    PROPOSED: frozenset({RUNNING, ABORTED}),
    RUNNING: frozenset({WAITING, SUCCEEDED, FAILED, ABORTED}),
    WAITING: frozenset({RUNNING, SUCCEEDED, FAILED, ABORTED}),
    SUCCEEDED: frozenset(),
    FAILED: frozenset(),
    ABORTED: frozenset(),
}
LIVE = frozenset({PROPOSED, RUNNING, WAITING})
PENDING, ASKED, AT_WORK = "pending", "awaiting_confirm", "running"
PASSED, STEP_FAILED, UNKNOWN, SKIPPED, CANCELLED = (
    "passed",
    "failed",
    "unknown",
    "skipped",
    "cancelled",
)
STEP_MOVES: dict[str, frozenset[str]] = {
    PENDING: frozenset({ASKED, AT_WORK, SKIPPED, CANCELLED}),
    ASKED: frozenset({AT_WORK, SKIPPED, CANCELLED}),
    AT_WORK: frozenset({PASSED, STEP_FAILED, UNKNOWN, CANCELLED}),
    # A person may try again what is safe to repeat, or record what they saw.
    STEP_FAILED: frozenset({AT_WORK, SKIPPED, CANCELLED}),
    UNKNOWN: frozenset({AT_WORK, PASSED, STEP_FAILED, CANCELLED}),
    PASSED: frozenset(),
    SKIPPED: frozenset(),
    CANCELLED: frozenset(),
}
# Whatever else is unknown, these only make things safer.
SAFE_SIDE = frozenset({"evidence_freeze", "node_cordon"})


@dataclass(frozen=True)
class StepSeen:
    id: str
    state: str
    risk: str
    who: str
    action: str  # empty for a check
    on_fail: str
    on_unknown: str
    args: tuple[tuple[str, object], ...] = ()
    is_missing_param: str = ""  # a parameter that nobody gave yet
    number: str = ""  # as the page of the run counts it, 2.3

    @property
    def name(self) -> str:
        return self.number or self.id

    @property
    def is_safe_side(self) -> bool:
        is_weight_down = self.action == "weight_set" and dict(self.args).get("percent") == 0
        return self.action in SAFE_SIDE or is_weight_down

    @property
    def is_over(self) -> bool:
        return (
            self.state in (PASSED, SKIPPED)
            or (self.state == STEP_FAILED and self.on_fail == "continue")
            or (self.state == UNKNOWN and self.on_unknown == "continue")
        )


@dataclass(frozen=True)
class RunMove:
    """`to`: the run's state (None: stays). `begin`: the step to start by itself, `ask`: the one a person starts."""

    to: str | None
    explanation: str
    begin: str = ""
    ask: str = ""


def decide_run(state: str, steps: tuple[StepSeen, ...], *, is_braked: bool = False) -> RunMove:
    """Decide the next move of a run that was started; a proposed or ended one stays."""
    if state not in (RUNNING, WAITING):
        return RunMove(None, "")
    blocked = [step for step in steps if step.state == UNKNOWN and step.on_unknown == "block"]
    for step in steps:
        if step.is_over:
            continue
        if step.state == AT_WORK:
            return _to(state, RUNNING, say("Step %(step)s is at work.", step=step.name))
        if step.state == STEP_FAILED:
            why = say("Step %(step)s failed: try again, record it, or abort.", step=step.name)
            return _to(state, WAITING, why)
        if step.state == UNKNOWN:
            if step == blocked[0] and _safe_step_behind(steps, step.id):
                continue
            why = say("Step %(step)s is unknown: record what you saw.", step=step.name)
            return _to(state, WAITING, why)
        if step.state == CANCELLED:
            return _to(state, FAILED, say("Step %(step)s was cancelled.", step=step.name))
        if blocked and not step.is_safe_side and step.risk != "read_only":
            why = say("Step %(step)s is unknown: record what you saw.", step=blocked[0].name)
            return _to(state, WAITING, why)
        return _open(state, step, is_braked=is_braked)
    return _to(state, SUCCEEDED, say("Every step is done."))


def _safe_step_behind(steps: tuple[StepSeen, ...], name: str) -> bool:
    """Whether the step right behind an unknown one may begin all the same."""
    names = [step.id for step in steps]
    behind = next((step for step in steps[names.index(name) + 1 :] if not step.is_over), None)
    return behind is not None and (behind.is_safe_side or behind.risk == "read_only")


def _open(state: str, step: StepSeen, *, is_braked: bool) -> RunMove:
    if step.is_missing_param:
        why = say("Step %(step)s needs %(param)s.", step=step.name, param=step.is_missing_param)
        return RunMove(_other(state, WAITING), why, ask=step.id if step.state == PENDING else "")
    if step.who == "auto" and not is_braked:
        return RunMove(
            _other(state, RUNNING), say("Step %(step)s begins.", step=step.name), step.id
        )
    why = say("Step %(step)s waits for a person.", step=step.name)
    if is_braked and step.who == "auto":
        why = say("Step %(step)s waits: the mass-change brake is on.", step=step.name)
    return RunMove(_other(state, WAITING), why, ask=step.id if step.state == PENDING else "")


def _to(state: str, to: str, explanation: str) -> RunMove:
    return RunMove(_other(state, to), explanation)


def _other(state: str, to: str) -> str | None:
    return None if to == state else to
