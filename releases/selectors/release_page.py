"""Reads what the pages of releases show: the release, who runs it, who signed it, what it is compared with."""

from __future__ import annotations

from dataclasses import dataclass

from django.db.models import Count, OuterRef, Prefetch, Q, Subquery
from django.db.models.functions import Now

from fleet.models import Pool, Replica
from releases.models import Approval, Launch, Release, Signature
from releases.rules.release import IN_SERVICE

LISTED = 200


@dataclass(frozen=True)
class ReleaseSeen:
    """One release with what stands around it. `request` is the newest request to review it, open or answered."""

    release: Release
    launches: list[Launch]
    request: Approval | None
    others: list[Release]
    against: Release | None


def release_named(public_id: str) -> Release | None:
    """Return the release of this public id, or None."""
    head, _, number = public_id.partition("-")
    if head != "REL" or not number.isascii() or not number.isdigit() or len(number) > 9:
        return None
    rows = Release.objects.select_related("pool", "author", "last_editor", "based_on")
    return rows.filter(pk=int(number)).first()


def release_seen(release: Release, wanted: str = "") -> ReleaseSeen:
    """Return a release as its page shows it, compared with the one that is wanted by its public id: if none is,
    with the one in service, else with the one that it was drafted from.
    """
    # Without their contents: of all but the one that it is compared with only names are shown.
    rows = Release.objects.defer("content").filter(pool=release.pool).exclude(pk=release.pk)
    others = list(rows.order_by("-id"))
    return ReleaseSeen(
        release=release,
        launches=_live_launches(release),
        request=_request(release),
        others=others,
        against=_against(release, others, wanted),
    )


def releases_listed(pool: str) -> list[Release]:
    """Return the newest releases, of one pool or (with no slug) of all, each with `units` that run it now and
    whether a request to review it is `waiting`; their contents are left out.
    """
    waiting = Approval.objects.filter(
        release=OuterRef("pk"), decision="", expires_at__gt=Now()
    ).values("pk")[:1]
    rows = Release.objects.defer("content").select_related("pool", "author")
    rows = rows.annotate(
        units=Count("launches", filter=Q(launches__state__in=Launch.LIVE)),
        waiting=Subquery(waiting),
    )
    rows = rows.filter(pool__slug=pool) if pool else rows
    return list(rows.order_by("-id")[:LISTED])


def pools_with_units() -> list[Pool]:
    """Return the pools that can have releases."""
    return list(Pool.objects.filter(is_spare=False))


def unit_for_plan(release: Release) -> Replica | None:
    """Return the unit whose plan a release's page shows: the pool's first that is no canary."""
    rows = Replica.objects.filter(pool=release.pool, is_canary=False)
    return rows.select_related("pool").order_by("name").first()


def _live_launches(release: Release) -> list[Launch]:
    rows = Launch.objects.filter(release=release, state__in=Launch.LIVE)
    return list(rows.select_related("replica__pool").order_by("replica__name"))


def _request(release: Release) -> Approval | None:
    signatures = Prefetch("signatures", Signature.objects.select_related("user"))
    rows = Approval.objects.filter(release=release, kind=Approval.Kind.RELEASE)
    return rows.select_related("asked_by", "decided_by").prefetch_related(signatures).first()


def _against(release: Release, others: list[Release], wanted: str) -> Release | None:
    named = [other for other in others if other.public_id == wanted]
    serving = [other for other in others if other.state == IN_SERVICE]
    origin = [other for other in others if other.pk == release.based_on_id]
    return next(iter([*named, *serving, *origin]), None)
