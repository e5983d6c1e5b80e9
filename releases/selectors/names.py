"""Tells the fleet what launches and releases are called: their pool for permissions and topics, their page."""

from __future__ import annotations

import re

from django.urls import reverse
from django.utils.translation import gettext_noop

from fleet.selectors.jump import jump_add, page_add
from fleet.selectors.scope import scope_add
from releases.models import Launch
from releases.selectors.release_page import release_named
from releases.selectors.rollout_page import rollout_named

_ID = re.compile(r"LN-(\d{1,9})")


def launch_named(public_id: str) -> Launch | None:
    """Return the launch of this public id, or None."""
    found = _ID.fullmatch(public_id)
    rows = Launch.objects.select_related("replica__pool")
    return rows.filter(pk=int(found[1])).first() if found else None


def _page(found: re.Match[str]) -> str | None:
    row = Launch.objects.filter(pk=int(found[1])).values_list("replica__name", "generation").first()
    return reverse("launch", args=row) if row else None


def _release_page(found: re.Match[str]) -> str | None:
    return reverse("release", args=[found[0]]) if release_named(found[0]) else None


def _rollout_page(found: re.Match[str]) -> str | None:
    return reverse("rollout", args=[found[0]]) if rollout_named(found[0]) else None


scope_add("launch", launch_named, lambda launch: launch.replica.pool.slug)
jump_add(_ID.pattern, _page)
scope_add("release", release_named, lambda release: release.pool.slug)
jump_add(r"REL-\d{1,9}", _release_page)
scope_add("rollout", rollout_named, lambda rollout: rollout.pool.slug)
jump_add(r"RO-\d{1,9}", _rollout_page)
page_add(gettext_noop("Releases"), "release-list")
page_add(gettext_noop("Rollouts"), "rollout-list")
page_add(gettext_noop("Gates"), "gate-list")
page_add(gettext_noop("Gateway"), "gateway")
page_add(gettext_noop("Approvals"), "inbox")
