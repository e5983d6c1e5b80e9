"""The first page: what waits for this person, what is broken, what each pool serves, what runs, what happened."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_safe

from fleet.marks import mark_of
from fleet.rules.message import said
from fleet.rules.policy import may
from fleet.selectors.fleet import node_rows, pools_seen
from fleet.views.drawing import PoolCard, pool_cards
from fleet.views.parts import render_page
from releases.models import Approval
from releases.selectors.rollout_page import requests_open, rollouts_live
from releases.views.inbox import incidents_drawn, signable
from releases.views.rollout_drawn import card_title, row_mark
from runbooks.models import Run
from runbooks.rules import run as rules
from runbooks.selectors.overview import happened_lately, releases_running
from runbooks.selectors.run_page import runs_live
from runbooks.views.run_drawn import run_title


@require_safe
def overview(request: HttpRequest) -> HttpResponse:
    """The state of the house on one page."""
    runs = list(runs_live())
    context = {
        "section": "home",
        "topics": ["inbox", "fleet", "rollouts"],
        "waiting": _waiting(request, runs),
        "incidents": incidents_drawn(),
        "pools": _pools(),
        "rollouts": [(row, row_mark(row), said(row.explanation, _)) for row in rollouts_live()],
        "runs": [_run_row(run) for run in runs if run.state == rules.RUNNING],
        "lately": happened_lately(),
    }
    return render_page(
        request,
        "runbooks/overview.html",
        context,
        parts={"overview-live": "runbooks/_overview_live.html"},
    )


def _waiting(request: HttpRequest, runs: list[Run]) -> list[dict[str, Any]]:
    """Runs first, since users wait with them; then the signatures that this person may give."""
    mine = [
        _run_row(run)
        for run in runs
        if run.state in (rules.PROPOSED, rules.WAITING)
        and may(request.user, "run-start", run.replica.pool if run.replica else None)
    ]
    return mine + [_approval_row(one) for one in signable(request.user, requests_open())]


def _run_row(run: Run) -> dict[str, Any]:
    unit = run.replica.name if run.replica else ""
    return {
        "mark": mark_of("run", run.state),
        "title": run_title(run),
        "detail": f"{unit} · {said(run.explanation, _)}" if unit else said(run.explanation, _),
        "at": run.state_at,
        "name": run.public_id,
        "url": reverse("run", args=[run.public_id]),
    }


def _approval_row(approval: Approval) -> dict[str, Any]:
    subject = approval.rollout or approval.release
    page = "rollout" if approval.rollout else "release"
    return {
        "mark": mark_of("run", rules.WAITING),
        "title": card_title(approval),
        "detail": _("%(who)s asked") % {"who": approval.asked_by.get_username()},
        "at": approval.asked_at,
        "name": subject.public_id,
        "url": reverse(page, args=[subject.public_id]),
    }


def _pools() -> list[tuple[PoolCard, int, list[tuple[str, int]]]]:
    """Return each pool's card, how many of its units take traffic, and the releases that its units run."""
    pools, _control = pools_seen()
    serving = {pool.slug: sum(unit.state == "serving" for unit in pool.units) for pool in pools}
    releases = releases_running()
    return [
        (card, serving[card.slug], releases.get(card.slug, []))
        for card in pool_cards(pools, node_rows())
    ]
