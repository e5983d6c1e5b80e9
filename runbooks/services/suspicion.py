"""Keeps one incident for each mass-change brake: is the fleet ill, or this console, its network or its key?

It is of the whole fleet, not of a pool, and what was bad when the brake was pulled is its evidence. Clearing the brake
is a person's (fleet/services/brake.py); that mitigates it, and its cause is written before it is closed.
"""

import hashlib

from django.conf import settings
from django.db import transaction
from django.db.models import Q

from fleet.execution.models import Host
from fleet.models import Brake, Evidence, Replica
from fleet.rules.message import say
from fleet.selectors.brake import brake_now
from fleet.services.replicas import BROKEN
from fleet.services.trail import rule_actor
from runbooks.models import Incident
from runbooks.rules import incident as rules
from runbooks.services.incidents import incident_move, incident_open

CONTROL_PLANE = "control-plane"
_RULE = rule_actor(f"detector-{CONTROL_PLANE}")
_UNMITIGATED = (rules.OPEN, rules.ACKNOWLEDGED, rules.MITIGATING)


def suspicion_follow() -> int:
    """Open the incident of a brake that is on, mitigate that of one that was cleared; return how many moved."""
    brake = brake_now()
    if brake is None:
        return _mitigate()
    known = Incident.objects.filter(signature=CONTROL_PLANE, began_at__gte=brake.pulled_at)
    return 0 if known.exists() else _open(brake)


@transaction.atomic
def _open(brake: Brake) -> int:
    incident, is_new = incident_open(
        signature=CONTROL_PLANE,
        pool=None,
        replica=None,
        launch=None,
        title=say("The control plane is suspect: automatic actions stand still"),
        symptoms=[
            {
                "text": brake.cause,
                "source": say("mass-change brake"),
                "at": brake.pulled_at.isoformat(),
            }
        ],
        began_at=brake.pulled_at,
        actor=_RULE,
    )
    if is_new:
        _seal(incident)
    return int(is_new)


def _seal(incident: Incident) -> None:
    """Keep what was bad at that time: the rows go on, and by the morning nobody would know."""
    body = "".join(f"{line}\n" for line in [*_nodes(), *_units()]).encode()
    Evidence.objects.create(
        object_kind="incident",
        object_id=incident.public_id,
        title=say("nodes and units that were bad when the brake was pulled"),
        origin=say("this console's own rows"),
        body=body,
        size_bytes=len(body),
        sha256=hashlib.sha256(body).hexdigest(),
        is_rehearsal=settings.IS_REHEARSAL,
    )


def _nodes() -> list[str]:
    rows = Host.objects.filter(node__isnull=False, missed_since__isnull=False).order_by("name")
    return [
        f"{host.name} {host.reach} since {host.missed_since:%Y-%m-%dT%H:%M:%S%z}" for host in rows
    ]


def _units() -> list[str]:
    rows = Replica.objects.filter(Q(state__in=BROKEN) | ~Q(doubt="")).order_by("name")
    return [
        f"{unit.name} {unit.shown_state} since {unit.state_at:%Y-%m-%dT%H:%M:%S%z}" for unit in rows
    ]


def _mitigate() -> int:
    incidents = Incident.objects.filter(signature=CONTROL_PLANE, state__in=_UNMITIGATED)
    moved = 0
    for incident in incidents:
        brake = Brake.objects.exclude(cleared_at=None).first()
        words = brake and say(
            "%(who)s cleared the brake: %(why)s", who=brake.cleared_by, why=brake.clear_reason
        )
        incident_move(incident=incident, to=rules.MITIGATED, actor=_RULE, words=words or "")
        moved += 1
    return moved
