"""Opens incidents for what the launch rule found: a unit that hangs, a unit that was lost. Each once.

Not in charge of judging: whether a unit hangs is decided by releases/rules/launch.py from the golden probe and the
token counters, here it becomes somebody's case. Source: manual A 12.4, 14.4; RELIABILITY.md section 4 (Incident).
"""

import logging
from datetime import datetime, timedelta

from django.db import transaction
from django.db.models import Exists, OuterRef, Q

from fleet.execution.clock import database_now
from fleet.models import Replica
from fleet.rules.message import say
from fleet.services.trail import rule_actor
from releases.models import Launch
from runbooks.models import Incident
from runbooks.rules.incident import LIVE
from runbooks.services.incidents import incident_open, incident_recur
from runbooks.services.library import book_for
from runbooks.services.runs import run_propose

log = logging.getLogger(__name__)

HANG, LOST = "hang", "rank-lost"
# Older failures are history: a console that was away for a day opens no case for each of them.
FRESH = timedelta(hours=1)


def detect() -> int:
    """Open what is not open yet; return how many incidents were opened."""
    return _hangs() + _losses()


def _hangs() -> int:
    """Units in doubt because their endpoint generates nothing."""
    launches = Launch.objects.filter(
        replica__doubt=Replica.Doubt.HUNG, state=Launch.State.READY
    ).select_related("replica__pool", "release")
    opened = 0
    for launch in launches:
        replica = launch.replica
        opened += _open_or_log(
            launch,
            HANG,
            say("%(unit)s hangs", unit=replica.name),
            began_at=replica.turned_at or database_now(),
            explanation=launch.explanation,
        )
    return opened


def _losses() -> int:
    """Launches that were ready and were taken down by a rule: never those a person ended."""
    known = Incident.objects.filter(launch=OuterRef("pk"), signature=LOST)
    launches = (
        Launch.objects.filter(
            state__in=[Launch.State.FREEZING, Launch.State.STOPPING, Launch.State.FAILED],
            ready_at__isnull=False,
            state_at__gte=database_now() - FRESH,
        )
        .exclude(cause="")
        .filter(~Exists(known))
        .select_related("replica__pool", "release")
    )
    return sum(
        _open_or_log(
            launch,
            LOST,
            say("%(unit)s was taken down", unit=launch.replica.name),
            began_at=launch.state_at,
            explanation=launch.cause,
        )
        for launch in launches
        if not _is_told(launch, LOST)
    )


def _is_told(launch: Launch, signature: str) -> bool:
    """Tell whether an incident of the unit, open or over, names this launch for this."""
    told = [{"source": launch.public_id, "signature": signature}]
    return Incident.objects.filter(replica=launch.replica_id, symptoms__contains=told).exists()


def _open_or_log(
    launch: Launch, signature: str, title: str, *, began_at: datetime, explanation: str
) -> int:
    try:
        return _open(launch, signature, title, began_at, explanation)
    except Exception:
        # One unit of which nothing can be opened must not hide the others; its own transaction is gone.
        log.exception("no %s incident of %s could be opened", signature, launch)
        return 0


@transaction.atomic
def _open(launch: Launch, signature: str, title: str, began_at: datetime, explanation: str) -> int:
    """Open the incident and lay out its book in one transaction: an incident alone would never get its book.

    While a case of the same is open, or one of this launch, it gets a line there instead.
    """
    replica, now = launch.replica, database_now()
    actor = rule_actor(f"detector-{signature}")
    symptom = {
        "text": explanation,
        "source": launch.public_id,
        "at": now.isoformat(),
        "signature": signature,
    }
    if case := _case_of(launch, signature):
        incident_recur(incident=case, symptom=symptom, actor=actor)
        return 0
    incident, is_new = incident_open(
        signature=signature,
        pool=replica.pool,
        replica=replica,
        launch=launch,
        title=title,
        symptoms=[symptom],
        began_at=began_at,
        actor=actor,
    )
    if is_new and (shelved := book_for(signature)):
        run_propose(
            incident=incident,
            shelved=shelved,
            params={"unit": replica.name, "incident": incident.public_id},
            actor=actor,
        )
    return int(is_new)


def _case_of(launch: Launch, signature: str) -> Incident | None:
    """The open incident of the unit with this signature, or else the one of this launch."""
    live = Incident.objects.filter(replica=launch.replica_id, state__in=LIVE)
    found = list(live.filter(Q(signature=signature) | Q(launch=launch)).order_by("pk"))
    return next((one for one in found if one.signature == signature), next(iter(found), None))
