"""The list of releases and the page of one: what it pins, how it differs, who signed it, who runs it."""

from __future__ import annotations

from typing import Any

from django.http import Http404, HttpRequest, HttpResponse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_safe

from fleet.marks import HOLD, Mark, mark_of
from fleet.rules.message import said
from fleet.rules.policy import may
from fleet.views.parts import render_page
from fleet.views.proof import FOR_SIGNATURE, password_label
from releases.models import Approval, Release
from releases.rules import release as rules
from releases.rules.content import content_problems
from releases.rules.content_diff import consequences, content_diff
from releases.selectors.release_page import (
    LISTED,
    ReleaseSeen,
    pools_with_units,
    release_named,
    release_seen,
    releases_listed,
)
from releases.services.approvals import parties
from releases.services.releases import seal_refusals, signatures_needed
from releases.views.release_drawn import changes_drawn, pieces_drawn, plan_side

FACT_WORDS = {
    "release": gettext_lazy("Release"),
    "title": gettext_lazy("Title"),
    "pool": gettext_lazy("Pool"),
    "model": gettext_lazy("Model"),
    "image": gettext_lazy("Image"),
    "content_sha256": gettext_lazy("Content"),
}
IN_REVIEW = Mark(HOLD, "hold", gettext_lazy("In review"), "in_review")


@require_safe
def release_list(request: HttpRequest) -> HttpResponse:
    """Every release, newest first, of one pool or of all."""
    pools = pools_with_units()
    pool = request.GET.get("pool", "")
    rows = releases_listed(pool if pool in {row.slug for row in pools} else "")
    context = {
        "section": "releases",
        "topics": ["fleet"],
        "pools": pools,
        "pool": pool,
        "most": LISTED,
        "releases": [(row, release_mark(row, is_waiting=bool(row.waiting))) for row in rows],
        "draft_pools": [row for row in pools if may(request.user, "release-draft", row)],
    }
    return render_page(
        request,
        "releases/release_list.html",
        context,
        parts={"releases-live": "releases/_release_rows.html"},
    )


@require_safe
def release(request: HttpRequest, name: str) -> HttpResponse:
    """One release, compared with the one in service or the one that `with` names."""
    return release_answer(request, release_or_404(name))


def release_answer(
    request: HttpRequest, row: Release, *, status: int = 200, typed: str = ""
) -> HttpResponse:
    """Render the page of a release; `typed` comes back with a signature that was not taken."""
    seen = release_seen(row, request.GET.get("with", ""))
    row, against = seen.release, seen.against
    is_draft = row.state == rules.DRAFT
    changes = content_diff(against.content, row.content) if against else []
    context = {
        "section": "releases",
        "topics": [row.topic],
        "seen": seen,
        "release": row,
        "against": against,
        "mark": release_mark(row, is_waiting=_is_open(seen.request)),
        "pieces": pieces_drawn(row, against, content_problems(row.content) if is_draft else []),
        "changes": changes_drawn(changes),
        "change_count": len(changes),
        "consequences": [(said(c.sentence, _), c.source) for c in consequences(changes)],
        "refusals": [said(text, _) for text in seal_refusals(row)] if is_draft else [],
        "side": plan_side(row, against),
        "units": [
            (launch, mark_of("replica", launch.replica.shown_state)) for launch in seen.launches
        ],
        "is_draft": is_draft,
        "is_sealed": row.state == rules.SEALED,
        "may_withdraw": rules.WITHDRAWN in rules.RELEASE_MOVES[row.state],
        "may_act": may(request.user, "release-draft", row.pool),
        "typed": typed,
        **_review(request, seen),
    }
    return render_page(
        request,
        "releases/release.html",
        context,
        parts={"release-live": "releases/_release_live.html"},
        status=status,
    )


def release_mark(release: Release, *, is_waiting: bool) -> Mark:
    """Return how a release is drawn: a sealed one that somebody was asked to sign is in review."""
    if release.state == rules.SEALED and is_waiting:
        return IN_REVIEW
    return mark_of("release", release.state)


def _review(request: HttpRequest, seen: ReleaseSeen) -> dict[str, Any]:
    """Who signed and who may: the reason beside a disabled button is said, never guessed."""
    asked = seen.request
    is_open = _is_open(asked)
    signed = [signature.user for signature in asked.signatures.all()] if asked else []
    why_not = ""
    if asked is not None and is_open:
        if not may(request.user, "release-sign", seen.release.pool):
            why_not = _("Needs role approver")
        elif request.user.pk in parties(asked):
            why_not = _("You wrote it, edited it last or asked for it: another approver signs")
        elif request.user in signed:
            why_not = _("You signed already")
    return {
        "request_open": is_open,
        "facts": [
            (word, seen.release.pool.name if name == "pool" else asked.facts[name])
            for name, word in FACT_WORDS.items()
            if name in asked.facts
        ]
        if asked
        else [],
        "needed": asked.needed if asked else signatures_needed(seen.release),
        "signatures": asked.signatures.all() if asked else [],
        "sign_refusal": why_not,
        "password_label": password_label(request, FOR_SIGNATURE),
    }


def _is_open(asked: Approval | None) -> bool:
    return asked is not None and asked.is_open


def release_or_404(name: str) -> Release:
    """Return the release of this public id."""
    found = release_named(name)
    if found is None:
        raise Http404(_("There is no release %(name)s.") % {"name": name})
    return found
