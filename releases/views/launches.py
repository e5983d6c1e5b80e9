"""Launching a unit and watching it: the plan before it runs, the launch page, the end of a unit."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.utils import timezone
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from fleet.models import Replica
from fleet.rules.message import said
from fleet.rules.policy import may
from fleet.rules.refusals import Conflict, Refused
from fleet.services.trail import actor_of
from fleet.views.parts import render_page
from fleet.views.proof import FOR_DESTRUCTION, password_label, proof_refusal
from releases.marks import launch_mark
from releases.models import Launch, Release
from releases.rules import launch as rules
from releases.rules.phases import estimate_left, quantile
from releases.selectors.launch_page import (
    ROW_ORDER,
    LaunchSeen,
    launch_of,
    launch_page,
    row_history,
)
from releases.selectors.releases import releases_to_launch
from releases.services.launches import LaunchRefused, launch_create, launch_preview, launch_stop
from releases.views.ends import launch_ends
from releases.views.eta import eta_drawn
from releases.views.gates import launch_gates
from releases.views.gateway_drawn import ending_drawn
from releases.views.grid import done_rows, launch_grid
from releases.views.plan import plan_drawn
from releases.views.proofs import launch_proofs, met_count
from releases.views.tail import launch_tail
from releases.views.words import ROW_WORDS

REASON_MIN = 3


@require_http_methods(["GET", "HEAD", "POST"])
def launch_plan(request: HttpRequest, name: str) -> HttpResponse:
    """The plan of a unit's next launch, exactly as it would run; posting it launches that plan and no other."""
    replica = get_object_or_404(Replica.objects.select_related("pool"), name=name)
    releases = releases_to_launch(replica.pool)
    if request.method == "POST":
        return _create(request, replica, releases)
    release = _chosen(releases, request.GET.get("release", ""))
    preview = launch_preview(replica=replica, release=release) if release else None
    context = {
        "section": "replicas",
        "replica": replica,
        "releases": releases,
        "release": release,
        "generation": replica.generation + 1,
        "preview": preview,
        "refusals": [said(text, _) for text in preview.refusals] if preview else [],
        "remarks": [said(text, _) for text in preview.remarks] if preview else [],
        "drawn": plan_drawn(preview.plan, preview.plan_sha256)
        if preview and preview.plan
        else None,
        "may_launch": may(request.user, "launch-create", replica.pool),
    }
    return render_page(request, "releases/launch_plan.html", context)


def _create(request: HttpRequest, replica: Replica, releases: list[Release]) -> HttpResponse:
    release = _chosen(releases, request.POST.get("release", ""))
    if release is None:
        raise Refused(_("This pool has no sealed release. Seal one first."))
    plan_sha = request.POST.get("plan_sha", "")
    if not plan_sha:
        raise Refused(
            _("The form does not carry the plan that was read. Read it, then send again.")
        )
    try:
        launch = launch_create(
            replica=replica,
            release=release,
            actor=actor_of(request),
            user=request.user,
            plan_sha=plan_sha,
        )
    except LaunchRefused as refusal:
        raise Conflict(" ".join(said(reason, _) for reason in refusal.reasons)) from refusal
    return redirect("launch", replica.name, launch.generation)


def _chosen(releases: list[Release], wanted: str) -> Release | None:
    named = [release for release in releases if wanted in {str(release.pk), release.public_id}]
    return next(iter(named or releases), None)


@require_safe
def launch(request: HttpRequest, name: str, generation: int) -> HttpResponse:
    """One launch: phases by ranks, time to ready, last lines, proofs, evidence, and what a lost rank does."""
    return _answer(request, _launch(name, generation))


