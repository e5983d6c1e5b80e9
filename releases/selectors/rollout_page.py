"""Reads what the pages of rollouts show: the list, one rollout with its units, and what waits for a person."""

from __future__ import annotations

import re
from dataclasses import dataclass

from django.db.models import Count, OuterRef, Prefetch, Q, QuerySet, Subquery
from django.db.models.functions import Now

from fleet.models import Pool, TrailEntry
from releases.models import Approval, Endpoint, GateRun, Launch, Release, Rollout, Wave
from releases.rules.release import ROLLABLE

_ID = re.compile(r"RO-(\d{1,9})")
HISTORY_SHOWN = 40
LISTED = 200


@dataclass(frozen=True)
class UnitRow:
    """A wave with what its unit runs and gets now."""

    wave: Wave
    launch: Launch | None
    endpoint: Endpoint | None
    gate: GateRun | None


@dataclass(frozen=True)
class RolloutPage:
    rollout: Rollout
    units: list[UnitRow]
    approvals: list[Approval]
    shares: list[tuple[str, int]]
    history: list[TrailEntry]

    @property
    def open_request(self) -> Approval | None:
        return next((one for one in self.approvals if one.is_open), None)


def rollout_named(public_id: str) -> Rollout | None:
    """Return the rollout of this public id, or None."""
    found = _ID.fullmatch(public_id)
    rows = Rollout.objects.select_related("pool", "new_release", "author")
    return rows.filter(pk=int(found[1])).first() if found else None


def rollouts_listed(pool: str = "") -> QuerySet[Rollout]:
    """Return rollouts, newest first, of one pool or of all, with how many waves they have and have passed.

    `asking_wave` is the number of the wave that waits for a signature, or None.
    """
    rows = Rollout.objects.select_related("pool", "new_release", "author")
    if pool:
        rows = rows.filter(pool__slug=pool)
    units = Q(waves__is_canary=False)
    asking = Wave.objects.filter(rollout=OuterRef("pk"), state=Wave.State.AWAITING)
    return rows.annotate(
        asking_wave=Subquery(asking.order_by("number").values("number")[:1]),
        wave_count=Count("waves", filter=units),
        passed_count=Count("waves", filter=units & Q(waves__state=Wave.State.PASSED)),
    )


def rollout_page(rollout: Rollout) -> RolloutPage:
    """Read everything that the page of a rollout shows. A constant number of queries."""
    waves = list(rollout.waves.select_related("replica", "old_release").order_by("number"))
    live = {
        launch.replica_id: launch
        for launch in Launch.objects.filter(
            replica__in=[wave.replica_id for wave in waves], state__in=Launch.LIVE
        )
        .select_related("release", "endpoint", "replica")
        .prefetch_related(Prefetch("gate_runs", GateRun.objects.order_by("-pk")))
    }
    history = TrailEntry.objects.filter(object_kind="rollout", object_id=rollout.public_id)
    return RolloutPage(
        rollout=rollout,
        units=[_unit(wave, live.get(wave.replica_id)) for wave in waves],
        approvals=list(
            rollout.approvals.select_related("asked_by", "decided_by", "wave").prefetch_related(
                "signatures__user"
            )
        ),
        shares=_shares(rollout.pool),
        history=list(history.order_by("-pk")[:HISTORY_SHOWN]),
    )


def _unit(wave: Wave, launch: Launch | None) -> UnitRow:
    if launch is None:
        return UnitRow(wave, None, None, None)
    return UnitRow(
        wave, launch, getattr(launch, "endpoint", None), next(iter(launch.gate_runs.all()), None)
    )


def _shares(pool: Pool) -> list[tuple[str, int]]:
    """Percent of new sessions by release, as weights that were read back say; empty without a reading."""
    weights: dict[str, int] = {}
    rows = Endpoint.objects.filter(launch__replica__pool=pool, seen_weight__gt=0)
    for endpoint in rows.select_related("launch__release").order_by("launch__release_id"):
        name = endpoint.launch.release.public_id
        weights[name] = weights.get(name, 0) + int(endpoint.seen_weight or 0)
    total = sum(weights.values())
    return [(name, round(100 * weight / total)) for name, weight in weights.items()]


def pools_to_roll() -> list[Pool]:
    """Return the pools that have units and a release to roll out."""
    rows = Pool.objects.filter(is_spare=False, releases__state__in=ROLLABLE)
    return list(rows.distinct().order_by("position", "slug"))


def releases_to_roll(pool: Pool) -> list[Release]:
    """Return what a pool may be taken to: reviewed releases, those that no unit runs first, newest first."""
    running = set(
        Launch.objects.filter(replica__pool=pool, state__in=Launch.LIVE).values_list(
            "release_id", flat=True
        )
    )
    rows = Release.objects.filter(pool=pool, state__in=ROLLABLE).order_by("-pk")
    return sorted(rows, key=lambda release: release.pk in running)


# -- what waits


def requests_open() -> QuerySet[Approval]:
    """Return every request that can still be answered, the oldest first."""
    return (
        Approval.objects.filter(decision="", expires_at__gt=Now())
        .select_related(
            "asked_by", "wave__replica", "rollout__pool", "rollout__new_release", "release__pool"
        )
        .prefetch_related("signatures__user")
        .order_by("pk")
    )


def rollouts_live() -> QuerySet[Rollout]:
    """Return the rollouts that have begun and are not over."""
    return rollouts_listed().filter(state__in=Rollout.LIVE)
