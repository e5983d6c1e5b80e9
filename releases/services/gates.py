"""Gate runs: asked for, carried on tick by tick from their rows, and ended by the rule.

Rows are only ever added, and only to a run that is open: what comes after its end is not a result of it.
"""

import logging
from collections.abc import Iterable
from datetime import timedelta

from django.conf import settings
from django.db import InterfaceError, OperationalError, transaction
from django.db.models import F
from django.db.models.functions import Now

from fleet.doorbell import ring
from fleet.execution.clock import database_now
from fleet.execution.faults import fault_point
from fleet.rules.message import say
from fleet.rules.refusals import RefusedFor
from fleet.services.trail import Actor, rule_actor, trail_add
from releases.models import GateRow, GateRun, Launch
from releases.rules import gates as rules
from releases.services import gate_asks, gate_transport

log = logging.getLogger(__name__)

ALL = rules.CHECKS
RUN_S = 600.0  # from the order to the verdict; a run that has none by then has expired
LIVE = (GateRun.State.QUEUED, GateRun.State.RUNNING)
TOPIC = "gates"  # of the list of runs


class GateRefused(RefusedFor):
    """The gate run may not be started; `reasons` are sentences for the person who asked."""


@transaction.atomic
def gate_start(
    *, launch: Launch, purpose: str, actor: Actor, user=None, checks: Iterable[str] = ALL
) -> GateRun:
    """Ask for a gate run over a ready launch; asking again under the same purpose returns the same run.

    Raises GateRefused when the launch is not ready or another run of it is open.
    """
    checks = tuple(checks)
    if not checks or not set(checks) <= set(ALL):
        raise ValueError(f"checks {checks}: expected some of {', '.join(ALL)}")
    launch = (
        Launch.objects.select_for_update(of=("self",)).select_related("replica").get(pk=launch.pk)
    )
    if found := GateRun.objects.filter(purpose=purpose).first():
        return found
    if refusals := gate_refusals(launch):
        raise GateRefused(refusals)
    run = GateRun.objects.create(
        launch=launch,
        purpose=purpose,
        checks=list(checks),
        explanation=say("Waiting for its first tick."),
        requested_by=user,
        deadline_at=database_now() + timedelta(seconds=RUN_S / settings.TIME_SCALE),
    )
    trail_add(
        actor=actor,
        verb="gate.start",
        object_kind="gate",
        object_id=run.public_id,
        after={"launch": launch.public_id, "unit": launch.replica.name, "checks": list(checks)},
    )
    _ring(run)
    return run


def gate_refusals(launch: Launch) -> list[str]:
    """Say why no gate run may be started over this launch now; empty when one may."""
    reasons = []
    if launch.state != Launch.State.READY:
        reasons.append(
            say(
                "%(launch)s is %(state)s: only a ready launch is judged.",
                launch=launch.public_id,
                state=launch.state,
            )
        )
    if other := launch.gate_runs.filter(state__in=LIVE).first():
        reasons.append(say("%(run)s of this launch is still open.", run=other.public_id))
    return reasons


@transaction.atomic
def gate_cancel(*, run: GateRun, reason: str, actor: Actor) -> GateRun:
    """End an open run without a verdict because somebody wants it; an ended one stays as it is."""
    run = _locked().get(pk=run.pk)
    if run.state in LIVE:
        _move(run, rules.CANCELLED, say("Cancelled: %(reason)s", reason=reason), actor, reason)
    return run


def gates_advance() -> int:
    """Carry every open run one step on, each in a transaction of its own; return how many moved or got rows."""
    open_runs = GateRun.objects.filter(state__in=LIVE).order_by("pk").values_list("pk", flat=True)
    return sum(_advance_or_end(pk) for pk in list(open_runs))


def _advance_or_end(pk: int) -> bool:
    try:
        return gate_advance(pk)
    except (OperationalError, InterfaceError):
        log.exception("gate run %s waits for the database", pk)  # the next tick tries again
        return False
    except Exception as error:
        # A fault of ours is no verdict on the unit, and must not be tried for ever.
        log.exception("gate run %s could not be advanced", pk)
        return _end_or_log(pk, error)


def _end_or_log(pk: int, error: Exception) -> bool:
    try:
        return _end_errored(pk, error)
    except Exception:
        log.exception("gate run %s could not be ended", pk)  # the others must be looked at
        return False


