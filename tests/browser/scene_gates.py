"""Gate runs of the scene: one that proved too little, one that failed, one whose rows are coming in."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.utils import timezone

from fleet.models import Replica
from fleet.rules.message import say
from releases.models import GateRow, GateRun, Launch
from tests import factories

RDMA = "P2P/CUMEM ×24, NET/IB/{rail}/GDRDMA ×8"
PLANNED = "NET/IB/GDRDMA"


def draw() -> None:
    unit = Replica.objects.get(name="glm52-r1")
    launch = unit.launches.get(state="ready")
    _unproven(_run(launch, "scene/1", hours=5))
    _failed(_run(launch, "scene/2", hours=2))
    _coming(_run(launch, "scene/3", hours=0))


def _run(launch: Launch, purpose: str, *, hours: int) -> GateRun:
    at = timezone.now() - timedelta(hours=hours, seconds=4)
    run = GateRun.objects.create(
        launch=launch,
        purpose=purpose,
        checks=["golden", "stream", "transport"],
        state="cancelled",
        requested_by=factories.make_person("ana"),
        deadline_at=at + timedelta(minutes=10),
    )
    GateRun.objects.filter(pk=run.pk).update(created_at=at, state_at=at)
    return run


def _end(run: GateRun, state: str, explanation: str) -> None:
    ended = run.deadline_at - timedelta(minutes=9)
    GateRun.objects.filter(pk=run.pk).update(state=state, explanation=explanation, ended_at=ended)


def _row(run: GateRun, check: str, subject: str, verdict: str, **fields: Any) -> None:
    GateRow.objects.create(run=run, check_name=check, subject=subject, verdict=verdict, **fields)


def _answers(run: GateRun) -> None:
    for check in ("golden", "stream"):
        _row(run, check, "zh-arithmetic", "passed", expected="42", found="42", latency_ms=388.0)


def _ranks(run: GateRun, count: int) -> None:
    for rank in range(count):
        found = RDMA.format(rail=rank % 8)
        _row(run, "transport", f"r{rank}", "passed", expected=PLANNED, found=found)


def _unproven(run: GateRun) -> None:
    why = say("HTTP %(status)s", status=503)
    _answers(run)
    _row(run, "golden", "en-echo", "inconclusive", expected="flotilla", explanation=why)
    _row(run, "stream", "en-echo", "inconclusive", explanation=why)
    _ranks(run, 16)
    _end(
        run,
        "inconclusive",
        say(
            "Rows that prove nothing: %(count)s; the first: %(check)s %(subject)s",
            count=2,
            check="golden",
            subject="en-echo",
        ),
    )


def _failed(run: GateRun) -> None:
    _answers(run)
    _row(
        run,
        "golden",
        "en-echo",
        "failed",
        expected="flotilla",
        found="flotilla Or not.",
        latency_ms=402.0,
    )
    _row(
        run,
        "stream",
        "en-echo",
        "passed",
        expected="flotilla Or not.",
        found="flotilla Or not.",
        latency_ms=431.0,
    )
    _ranks(run, 8)
    why = say("%(found)s instead of %(planned)s", found="NET/Socket/0", planned=PLANNED)
    for rank in range(8, 16):
        _row(
            run,
            "transport",
            f"r{rank}",
            "failed",
            expected=PLANNED,
            found="P2P/CUMEM ×24, NET/Socket/0 ×8",
            explanation=why,
        )
    _end(
        run,
        "failed",
        say(
            "Rows failed: %(count)s; the first: %(check)s %(subject)s",
            count=9,
            check="golden",
            subject="en-echo",
        ),
    )


def _coming(run: GateRun) -> None:
    _answers(run)
    _ranks(run, 8)
    GateRun.objects.filter(pk=run.pk).update(state="running", explanation="Asking the endpoint.")
