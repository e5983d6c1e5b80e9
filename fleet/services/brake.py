"""Pulls the mass-change brake, and lets a person clear it. Automatic actions ask selectors/brake.py first."""

from __future__ import annotations

from datetime import datetime

from django.conf import settings
from django.db import transaction
from django.db.models.functions import Now
from django.utils import timezone
from django.utils.translation import gettext as _

from fleet.doorbell import ring
from fleet.execution.models import Host
from fleet.models import Brake, Node, Replica
from fleet.rules.brake import WINDOW_S, Turned, judge
from fleet.rules.refusals import Conflict
from fleet.selectors.brake import brake_now
from fleet.services.trail import Actor, rule_actor, trail_add


@transaction.atomic
def brake_judge(now: datetime | None = None) -> Brake | None:
    """Pull the brake when too much turned bad at once; returns the brake that is on now, if any."""
    if on := brake_now():
        return on
    last = Brake.objects.exclude(cleared_at=None).order_by("-cleared_at").first()
    cause = judge(
        nodes_total=Node.objects.exclude(state=Node.State.RETIRED).count(),
        nodes=_bad_nodes(),
        units=_bad_units(),
        now=now or timezone.now(),
        cleared_at=last.cleared_at if last else None,
        window_s=WINDOW_S / settings.TIME_SCALE,
    )
    if cause is None:
        return None
    brake = Brake.objects.create(cause=cause)
    trail_add(
        actor=rule_actor("brake"),
        verb="brake.pull",
        object_kind="fleet",
        object_id="brake",
        reason=cause,
        after={"brake": brake.pk},
    )
    ring("fleet", "inbox")
    return brake


@transaction.atomic
def brake_clear(*, reason: str, actor: Actor) -> Brake:
    """Let automatic actions run again because a person knows the cause. Raises NeedsReason, Conflict."""
    brake = Brake.objects.select_for_update().filter(cleared_at=None).first()
    if brake is None:
        raise Conflict(_("The brake is not on; somebody cleared it already."))
    trail_add(
        actor=actor,
        verb="brake.clear",
        object_kind="fleet",
        object_id="brake",
        reason=reason,
        before={"cause": brake.cause},
        after={"brake": brake.pk},
    )
    Brake.objects.filter(pk=brake.pk).update(
        cleared_at=Now(), cleared_by=actor.name, clear_reason=reason.strip()
    )
    ring("fleet", "inbox")
    brake.refresh_from_db()
    return brake


def _bad_nodes() -> list[Turned]:
    bad = Host.objects.filter(
        reach__in=[Host.Reach.SUSPECT, Host.Reach.UNREACHABLE], missed_since__isnull=False
    ).exclude(node__state=Node.State.RETIRED)
    return [Turned(*row) for row in bad.values_list("name", "missed_since")]


def _bad_units() -> list[Turned]:
    bad = Replica.objects.filter(state__in=[Replica.State.FAILED, Replica.State.LOST])
    return [Turned(*row) for row in bad.values_list("name", "state_at")]