def _answer(
    request: HttpRequest, found: Launch, *, status: int = 200, end_reason: str = ""
) -> HttpResponse:
    seen, now = launch_page(found), timezone.now()
    proofs, history = launch_proofs(seen), row_history(found)
    explanation, cause = said(found.explanation, _), said(found.cause, _)
    spent = {row: span.seconds(now) for row, span in seen.spans().items()}
    context = {
        "section": "replicas",
        "topics": [found.topic, f"replica-{found.replica.name}"],
        "launch": found,
        "replica": found.replica,
        "seen": seen,
        "mark": launch_mark(found),
        "explanation": explanation,
        "cause": cause,
        "grid": launch_grid(seen, now),
        "eta": eta_drawn(found, estimate_left(history, spent, done_rows(seen)), now),
        "phases": _phases(seen, history, spent),
        "earlier": max((len(seconds) for seconds in history.values()), default=0),
        "tail": launch_tail(seen),
        "proofs": proofs,
        "proof_count": met_count(proofs),
        "drawn": plan_drawn(found.plan, found.plan_sha256),
        "is_live": found.state not in rules.ENDED,
        "is_ending": found.state in {rules.FREEZING, rules.STOPPING},
        "is_going_down": bool(found.cause) or found.state in {rules.FREEZING, rules.STOPPING},
        "ends": launch_ends(seen),
        "next_generation": found.generation + 1,
        "may_stop": may(request.user, "launch-stop", found.replica.pool),
        "ending": ending_drawn(found),
        "password_label": password_label(request, FOR_DESTRUCTION),
        "end_reason": end_reason,
        **launch_gates(request, found),
    }
    return render_page(
        request,
        "releases/launch.html",
        context,
        parts={"launch-live": "releases/_launch_live.html"},
        status=status,
    )


def _phases(
    seen: LaunchSeen, history: dict[str, list[float]], spent: dict[str, float]
) -> list[dict[str, Any]]:
    done, spans = set(done_rows(seen)), seen.spans()
    return [
        {
            "word": ROW_WORDS[row],
            "is_done": row in done,
            "is_running": row in spent and row not in done and seen.launch.ended_at is None,
            "seconds": spent.get(row),
            "since": spans[row].started_at if row in spans else None,
            "p50": quantile(history.get(row, []), 0.5),
            "p90": quantile(history.get(row, []), 0.9),
        }
        for row in ROW_ORDER
    ]


@require_POST
def launch_end(request: HttpRequest, name: str, generation: int) -> HttpResponse:
    """End every rank of the unit; the unit's name must be typed, a reason given and the sign-in fresh.

    A unit behind the gateway is drained first; asked with `now`, what still runs is cut.
    """
    found = _launch(name, generation)
    if request.POST.get("confirm", "").strip() != name:
        raise Refused(_("Type the unit name %(name)s exactly to end it.") % {"name": name})
    reason = request.POST.get("reason", "").strip()
    if len(reason) < REASON_MIN:
        raise Refused(_("Ending a unit needs a reason. Write why, then send again."))
    is_live = found.state not in rules.ENDED
    if is_live and (told := proof_refusal(request, FOR_DESTRUCTION)):
        # answered, not raised: a wrong password must stay counted
        messages.error(request, told)
        return _answer(request, found, status=403, end_reason=reason)
    is_now = request.POST.get("now") == "1"
    ending = launch_stop(launch=found, reason=reason, actor=actor_of(request), is_now=is_now)
    if ending.state == rules.READY:
        told = _("%(name)s is being drained, and ended when nothing runs on it any more.")
    elif found.state in rules.ENDED:
        told = _("Generation %(n)d of %(name)s was over already; nothing was ended.")
    else:
        told = _(
            "%(name)s is being ended; it counts as stopped only when every rank is proved gone."
        )
    messages.info(request, told % {"name": name, "n": generation})
    return redirect("launch", name, generation)


def _launch(name: str, generation: int) -> Launch:
    found = launch_of(name, generation)
    if found is None:
        raise Http404(_("%(name)s has no generation %(n)d.") % {"name": name, "n": generation})
    return found
