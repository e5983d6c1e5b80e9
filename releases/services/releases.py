"""Moves of releases: which state a release is in, told in the trail. What a state allows is rules/release.py."""

from typing import Any

from django.db import transaction
from django.db.models import F
from django.utils.translation import gettext as _

from fleet.doorbell import ring
from fleet.rules.refusals import Conflict
from fleet.services.trail import Actor, trail_add
from releases.models import Release
from releases.rules import release as rules


class ReleaseRefused(Exception):
    """The release may not do this; `reasons` are sentences for the person who asked."""

    def __init__(self, reasons: list[str]) -> None:
        super().__init__("; ".join(reasons))
        self.reasons = reasons


@transaction.atomic
def release_in_service(*, release: Release, actor: Actor) -> Release:
    """Note that a unit serves this release. Repeating it changes nothing, and neither does a release that
    nobody reviewed: it may run, but it is not the pool's.
    """
    release = _locked(release)
    if rules.IN_SERVICE in rules.RELEASE_MOVES[release.state]:
        _move(release, rules.IN_SERVICE, actor)
    return release


def _locked(release: Release) -> Release:
    rows = Release.objects.select_for_update(of=("self",)).select_related("pool")
    return rows.get(pk=release.pk)


def _move(release: Release, to: str, actor: Actor, *, reason: str = "", **changes: Any) -> None:
    """Move a locked release along its table, with the trail and the doorbell. Raises Conflict."""
    before = release.state
    if to not in rules.RELEASE_MOVES[before]:
        raise Conflict(
            _("%(release)s is %(found)s and cannot become %(to)s. Reload the page.")
            % {"release": release.public_id, "found": before, "to": to}
        )
    changes = {"state": to, **changes}
    Release.objects.filter(pk=release.pk).update(**changes, version=F("version") + 1)
    release.refresh_from_db()
    trail_add(
        actor=actor,
        verb=f"release.{to}",
        object_kind="release",
        object_id=release.public_id,
        reason=reason,
        before={"state": before},
        after={"state": to, "content_sha256": release.content_sha256},
    )
    ring(f"release-{release.public_id}", f"pool-{release.pool.slug}", "fleet")
