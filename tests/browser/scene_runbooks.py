"""Incidents of the scene: one whose run waits at its destructive step, one that is proposed, one that is written up."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.contrib.auth import get_user_model
from django.utils import timezone

from fleet.models import Evidence, Replica
from fleet.rules.message import say
from fleet.services.trail import rule_actor
from releases.models import Launch, LaunchPosition, Release
from runbooks.models import Incident, Run, RunStep
from runbooks.rules import run as rules
from runbooks.services.incidents import incident_cause, incident_note, incident_open, incident_take
from runbooks.services.library import book_for
from runbooks.services.runs import run_propose, run_start
from tests import factories

# What the steps before the stop found, in the order of the book.
FOUND: tuple[tuple[str, str, str], ...] = (
    ("weight-zero", rules.PASSED, say("%(weight)s %% read back.", weight=0)),
    ("freeze", rules.PASSED, say("%(count)s pieces sealed.", count=2)),
    ("alive", rules.PASSED, "Every node still holds its process."),
    ("hardware", rules.PASSED, say("No Xid or SXid in %(count)s kernel logs.", count=2)),
    ("lag", rules.STEP_FAILED, say("Every rank but r%(rank)s reports that it waited.", rank=11)),
)
SILENT = (
    "The endpoint generates nothing: %(times)s golden probes without an answer, "
    "the last right answer %(seconds)s s ago. %(stalled)s"
)


def draw(content: dict[str, Any]) -> None:
    unit = Replica.objects.get(name="glm51-r2")
    launch = _launch(unit, content)
    waiting = hang(unit.name, launch, minutes=31)
    _to_stop(waiting, launch)
    hang("glm51-r3", None, minutes=2)
    _written_up(hang("glm51-r4", None, minutes=190))


def hang(unit_name: str, launch: Launch | None, minutes: int) -> Incident:
    """Open the incident of a unit that hangs since some minutes, with case C proposed."""
    unit, actor = Replica.objects.get(name=unit_name), rule_actor("detector-hang")
    now = timezone.now()
    incident, _ = incident_open(
        signature="hang",
        pool=unit.pool,
        replica=unit,
        launch=launch,
        title=say("%(unit)s hangs", unit=unit_name),
        symptoms=[
            {
                "text": say(SILENT, times=3, seconds=94, stalled=""),
                "source": launch.public_id if launch else unit_name,
                "at": now.isoformat(),
            }
        ],
        began_at=now - timedelta(minutes=minutes),
        actor=actor,
    )
    run_propose(
        incident=incident,
        shelved=book_for("hang"),
        params={"unit": unit_name, "incident": incident.public_id},
        actor=actor,
    )
    return incident


def _launch(unit: Replica, content: dict[str, Any]) -> Launch:
    release = Release.objects.create(
        pool=unit.pool,
        title="GLM-5.1 vLLM 0.23.0",
        content=content,
        content_sha256="5" * 64,
        state="reviewed",
    )
    launch = Launch.objects.create(
        replica=unit, release=release, generation=1, plan={"positions": []}, state="failed"
    )
    for position, member in enumerate(unit.members.order_by("position")):
        LaunchPosition.objects.create(launch=launch, position=position, node=member.node)
        Evidence.objects.create(
            object_kind="launch",
            object_id=launch.public_id,
            title=say("%(node)s log of the last 10 min", node=member.node.name),
            origin=member.node.name,
            body=b"x" * 4096,
            size_bytes=4096,
            sha256=f"{position + 7:x}" * 64,
        )
    return launch


def _to_stop(incident: Incident, launch: Launch) -> None:
    ana = get_user_model().objects.get(username="ana")
    actor = factories.make_actor("ana")
    incident_take(incident=incident, user=ana, actor=actor)
    run = run_start(run=incident.runs.get(), user=ana, actor=actor)
    began = timezone.now() - timedelta(minutes=3)
    pieces = list(Evidence.objects.filter(object_id=launch.public_id).values_list("pk", flat=True))
    for number, (step, state, found) in enumerate(FOUND):
        at = began + timedelta(seconds=20 * number)
        RunStep.objects.filter(run=run, step_id=step).update(
            state=state,
            explanation=found,
            attempt=1,
            started_at=at,
            ended_at=at + timedelta(seconds=11),
            evidence=pieces if step == "freeze" else [],
        )
    RunStep.objects.filter(run=run, step_id="stop").update(state=rules.ASKED)
    params = {**run.params, "node": launch.positions.get(position=1).node.name}
    Run.objects.filter(pk=run.pk).update(
        state=rules.WAITING,
        params=params,
        explanation=say("Step %(step)s waits for a person.", step="3.1"),
    )


def _written_up(incident: Incident) -> None:
    bo = get_user_model().objects.get(username="bo")
    actor = factories.make_actor("bo")
    incident_take(incident=incident, user=bo, actor=actor)
    incident_note(incident=incident, text="NIC 6 of gpu018 trained at 200 Gb/s.", actor=actor)
    incident.refresh_from_db()
    incident_cause(
        incident=incident,
        cause="A cable of gpu018 was loose: the ring waited for its slowest link.",
        actor=actor,
        version=incident.version,
    )
    Run.objects.filter(incident=incident).update(
        state=rules.SUCCEEDED, ended_at=timezone.now(), explanation="Every step is done."
    )
    RunStep.objects.filter(run__incident=incident).update(state=rules.PASSED)
    Incident.objects.filter(pk=incident.pk).update(
        state="mitigated", mitigated_at=timezone.now() - timedelta(minutes=150)
    )
