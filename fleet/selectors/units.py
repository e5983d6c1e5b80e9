"""How a unit is shown and counted: by its state, or by the doubt that stands against it."""

from __future__ import annotations

from django.db.models import Case, Exists, F, OuterRef, QuerySet, When
from django.db.models.expressions import Combinable

from fleet.models import Member, Replica

RUNNING = frozenset({"ready", "serving", "draining"})
CHANGING = frozenset({"reserved", "launching", "warming", "stopping"})
BROKEN = frozenset({"failed", "lost"})
# It may well serve, and nobody may rely on it.
IN_DOUBT = frozenset({"held", "unseen", "hung"})


def shown_state(path: str = "") -> Combinable:
    """Return the expression of a unit's shown state; `path` leads to the unit, as "replica__"."""
    return Case(When(**{f"{path}doubt": ""}, then=F(f"{path}state")), default=F(f"{path}doubt"))


def units_present() -> QuerySet[Replica]:
    """Return every unit but the canaries of rollouts that are over: those have no node any more."""
    members = Member.objects.filter(replica=OuterRef("pk"), released_at=None)
    return Replica.objects.exclude(~Exists(members), is_canary=True)
