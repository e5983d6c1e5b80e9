"""Gate runs: the list, one run whose rows come in, starting one over a ready launch, and cancelling it."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST, require_safe

from fleet.marks import mark_of
from fleet.models import TrailEntry
from fleet.rules.message import said
from fleet.rules.policy import may
from fleet.rules.refusals import Conflict, Refused
from fleet.services.trail import actor_of
from fleet.views.parts import render_page
from releases.models import GateRun, Launch
from releases.rules import gates as rules
from releases.selectors.gate_page import (
    KINDS,
    RUNS_SHOWN,
    gate_kinds,
    gate_named,
    gate_runs,
    gate_seen,
    runs_of_launch,
)
from releases.selectors.launch_page import launch_of
from releases.services import gates as service
from releases.services.endpoints import endpoint_of
from releases.views.gate_rows import CheckDrawn, Choice, checks_drawn

REASON_MIN = 3
HISTORY_SHOWN = 8


@require_safe
def gate_list(request: HttpRequest) -> HttpResponse:
    """The newest gate runs, what they proved and why they ended."""
    kind = request.GET.get("kind", "all")
    kind = kind if kind in KINDS else "all"
    counts, words = gate_kinds(), _kind_words()
    context = {
        "section": "gates",
        "topics": [service.TOPIC],
        "runs": [_drawn(run) for run in gate_runs(kind)],
        "kind": kind,
        "kinds": [(name, words[name], counts[name]) for name in KINDS],
        "counts": counts,
        "most": RUNS_SHOWN,
    }
    return render_page(
        request,
        "releases/gate_list.html",
        context,
        parts={"gates-live": "releases/_gate_rows.html"},
    )


def _kind_words() -> dict[str, str]:
    return {
        "all": _("All"),
        "open": _("Running"),
        "passed": _("Passed"),
        "failed": _("Failed"),
        "unproven": _("Unproven"),
    }


@require_safe
def gate(request: HttpRequest, name: str) -> HttpResponse:
    """One gate run: a place for each result from the start, filled as the results come, and the verdict."""
    seen = gate_seen(name)
    if seen is None:
        raise Http404(_("No gate run is called %(name)s.") % {"name": name})
    run = seen.run
    choice = _choice(request)
    checks = checks_drawn(seen, choice)
    context = {
        "section": "gates",
        "topics": [run.topic],
        "run": run,
        "launch": run.launch,
        "replica": run.launch.replica,
        "mark": mark_of("gate", run.state),
        "explanation": said(run.explanation, _),
        "checks": checks,
        "counts": _counts(checks),
        "only_bad": choice.only_bad,
        "evidence": seen.evidence,
        "is_open": run.state not in rules.ENDED,
        "is_passed": run.state == rules.PASSED,
        "history": TrailEntry.objects.filter(object_kind="gate", object_id=run.public_id).order_by(
            "-id"
        )[:HISTORY_SHOWN],
        "may_cancel": may(request.user, "gate-cancel", run.launch.replica.pool),
    }
    return render_page(
        request, "releases/gate.html", context, parts={"gate-live": "releases/_gate_live.html"}
    )


def _choice(request: HttpRequest) -> Choice:
    """Read from the address which rows are wanted; a page that is no number is the first."""
    pages = {name: text for name in rules.CHECKS if (text := request.GET.get(name, "")).isdecimal()}
    return Choice(
        pages={name: int(text) for name, text in pages.items() if len(text) < 6},
        only_bad=request.GET.get("show") == "bad",
    )


def _counts(checks: list[CheckDrawn]) -> dict[str, int]:
    return {
        name: sum(check.counts[name] for check in checks)
        for name in ("passed", "failed", "unproven", "all")
    }


@require_POST
def gate_start(request: HttpRequest, name: str, generation: int) -> HttpResponse:
    """Start a gate run over a ready launch."""
    launch = launch_of(name, generation)
    if launch is None:
        raise Http404(_("%(name)s has no generation %(n)d.") % {"name": name, "n": generation})
    try:
        run = service.gate_start(
            launch=launch,
            purpose=f"by-hand:{launch.public_id}#{launch.gate_runs.count() + 1}",
            actor=actor_of(request),
            user=request.user,
        )
    except service.GateRefused as refusal:
        raise Conflict(" ".join(said(reason, _) for reason in refusal.reasons)) from refusal
    return redirect("gate", run.public_id)


@require_POST
def gate_cancel(request: HttpRequest, name: str) -> HttpResponse:
    """Cancel an open run, with a reason; what it found so far stays, and it proves nothing."""
    run = gate_named(name)
    if run is None:
        raise Http404(_("No gate run is called %(name)s.") % {"name": name})
    reason = request.POST.get("reason", "").strip()
    if len(reason) < REASON_MIN:
        raise Refused(_("Cancelling a gate run needs a reason. Write why, then send again."))
    ended = service.gate_cancel(run=run, reason=reason, actor=actor_of(request))
    if ended.state != rules.CANCELLED:
        messages.info(request, _("%(run)s had ended already.") % {"run": run})
    return redirect("gate", name)


def launch_gates(request: HttpRequest, launch: Launch | None) -> dict[str, Any]:
    """What the panel of gate runs on a launch's or unit's page shows."""
    if launch is None:
        return {"gate_runs": [], "may_gate": False, "gate_refusals": [], "entry": ""}
    return {
        "gate_runs": [_drawn(run) for run in runs_of_launch(launch)],
        "may_gate": may(request.user, "gate-start", launch.replica.pool),
        "gate_refusals": [said(reason, _) for reason in service.gate_refusals(launch)],
        "entry": _entry(launch),
    }


def _entry(launch: Launch) -> str:
    """Say why a launch waits for its first traffic, or got none, or nothing."""
    endpoint = endpoint_of(launch)
    return said(endpoint.explanation, _) if endpoint else ""


def _drawn(run: GateRun) -> dict[str, Any]:
    return {
        "run": run,
        "mark": mark_of("gate", run.state),
        "explanation": said(run.explanation, _),
    }