@transaction.atomic
def _end_errored(pk: int, error: Exception) -> bool:
    run = _locked().filter(pk=pk, state__in=LIVE).first()
    if run is None:
        return False
    why = say("The console could not judge it: %(error)s", error=type(error).__name__)
    return _move(run, rules.ERRORED, why, rule_actor("gate"))


@transaction.atomic
def gate_advance(pk: int) -> bool:
    """Add the results that came, then decide. False when nothing changed or another conductor holds the run."""
    rows = _locked(skip_locked=True)
    run = rows.filter(pk=pk, state__in=LIVE).first()
    if run is None:
        return False
    is_open = run.state == rules.RUNNING and database_now() < run.deadline_at
    added = is_open and run.launch.state == Launch.State.READY and _add_rows(run)
    to, why = rules.decide(_seen(run))
    if to is not None:
        return _move(run, to, why, rule_actor("gate"))
    if added:
        _ring(run)
    return bool(added)


def _locked(**how: bool):
    rows = GateRun.objects.select_for_update(of=("self",), **how)
    return rows.select_related("launch__replica__pool", "launch__release")


def _seen(run: GateRun) -> rules.RunSeen:
    return rules.RunSeen(
        state=run.state,
        now=database_now(),
        deadline_at=run.deadline_at,
        is_launch_ready=run.launch.state == Launch.State.READY,
        launch=run.launch.public_id,
        checks=tuple(run.checks),
        wanted=frozenset(wanted_rows(run)),
        rows=tuple(
            rules.Row(row.check_name, row.subject, row.verdict, row.expected, row.found)
            for row in run.rows.all()
        ),
    )


def wanted_rows(run: GateRun) -> list[tuple[str, str]]:
    """Return every (check, subject) that the run must have a row for, in the order of the page."""
    launch, wanted = run.launch, []
    for check in run.checks:
        if check == rules.TRANSPORT:
            for position in range(len(launch.plan["positions"])):
                subjects = gate_transport.rank_subjects(launch, position)
                wanted += [(check, subject) for subject in subjects]
        else:
            wanted += [(check, prompt["id"]) for prompt in launch.release.content["golden"]]
    return wanted


def _add_rows(run: GateRun) -> int:
    """Add a row for each result that is there and has none yet; a node's ranks are judged a node a tick."""
    has = set(run.rows.values_list("check_name", "subject"))
    found = [
        *(
            (row, ms)
            for row, ms in gate_asks.answer_rows(run)
            if (row.check, row.subject) not in has
        ),
        *((row, None) for row in _next_ranks(run, has)),
    ]
    for row, latency_ms in found:
        GateRow.objects.create(
            run=run,
            check_name=row.check,
            subject=row.subject,
            verdict=row.verdict,
            expected=row.expected,
            found=row.found,
            explanation=row.explanation,
            latency_ms=latency_ms,
        )
        fault_point("gate-row")
    return len(found)


def _next_ranks(run: GateRun, has: set[tuple[str, str]]) -> list[rules.Row]:
    if rules.TRANSPORT not in run.checks:
        return []
    for place in run.launch.positions.select_related("node__host"):
        subjects = gate_transport.rank_subjects(run.launch, place.position)
        if (rules.TRANSPORT, subjects[0]) not in has:
            return gate_transport.transport_rows(run.launch, place)
    return []


def _move(run: GateRun, to: str, explanation: str, actor: Actor, reason: str = "") -> bool:
    """Move a locked run along its table, with the trail, the bell and what belongs to the new state."""
    before = run.state
    if to not in rules.GATE_MOVES[before]:
        raise ValueError(f"{run}: {before} > {to} is not in the table")
    changes = {
        "state": to,
        "explanation": explanation,
        "state_at": Now(),
        "version": F("version") + 1,
    }
    if to in rules.ENDED:
        changes["ended_at"] = Now()
    GateRun.objects.filter(pk=run.pk).update(**changes)
    run.refresh_from_db(fields=["state", "explanation", "state_at", "version", "ended_at"])
    trail_add(
        actor=actor,
        verb=f"gate.{to}",
        object_kind="gate",
        object_id=run.public_id,
        reason=reason or (explanation if to in rules.ENDED else ""),
        before={"state": before},
        after={"state": to},
    )
    if to == rules.RUNNING:
        gate_asks.dispatch_asks(run)
        fault_point("gate-asked")
    elif to in rules.ENDED:
        gate_asks.cancel_asks(run)
        gate_asks.freeze_answers(run)
    _ring(run)
    return True


def _ring(run: GateRun) -> None:
    launch = run.launch
    ring(run.topic, TOPIC, launch.topic, f"replica-{launch.replica.name}")
