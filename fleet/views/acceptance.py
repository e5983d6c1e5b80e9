"""Node acceptance: the list of runs, one run with its nodes folded by result, starting and cancelling."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.http import require_POST, require_safe

from fleet.models import AcceptanceRun
from fleet.rules.acceptance import VALID_FOR
from fleet.rules.policy import may
from fleet.selectors.acceptance import (
    RUNS_SHOWN,
    acceptance_named,
    acceptance_runs,
    run_rows,
    standing_counts,
)
from fleet.selectors.nodes import nodes_selected
from fleet.services import acceptances as service
from fleet.services.trail import actor_of
from fleet.views.acceptance_drawn import ORDER, groups_drawn, headline, run_mark
from fleet.views.pager import pager
from fleet.views.parts import render_page


@require_safe
def acceptance_list(request: HttpRequest) -> HttpResponse:
    """The newest runs, how many nodes are accepted now, and which pools ask for it."""
    counts = standing_counts()
    context = {
        "section": "fleet",
        "topics": [service.TOPIC],
        "runs": [_listed(run) for run in acceptance_runs()],
        "counts": counts,
        "node_count": counts["all"],
        "most": RUNS_SHOWN,
        "required": settings.ACCEPTANCE_REQUIRED,
        "days": VALID_FOR.days,
        "may_accept": may(request.user, "acceptance-start"),
    }
    return render_page(
        request,
        "fleet/acceptance_list.html",
        context,
        parts={"acceptances-live": "fleet/_acceptance_rows.html"},
    )


@require_safe
def acceptance(request: HttpRequest, name: str) -> HttpResponse:
    """One run: its nodes folded by result, those that need somebody first."""
    run = _run(name)
    rows = run_rows(run)
    groups = groups_drawn(rows)
    settled = sum(1 for row in rows if row.settled_at is not None)
    context = {
        "section": "fleet",
        "topics": [run.topic],
        "run": run,
        "pager": pager(AcceptanceRun.objects.only("pk"), run.pk, "acceptance"),
        "groups": groups,
        "mark": run_mark(groups, is_open=run.ended_at is None),
        "headline": headline(groups),
        "settled": settled,
        "total": len(rows),
        "percent": round(100 * settled / len(rows)) if rows else 100,
        "is_open": run.ended_at is None,
        "may_cancel": may(request.user, "acceptance-cancel"),
    }
    return render_page(
        request,
        "fleet/acceptance.html",
        context,
        parts={"acceptance-live": "fleet/_acceptance_live.html"},
    )


@require_POST
def acceptance_start(request: HttpRequest) -> HttpResponse:
    """Accept the nodes of the field `nodes`: `all`, or names and ranges like h100-[001-008]."""
    nodes = nodes_selected(",".join(request.POST.getlist("nodes")))
    run = service.acceptance_start(nodes=nodes, actor=actor_of(request), user=request.user)
    count = len(nodes)
    messages.info(
        request,
        ngettext("Accepting %(n)d node.", "Accepting %(n)d nodes.", count) % {"n": count},
    )
    return redirect("acceptance", run.public_id)


@require_POST
def acceptance_cancel(request: HttpRequest, name: str) -> HttpResponse:
    """End a run whose nodes are not all judged yet; one that is over stays as it is."""
    run = _run(name)
    if run.ended_at is not None:
        messages.info(request, _("This acceptance is over already; nothing was cancelled."))
    else:
        service.acceptance_cancel(
            run=run,
            reason=request.POST.get("reason", ""),
            actor=actor_of(request),
            user=request.user,
        )
    return redirect("acceptance", run.public_id)


def _run(name: str) -> AcceptanceRun:
    run = acceptance_named(name)
    if run is None:
        raise Http404(_("No acceptance is called %(name)s.") % {"name": name})
    return run


def _listed(run: Any) -> dict[str, Any]:
    counts = {verdict: getattr(run, f"{verdict or 'open'}_count") for verdict in ORDER}
    return {
        "run": run,
        "counts": counts,
        "open": counts[""],
        **{key: counts[key] for key in ORDER if key},
    }
