"""The life of a launch: its state table, and the decision of one tick from a snapshot. Pure; `now`
is in the snapshot.

Not in charge of doing anything: it names the next move and why, releases/services/launch_tick.py
carries it out.
Source: RELIABILITY.md section 4 (Launch), MISSION laws 1 and 3, LAB.md 4.6 (who stays silent when a
rank dies).
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from fleet.readings.vllm_log import PHASES as ENGINE_PHASES
from fleet.rules.message import said, say
from releases.rules.hang import answers_rightly, find_hang
from releases.rules.lost_rank import better_cause, lost_rank, names_of, rebooted

CREATED, PREFLIGHT, STARTING, LOADING, WARMING, READY = (
    "created",
    "preflight",
    "starting",
    "loading",
    "warming",
    "ready",
)
FREEZING, STOPPING, FAILED, STOPPED = "freezing", "stopping", "failed", "stopped"

LAUNCH_MOVES: dict[str, frozenset[str]] = {
    # Before the first start command is committed nothing runs on a node: failing needs no clean-up.
    CREATED: frozenset({PREFLIGHT, FAILED, STOPPED}),
    PREFLIGHT: frozenset({STARTING, FAILED, STOPPED}),
    STARTING: frozenset({LOADING, FREEZING, STOPPING}),
    LOADING: frozenset({WARMING, FREEZING, STOPPING}),
    WARMING: frozenset({READY, FREEZING, STOPPING}),
    READY: frozenset({FREEZING, STOPPING}),
    FREEZING: frozenset({STOPPING}),
    STOPPING: frozenset({STOPPED, FAILED}),
    FAILED: frozenset(),
    STOPPED: frozenset(),
}
RUNNING_STATES = frozenset({STARTING, LOADING, WARMING, READY})
# The last lines of an engine that died come after its end was noticed.
READ_STATES = RUNNING_STATES | {FREEZING}
ENDED = frozenset({FAILED, STOPPED})
ANSWERED = say("Ready: every golden prompt was answered exactly.")
# Doubts that stand against a ready unit while nothing is done to it.
HELD, UNSEEN, HUNG = "held", "unseen", "hung"


@dataclass(frozen=True)
class Limits:
    """Waiting times in seconds, already divided by the time scale. Source: NUMBERS.md."""

    start_window_s: float = 120.0
    ready_s: float = 3600.0
    warm_up_s: float = 300.0
    evidence_s: float = 20.0
    hang_s: float = 60.0
    scrape_stale_s: float = 45.0


@dataclass(frozen=True)
class PositionSeen:
    """What is known of one node of the launch. A state of '' means there is no such row yet."""

    position: int
    node: str
    preflight: str = ""  # '', open, ok, bad
    preflight_explanation: str = ""
    start: str = ""  # state of the start command
    start_explanation: str = ""
    subject: str = ""  # state of the subject on the node
    rc: int | None = None
    phase: str = ""
    failure: str = ""  # a line of its log after which no rank can go on
    failure_kind: str = ""  # what the reading calls it (fleet/readings/vllm_log/failures.py)
    log_cause: str = ""  # the likeliest cause that its log names
    log_cause_kind: str = ""
    world_size: int | None = None
    identity: str = ""  # of its container, as rules/identity.py judges it; '' where none is asked
    identity_explanation: str = ""
    evidence: str = ""  # '', open, done
    stop: str = ""  # state of the newest stop command
    stop_explanation: str = ""
    is_reachable: bool = True
    boot_changed: bool = False


@dataclass(frozen=True)
class GoldenSeen:
    """The recurring golden probe of a ready unit, and whether its token counters move."""

    tried_at: datetime | None = None
    ok_at: datetime | None = None
    misses: int = 0
    error: str = ""
    is_wrong_answer: bool = False
    running: float | None = None
    progress_at: datetime | None = None
    metrics_at: datetime | None = None


@dataclass(frozen=True)
class TrafficSeen:
    """What a gateway gives a ready unit. `stop_reason`: a person wants it stopped once it is out of traffic."""

    stop_reason: str = ""
    drain_explanation: str = ""
    is_out: bool = False  # proved, or given up at its deadline


@dataclass(frozen=True)
class Snapshot:
    state: str
    now: datetime
    state_at: datetime
    start_deadline_at: datetime | None
    world_size: int
    cause: str
    positions: tuple[PositionSeen, ...]
    warm_up: str = ""  # '', open, right, wrong, failed
    warm_up_explanation: str = ""
    golden: GoldenSeen = field(default_factory=GoldenSeen)
    traffic: TrafficSeen | None = None  # None: no gateway sends it any
    doubt: str = ""  # that stands against the unit now, with what was last said of it
    explanation: str = ""
    is_braked: bool = False
    limits: Limits = field(default_factory=Limits)


@dataclass(frozen=True)
class Move:
    """What to do next. `to` is None when the launch stays where it is; `explanation` says what it
    waits for.

    `doubt`: it stays ready and must not count as ready. `is_reboot`: its ranks are gone by another boot of
    their node, so taking it down acts on nothing that could still serve. `is_judged`: it takes a unit down, or
    its traffic away, because a rule thinks so: what the mass-change brake is for.
    """

    to: str | None
    explanation: str
    cause: str = ""
    doubt: str = ""
    is_reboot: bool = False
    is_judged: bool = False


def decide(seen: Snapshot) -> Move:
    """Decide the next move of a launch."""
    return _DECIDERS[seen.state](seen)


def _created(seen: Snapshot) -> Move:
    return Move(PREFLIGHT, say("Checking weights, image and leftovers on every node."))


def _preflight(seen: Snapshot) -> Move:
    bad = [p for p in seen.positions if p.preflight == "bad"]
    if bad:
        text = _whys((p.node, p.preflight_explanation) for p in bad)
        return Move(FAILED, text, cause=say("Pre-flight refused: %(why)s", why=text))
    waiting = [p.node for p in seen.positions if p.preflight != "ok"]
    if not waiting:
        return Move(STARTING, say("Starting every rank."))
    if _age(seen, seen.state_at) > seen.limits.start_window_s:
        text = say("No pre-flight answer from %(nodes)s.", nodes=names_of(waiting))
        return Move(FAILED, text, cause=text)
    return Move(None, say("Pre-flight on %(nodes)s.", nodes=names_of(waiting)))


def _starting(seen: Snapshot) -> Move:
    trouble = _start_trouble(seen) or lost_rank(seen.positions) or _unreachable(seen)
    if trouble:
        return _take_down(seen, trouble)
    missing = [p.node for p in seen.positions if p.start != "succeeded" or p.subject == "new"]
    if not missing:
        return Move(
            LOADING, say("Every node started (%(count)s); loading.", count=len(seen.positions))
        )
    if seen.start_deadline_at and seen.now > seen.start_deadline_at:
        cause = say(
            "The start window is over and %(nodes)s did not start: all ranks or none, "
            "so the whole unit is taken down.",
            nodes=names_of(missing),
        )
        return Move(FREEZING, cause, cause=cause)
    return Move(None, say("Waiting for %(nodes)s to start.", nodes=names_of(missing)))


def _take_down(seen: Snapshot, cause: str) -> Move:
    is_reboot = bool(rebooted(seen.positions))
    return Move(FREEZING, cause, cause=cause, is_reboot=is_reboot, is_judged=not is_reboot)


def _start_trouble(seen: Snapshot) -> str:
    for place in seen.positions:
        if place.start in {"failed", "timed_out", "cancelled"}:
            return say(
                "%(node)s did not start: %(why)s",
                node=place.node,
                why=place.start_explanation or place.start,
            )
    return ""


def _loading(seen: Snapshot) -> Move:
    trouble = (
        lost_rank(seen.positions) or _foreign(seen) or _wrong_world(seen) or _unreachable(seen)
    )
    if trouble:
        return _take_down(seen, trouble)
    is_up = seen.positions[0].phase == "ready"
    waits = _not_proved(p.node for p in seen.positions if p.identity != "ok")
    if is_up and not waits:
        return Move(WARMING, say("The engine answers; asking the golden prompts."))
    if _age(seen, seen.state_at) > seen.limits.ready_s:
        cause = waits if is_up else _slowest(seen)
        return Move(FREEZING, cause, cause=cause)
    if is_up:
        return Move(None, waits)
    phases = ", ".join(f"{p.node} {p.phase or 'start'}" for p in seen.positions)
    return Move(None, say("Loading: %(phases)s.", phases=phases))


def _slowest(seen: Snapshot) -> str:
    slow = min(seen.positions, key=lambda place: PHASES.index(place.phase or PHASES[0]))
    return say(
        "Not ready after %(seconds)s s: %(node)s stands in phase %(phase)s.",
        seconds=round(seen.limits.ready_s),
        node=slow.node,
        phase=slow.phase or "start",
    )


def _foreign(seen: Snapshot) -> str:
    """All ranks are of one plan and one start, or the unit is none (P23, P24)."""
    for place in seen.positions:
        if place.identity == "bad":
            return say("%(node)s: %(why)s", node=place.node, why=place.identity_explanation)
    return ""


def _wrong_world(seen: Snapshot) -> str:
    for place in seen.positions:
        if place.world_size is not None and place.world_size != seen.world_size:
            return say(
                "%(node)s joined a world of size %(found)s, in the plan: %(planned)s.",
                node=place.node,
                found=place.world_size,
                planned=seen.world_size,
            )
    return ""


def _unreachable(seen: Snapshot) -> str:
    """A unit that is not complete yet must not wait for a node that went away (P28)."""
    away = [p.node for p in seen.positions if not p.is_reachable]
    if not away:
        return ""
    return say("%(nodes)s became unreachable before the unit was ready.", nodes=names_of(away))


def _warming(seen: Snapshot) -> Move:
    trouble = lost_rank(seen.positions) or _foreign(seen) or _unreachable(seen)
    if trouble:
        return _take_down(seen, trouble)
    waits = _not_proved(p.node for p in seen.positions if p.identity not in {"", "ok"})
    if seen.warm_up == "right" and not waits:
        return Move(READY, ANSWERED)
    if seen.warm_up == "wrong":
        cause = say("Golden warm-up answered wrongly: %(why)s", why=seen.warm_up_explanation)
        return Move(FREEZING, cause, cause=cause)
    if _age(seen, seen.state_at) > seen.limits.warm_up_s:
        silence = say("Golden warm-up got no answer: %(why)s", why=seen.warm_up_explanation or "-")
        cause = waits if seen.warm_up == "right" else silence
        return Move(FREEZING, cause, cause=cause)
    if seen.warm_up == "right":
        return Move(None, waits)
    return Move(None, seen.warm_up_explanation or say("Waiting for the golden answers."))


def _not_proved(nodes: Iterable[str]) -> str:
    """Name the nodes that have not told yet what runs there, or return nothing."""
    names = names_of(list(nodes))
    return say("Not proved yet what runs on %(nodes)s.", nodes=names) if names else ""


def _ready(seen: Snapshot) -> Move:
    if move := _trouble(seen):
        if not (seen.is_braked and move.is_judged):
            return move
        why = say("Held by the mass-change brake: %(why)s", why=move.explanation)
        return Move(None, why, doubt=HELD)
    away = [place.node for place in seen.positions if not place.is_reachable]
    if away and not answers_rightly(seen):
        why = say(
            "%(nodes)s cannot be reached: whether it serves is not known.", nodes=names_of(away)
        )
        return Move(None, why, doubt=UNSEEN)
    if why := _unasked(seen):
        return Move(None, why, doubt=UNSEEN)
    return Move(None, _at_rest(seen))


def _unasked(seen: Snapshot) -> str:
    """What was once proved does not stay so: without a fresh look nobody knows whether it serves (P27, P29).

    The sentence carries the time and not the age, so that it is written and told once.
    """
    asked_at = max(at for at in (seen.golden.tried_at, seen.state_at) if at)
    if _age(seen, asked_at) <= seen.limits.hang_s:
        return ""
    return say(
        "Nobody has asked its golden prompt since %(at)s UTC: whether it serves is not known.",
        at=asked_at.strftime("%H:%M:%S"),
    )


def _trouble(seen: Snapshot) -> Move | None:
    """A unit that lost ranks is taken down. One that hangs keeps running where a gateway can take its traffic away.

    That is undone by a click when the judgement was wrong; what becomes of the unit is the runbook's.
    """
    if lost := lost_rank(seen.positions) or _foreign(seen):
        return _take_down(seen, lost)
    if move := _wanted_stop(seen):
        return move
    if seen.doubt == HUNG and not answers_rightly(seen):
        return Move(None, seen.explanation, doubt=HUNG)  # silence does not clear it
    hang = find_hang(seen)
    if hang and seen.traffic is not None:
        return Move(None, hang, doubt=HUNG, is_judged=True)
    return _take_down(seen, hang) if hang else None


def _wanted_stop(seen: Snapshot) -> Move | None:
    """Stop what a person wants stopped once no request is lost by it, or the deadline has said what is."""
    traffic = seen.traffic
    if traffic is None or not (traffic.stop_reason and traffic.is_out):
        return None
    return Move(STOPPING, say("Stopping every rank: %(reason)s", reason=traffic.stop_reason))


def _at_rest(seen: Snapshot) -> str:
    if seen.traffic is None or not seen.traffic.stop_reason:
        return ANSWERED
    return say(
        "To be stopped when it is out of traffic. %(drain)s", drain=seen.traffic.drain_explanation
    )


def _freezing(seen: Snapshot) -> Move:
    waiting = [p.node for p in seen.positions if p.evidence != "done"]
    if waiting and _age(seen, seen.state_at) <= seen.limits.evidence_s:
        return Move(
            None,
            say(
                "Freezing evidence on %(nodes)s before anything is stopped.",
                nodes=names_of(waiting),
            ),
        )
    return Move(
        STOPPING, say("Stopping every rank."), cause=better_cause(seen.cause, seen.positions)
    )


def _stopping(seen: Snapshot) -> Move:
    unproved = [p for p in seen.positions if p.stop != "succeeded"]
    if not unproved:
        if seen.cause:
            return Move(FAILED, say("%(cause)s Every rank is proved gone.", cause=seen.cause))
        return Move(STOPPED, say("Every rank is proved gone."))
    text = _whys((p.node, p.stop_explanation or p.stop or "-") for p in unproved)
    return Move(None, say("Not proved gone yet: %(nodes)s", nodes=text))


def _ended(seen: Snapshot) -> Move:
    return Move(None, "")


_DECIDERS = {
    CREATED: _created,
    PREFLIGHT: _preflight,
    STARTING: _starting,
    LOADING: _loading,
    WARMING: _warming,
    READY: _ready,
    FREEZING: _freezing,
    STOPPING: _stopping,
    FAILED: _ended,
    STOPPED: _ended,
}

# In the order an engine goes through them (MODELS.md section 3).
PHASES = ("start", *ENGINE_PHASES)


def _age(seen: Snapshot, at: datetime) -> float:
    return (seen.now - at) / timedelta(seconds=1)


def _whys(reasons: Iterable[tuple[str, str]]) -> str:
    """Return one sentence of nodes with their reasons; a reason that names its node already is left as it is."""
    text = ""
    for node, why in reasons:
        one = (
            why
            if said(why).startswith(f"{node}:")
            else say("%(node)s: %(why)s", node=node, why=why)
        )
        text = say("%(why)s; %(more)s", why=text, more=one) if text else one
    return text
