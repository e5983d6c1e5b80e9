"""Pulls the mass-change brake, and lets a person clear it. Automatic actions ask selectors/brake.py first."""

from __future__ import annotations

from datetime import datetime

from django.conf import settings
from django.db import connection, transaction
from django.db.models import Q
from django.db.models.functions import Coalesce, Now
from django.utils.translation import gettext as _

from fleet.doorbell import ring
from fleet.execution.clock import database_now
from fleet.execution.models import Host
from fleet.models import Brake, Node, Replica
from fleet.rules.brake import WINDOW_S, Turned, judge
from fleet.rules.refusals import Conflict
from fleet.selectors.brake import brake_now
from fleet.services.replicas import BROKEN
from fleet.services.trail import Actor, rule_actor, trail_add

_LOCK_CLASS = 7404


@transaction.atomic
def brake_judge(now: datetime | None = None, turning: Replica | None = None) -> Brake | None:
    """Pull the brake when too much turned bad at once; returns the brake that is on now, if any.

    `turning` is a unit that a rule is about to take down: it counts before anything is done to it, so that
    one tick cannot take down more than the brake allows.
    """
    now = now or database_now()
    if turning is not None:
        _wait_for_turn()
    if on := brake_now():
        return on
    last = Brake.objects.exclude(cleared_at=None).order_by("-cleared_at").first()
    cause = judge(
        nodes_total=Node.objects.exclude(state=Node.State.RETIRED).count(),
        nodes=_bad_nodes(),
        units=[*_bad_units(), *_turned(turning, now)],
        now=now,
        cleared_at=last.cleared_at if last else None,
        window_s=WINDOW_S / settings.TIME_SCALE,
    )
    if cause is None:
        return None
    _wait_for_turn()
    if on := brake_now():
        return on
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
def brake_clear(*, brake: Brake, reason: str, actor: Actor) -> Brake:
    """Let automatic actions run again because a person knows the cause of this brake, and of no later one.

    Raises NeedsReason, and Conflict when it was cleared already.
    """
    brake = Brake.objects.select_for_update().get(pk=brake.pk)
    if brake.cleared_at is not None:
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
    # a host without a node, as a gateway's, is no part of the fleet
    bad = Host.objects.filter(
        node__isnull=False,
        reach__in=[Host.Reach.SUSPECT, Host.Reach.UNREACHABLE],
        missed_since__isnull=False,
    ).exclude(node__state=Node.State.RETIRED)
    return [Turned(*row) for row in bad.values_list("name", "missed_since")]


def _bad_units() -> list[Turned]:
    """Units that failed by a judgement, or are judged to hang.

    A unit whose node was started again is gone by the node's own word.
    """
    bad = Replica.objects.filter(
        Q(state__in=BROKEN, is_reboot_proved=False) | Q(doubt=Replica.Doubt.HUNG)
    )
    since = Coalesce("turned_at", "state_at")
    return [Turned(*row) for row in bad.values_list("name", since)]


def _turned(unit: Replica | None, now: datetime) -> list[Turned]:
    return [] if unit is None else [Turned(unit.name, unit.turned_at or now)]


def _wait_for_turn() -> None:
    """Let one transaction at a time count and pull, so that two conductors never both miss the third unit."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(%s, 0)", [_LOCK_CLASS])
