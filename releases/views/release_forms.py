"""What people do to releases: draft, edit, seal, ask, sign, withdraw. Each form calls one service."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_POST

from fleet.models import Pool
from fleet.rules.message import said
from fleet.rules.policy import may
from fleet.rules.refusals import Refused
from fleet.services.permits import permit_demand
from fleet.services.trail import actor_of
from fleet.services.words import GOLDEN_MAX
from fleet.views.parts import render_page
from fleet.views.proof import FOR_SIGNATURE, proof_refusal
from releases.models import Approval, Release
from releases.rules import release as rules
from releases.rules.content import LAUNCHERS, PINS, content_problems
from releases.rules.draft import (
    FIELDS,
    SIZE_FIELDS,
    BadField,
    blank_content,
    draft_content,
    draft_fields,
)
from releases.selectors.release_page import release_seen
from releases.services.approvals import ApprovalRefused, approval_decide
from releases.services.releases import (
    release_draft,
    release_edit,
    release_review_ask,
    release_seal,
    release_withdraw,
)
from releases.views.field_words import FIELD_WORDS
from releases.views.releases import release_answer, release_or_404

CARDS_OF_A_NODE = 8


@require_POST
def new(request: HttpRequest) -> HttpResponse:
    """Begin a pool's draft that pins nothing yet."""
    pool = get_object_or_404(Pool, slug=request.POST.get("pool", ""), is_spare=False)
    permit_demand(request.user, "release-new", pool.slug)
    cards = min(CARDS_OF_A_NODE, pool.unit_gpus // pool.unit_nodes)
    drafted = release_draft(
        pool=pool,
        title=request.POST.get("title", ""),
        content=blank_content(pool.unit_nodes, cards),
        actor=actor_of(request),
        user=request.user,
    )
    return redirect("release-edit", drafted.public_id)


@require_POST
def draft(request: HttpRequest, name: str) -> HttpResponse:
    """Begin a draft that says what another release says."""
    origin = release_or_404(name)
    drafted = release_draft(
        pool=origin.pool,
        title=request.POST.get("title", ""),
        content=origin.content,
        actor=actor_of(request),
        user=request.user,
        based_on=origin,
    )
    return redirect("release-edit", drafted.public_id)


@require_http_methods(["GET", "HEAD", "POST"])
def edit(request: HttpRequest, name: str) -> HttpResponse:
    """The form of a draft; what it cannot read is said beside what was typed, and nothing is stored."""
    release = release_or_404(name)
    if request.method != "POST":
        return _form(request, release, release.title, draft_fields(release.content))
    posted = {field: request.POST[field] for field in FIELDS if field in request.POST}
    title = request.POST.get("title", "")
    try:
        content = draft_content(posted, release.content)
    except BadField as error:
        fields = {**draft_fields(release.content), **posted}
        return _form(request, release, title, fields, said(error.sentence, _))
    release_edit(
        release=release,
        title=title,
        content=content,
        actor=actor_of(request),
        user=request.user,
    )
    return redirect("release", name)


@require_POST
def seal(request: HttpRequest, name: str) -> HttpResponse:
    """Seal a draft, or say what is not pinned."""
    release_seal(release=release_or_404(name), actor=actor_of(request))
    messages.info(request, _("%(name)s is sealed: what it pins never changes.") % {"name": name})
    return redirect("release", name)


@require_POST
def ask(request: HttpRequest, name: str) -> HttpResponse:
    """Ask others to sign a sealed release."""
    release_review_ask(
        release=release_or_404(name),
        actor=actor_of(request),
        user=request.user,
        reason=request.POST.get("reason", ""),
    )
    return redirect("release", name)


@require_POST
def sign(request: HttpRequest, name: str) -> HttpResponse:
    """Take one person's signature or rejection of the release as it was shown.

    Only a signature needs a fresh sign-in; an old one comes back on the form with what was typed.
    """
    row = release_or_404(name)
    asked, decision = release_seen(row).request, request.POST.get("decision", "")
    reason = request.POST.get("reason", "")
    if asked is None:
        raise ApprovalRefused(_("Nobody was asked to sign %(name)s.") % {"name": name})
    # what is closed has no form on which to ask: the service says why, and signs nothing
    is_signing = decision == Approval.Decision.APPROVED and asked.is_open
    if is_signing and (told := proof_refusal(request, FOR_SIGNATURE)):
        # answered, not raised: a wrong password must stay counted
        messages.error(request, told)
        return release_answer(request, row, status=403, typed=reason)
    approval_decide(
        approval=asked,
        decision=decision,
        facts_digest=request.POST.get("facts_digest", ""),
        reason=reason,
        actor=actor_of(request),
        user=request.user,
    )
    return redirect("release", name)


@require_POST
def withdraw(request: HttpRequest, name: str) -> HttpResponse:
    """Take a release out of use for good."""
    release_withdraw(
        release=release_or_404(name),
        reason=request.POST.get("reason", ""),
        actor=actor_of(request),
        user=request.user,
    )
    return redirect("release", name)


def _form(
    request: HttpRequest, release: Release, title: str, fields: dict[str, str], error: str = ""
) -> HttpResponse:
    if release.state != rules.DRAFT:
        raise Refused(
            _("%(release)s is sealed: what it pins never changes. Draft a new one from it.")
            % {"release": release.public_id}
        )
    blamed = {
        problem.where: said(problem.expected, _) for problem in content_problems(release.content)
    }
    context = {
        "section": "releases",
        "release": release,
        "title": title,
        "error": error,
        "pins": [_field(where, fields, blamed) for where, _pattern, _expected in PINS],
        "sizes": [_field(where, fields, blamed) for where in (*SIZE_FIELDS, "shape.gpus")],
        "launchers": LAUNCHERS,
        # What does not fit a post is left out of the form: what is not posted stays as it is.
        "golden_long": len(fields["golden"]) if len(fields["golden"]) > GOLDEN_MAX else 0,
        "golden_max": GOLDEN_MAX,
        "fields": {field.replace(".", "_"): value for field, value in fields.items()},
        "may_act": may(request.user, "release-edit", release.pool, is_write=True),
    }
    return render_page(request, "releases/release_edit.html", context, status=422 if error else 200)


def _field(where: str, fields: dict[str, str], blamed: dict[str, str]) -> dict[str, Any]:
    return {
        "name": where,
        "word": FIELD_WORDS[where],
        "value": fields.get(where, ""),
        "expected": blamed.get(where, ""),
    }
