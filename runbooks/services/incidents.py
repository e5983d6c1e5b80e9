"""Incidents: opened once for what a detector saw; people move them on. Each change has its line in the timeline."""

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from django.db import IntegrityError, transaction
from django.db.models import F, Q
from django.db.models.functions import Now
from django.utils.translation import gettext as _

from fleet.doorbell import ring
from fleet.models import Evidence, Pool, Replica
from fleet.rules.message import said, say
from fleet.rules.refusals import Conflict, NeedsReason
from fleet.services.trail import Actor, trail_add
from releases.models import Launch
from runbooks.models import Incident, IncidentNote, Run
from runbooks.rules import incident as rules
from runbooks.rules import run as run_rules


def incident_open(
    *,
    signature: str,
    pool: Pool | None,
    replica: Replica | None,
    launch: Launch | None,
    title: str,
    symptoms: Iterable[dict[str, str]],
    began_at: datetime,
    actor: Actor,
) -> tuple[Incident, bool]:
    """Open the incident of a signature and a unit, or return the open one; the flag tells which."""
    live = Incident.objects.filter(
        signature=signature, pool=pool, replica=replica, state__in=rules.LIVE
    )
    if found := live.first():
        return found, False
    try:
        with transaction.atomic():
            incident = Incident.objects.create(
                signature=signature,
                pool=pool,
                replica=replica,
                launch=launch,
                title=title,
                symptoms=list(symptoms),
                began_at=began_at,
            )
            _tell(incident, actor, "incident.open", title)
    except IntegrityError:  # another conductor was first
        return live.get(), False
    return incident, True


@transaction.atomic
def incident_recur(*, incident: Incident, symptom: dict[str, str], actor: Actor) -> bool:
    """Add to an open incident what a detector saw of another launch, or by another signature, as a line of its
    timeline too; once for a launch and a signature. False when it is there already.
    """
    incident = incident_locked(incident, None)
    seen = {(one["source"], one.get("signature", incident.signature)) for one in incident.symptoms}
    if (symptom["source"], symptom["signature"]) in seen:
        return False
    # No new version: nothing of it that a person may be changing now has changed.
    Incident.objects.filter(pk=incident.pk).update(symptoms=[*incident.symptoms, symptom])
    text = say("%(launch)s too: %(text)s", launch=symptom["source"], text=symptom["text"])
    _tell(incident, actor, "incident.recur", text)
    return True


@transaction.atomic
def incident_move(
    *, incident: Incident, to: str, actor: Actor, words: str = "", version: int | None = None
) -> Incident:
    """Move an incident on; where it is already it stays. Raises Conflict for a move its table has not."""
    incident = incident_locked(incident, version)
    if incident.state == to:
        return incident
    if to not in rules.INCIDENT_MOVES[incident.state]:
        raise Conflict(
            _("%(incident)s is %(state)s; it cannot become %(to)s.")
            % {"incident": incident, "state": incident.get_state_display(), "to": said(say(to), _)}
        )
    if to in (rules.RESOLVED, rules.CLOSED):
        _demand_closable(incident)
    if to == rules.OPEN:
        _demand_only(incident)
    changes: dict[str, Any] = {"state": to}
    if to == rules.MITIGATED:
        changes["mitigated_at"] = Now()
    if to == rules.CLOSED:
        changes["closed_at"] = Now()
    _update(incident, **changes)
    _tell(incident, actor, f"incident.{to}", words or say(to))
    return incident


@transaction.atomic
def incident_take(*, incident: Incident, user: Any, actor: Actor) -> Incident:
    """Put an incident into somebody's hands, from whoever had it; an open one is acknowledged by that.

    Raises Conflict for a closed one.
    """
    incident = incident_locked(incident, None)
    _demand_not_closed(incident)
    changes: dict[str, Any] = {"owner": user}
    if incident.state == rules.OPEN:
        changes["state"] = rules.ACKNOWLEDGED
    _update(incident, **changes)
    _tell(incident, actor, "incident.take", say("Taken by %(who)s.", who=user.get_username()))
    return incident


@transaction.atomic
def incident_note(*, incident: Incident, text: str, actor: Actor) -> None:
    """Add a line to the timeline. Raises NeedsReason for an empty one."""
    if not text.strip():
        raise NeedsReason(_("A note needs words."))
    _tell(incident_locked(incident, None), actor, "incident.note", text.strip())


@transaction.atomic
def incident_cause(*, incident: Incident, cause: str, actor: Actor, version: int) -> Incident:
    """Write the cause that people agree on. Raises NeedsReason, Conflict."""
    if not cause.strip():
        raise NeedsReason(_("Write the cause first."))
    incident = incident_locked(incident, version)
    _demand_not_closed(incident)
    _update(incident, cause=cause.strip())
    _tell(incident, actor, "incident.cause", say("Cause: %(cause)s", cause=cause.strip()))
    return incident


def evidence_of(incident: Incident) -> list[Evidence]:
    """Return what was frozen of the incident itself and of its launch, without the bytes."""
    mine = Q(object_kind="incident", object_id=incident.public_id)
    if incident.launch is not None:
        mine |= Q(object_kind="launch", object_id=incident.launch.public_id)
    return list(Evidence.objects.filter(mine).defer("body"))


def closing_missing(incident: Incident) -> list[str]:
    """Say what an incident lacks before it may be resolved or closed; empty when nothing."""
    live = Run.objects.filter(incident=incident, state__in=run_rules.LIVE)
    facts = rules.ClosingFacts(
        cause=incident.cause,
        evidence=len(evidence_of(incident)),
        live_runs=tuple(run.public_id for run in live),
    )
    return rules.closing_refusals(facts)


def _demand_not_closed(incident: Incident) -> None:
    if incident.state == rules.CLOSED:
        raise Conflict(_("A closed incident is not changed."))


def _demand_closable(incident: Incident) -> None:
    if refusals := closing_missing(incident):
        raise Conflict(" ".join(said(one, _) for one in refusals))


def _demand_only(incident: Incident) -> None:
    """A second incident of the same unit and signature may have opened since this one was resolved."""
    twin = Incident.objects.filter(
        signature=incident.signature,
        pool=incident.pool,
        replica=incident.replica,
        state__in=rules.LIVE,
    ).first()
    if twin is not None:
        raise Conflict(_("%(incident)s is open for the same.") % {"incident": twin})


def incident_locked(incident: Incident, version: int | None) -> Incident:
    """Lock an incident's row and return it as it is. Raises Conflict when it is not at that version any more."""
    rows = Incident.objects.select_for_update(of=("self",)).select_related("pool", "replica")
    incident = rows.get(pk=incident.pk)
    if version is not None and incident.version != version:
        raise Conflict(
            _("%(incident)s changed since you looked. Read it again.") % {"incident": incident}
        )
    return incident


def _update(incident: Incident, **changes: Any) -> None:
    Incident.objects.filter(pk=incident.pk).update(**changes, version=F("version") + 1)
    incident.refresh_from_db()


def _tell(incident: Incident, actor: Actor, verb: str, text: str) -> None:
    IncidentNote.objects.create(incident=incident, text=text, actor=actor.name)
    trail_add(
        actor=actor,
        verb=verb,
        object_kind="incident",
        object_id=incident.public_id,
        reason=text,
        after={"state": incident.state},
    )
    unit = f"replica-{incident.replica.name}" if incident.replica else ""
    ring(incident.topic, "incidents", "inbox", unit)
