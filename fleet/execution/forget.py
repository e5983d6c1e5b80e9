"""Makes nodes forget what the console has wholly read: directories of subjects that ended long ago.

Only subjects of our own rows are named, and the node itself looks again: it keeps whatever lives. Not in charge
of the rows and stored lines, which stay.
"""

from __future__ import annotations

from datetime import timedelta

from django.db.models import Count, Exists, F, OuterRef, Q, QuerySet, Subquery, Window
from django.db.models.functions import Coalesce, Now, RowNumber

from fleet.execution import states
from fleet.execution.dispatch import Order, commands_dispatch
from fleet.execution.models import Command, LogStream, Subject

KEEP_S = 7 * 86400.0  # so long a person may look at a node's own files
KEEP_MOST = 40  # of a node's ended subjects; the older ones go before their time
KEEP_LEAST_S = 3600.0
LIMIT = 256
TRIES = 3
DEADLINE_S = 3600.0


def subjects_forget(limit: int = LIMIT) -> int:
    """Order nodes to forget subjects that are read to their proved end and too old or too many; return how many."""
    orders = [
        Order(
            purpose=f"forget/{subject.name}#{subject.tries + 1}",
            host=subject.host,
            verb="forget",
            queue="probe",
            payload={},
            subject=subject,
            deadline_s=DEADLINE_S,
        )
        for subject in _forgettable()[:limit]
    ]
    if orders:
        commands_dispatch(orders)
    return len(orders)


def _forgettable() -> QuerySet[Subject]:
    mine = Command.objects.filter(subject=OuterRef("pk"))
    tries = mine.filter(verb="forget").values("subject").annotate(n=Count("pk"))
    is_open = ~Q(state__in=sorted(states.TERMINAL))
    is_forgotten = Q(verb="forget", state=states.SUCCEEDED)
    ended = Subject.objects.filter(state__in=states.SUBJECT_ENDED, ended_at__lt=_ago(KEEP_LEAST_S))
    return (
        ended.exclude(Exists(mine.filter(is_open | is_forgotten)))
        .exclude(Exists(LogStream.objects.filter(subject=OuterRef("pk"), is_complete=False)))
        .annotate(
            tries=Coalesce(Subquery(tries.values("n")), 0),
            newer=Window(
                RowNumber(), partition_by=F("host"), order_by=[F("ended_at").desc(), F("pk").desc()]
            ),
        )
        .filter(Q(ended_at__lt=_ago(KEEP_S)) | Q(newer__gt=KEEP_MOST), tries__lt=TRIES)
        .select_related("host")
        .order_by("ended_at", "pk")
    )


def _ago(seconds: float) -> object:
    return Now() - timedelta(seconds=seconds)
