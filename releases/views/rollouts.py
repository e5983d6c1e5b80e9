"""The list of rollouts and the page of one: waves, triggers, weights, and the card that waits for a person."""

from __future__ import annotations

from typing import Any

from django.http import Http404, HttpRequest, HttpResponse
from django.utils import timezone
from django.utils.translation import gettext as _
from django.views.decorators.http import require_safe

from fleet.models import Pool
from fleet.rules.message import said
from fleet.rules.policy import may
from fleet.views.parts import render_page
from fleet.views.proof import FOR_DESTRUCTION, FOR_SIGNATURE, password_label
from releases.models import Approval, Rollout
from releases.rules import rollout as rules
from releases.rules.waves import PASSED, RETIRED
from releases.selectors.rollout_page import (
    LISTED,
    RolloutPage,
    rollout_named,
    rollout_page,
    rollouts_listed,
)
from releases.services.rollout_seen import at_work
from releases.views.rollout_drawn import (
    GUARD_TOPICS,
    ask_drawn,
    card_drawn,
    head_mark,
    row_mark,
    triggers_drawn,
    units_drawn,
)

_HALTS = (rules.RUNNING, rules.PAUSED, rules.ROLLBACK_FAILED)
_CANCELS = (rules.DRAFT, rules.SUBMITTED, rules.APPROVED)


@require_safe
def rollout_list(request: HttpRequest) -> HttpResponse:
    """Every rollout, newest first, of one pool or of all."""
    pools = list(Pool.objects.filter(is_spare=False))
    pool = request.GET.get("pool", "")
    rows = rollouts_listed(pool if pool in {row.slug for row in pools} else "")[:LISTED]
    context = {
        "section": "rollouts",
        "topics": ["rollouts"],
        "pools": pools,
        "pool": pool,
        "most": LISTED,
        "rollouts": [(row, row_mark(row), said(row.explanation, _)) for row in rows],
        "may_make": any(may(request.user, "rollout-new", row, is_write=True) for row in pools),
    }
    return render_page(
        request,
        "releases/rollout_list.html",
        context,
        parts={"rollouts-live": "releases/_rollout_rows.html"},
    )


@require_safe
def rollout(request: HttpRequest, name: str) -> HttpResponse:
    """One rollout."""
    return rollout_answer(request, rollout_or_404(name))


def rollout_answer(
    request: HttpRequest, row: Rollout, *, status: int = 200, typed: str = "", back_reason: str = ""
) -> HttpResponse:
    """Render the page of a rollout; what was `typed` comes back with a signature that was not taken, and
    `back_reason` with a rollback.
    """
    page = rollout_page(row)
    card = _card(request, page, typed)
    units = units_drawn(page)
    working = at_work([one.wave for one in page.units])
    context = {
        "section": "rollouts",
        "topics": [row.topic, *GUARD_TOPICS],
        "rollout": row,
        "page": page,
        "mark": head_mark(page),
        "explanation": said(row.explanation, _),
        "fired": said(row.fired, _),
        "units": units,
        "current": next((unit for unit in units if unit["wave"] is working), None),
        "triggers": triggers_drawn(row),
        "password_label": password_label(request, FOR_SIGNATURE),
        "back_password_label": password_label(request, FOR_DESTRUCTION),
        "back_reason": back_reason,
        "elapsed_s": _elapsed(row),
        "old_releases": sorted(
            {u.wave.old_release.public_id for u in page.units if u.wave.old_release}
        ),
        **_progress(page),
        **_cards(request, page, card),
        **_acts(request, page, card),
    }
    return render_page(
        request,
        "releases/rollout.html",
        context,
        parts={"rollout-live": "releases/_rollout_live.html"},
        status=status,
    )


def _elapsed(row: Rollout) -> float | None:
    if row.started_at is None:
        return None
    return ((row.ended_at or timezone.now()) - row.started_at).total_seconds()


def _progress(page: RolloutPage) -> dict[str, Any]:
    waves = [row.wave for row in page.units if not row.wave.is_canary]
    return {"done": sum(w.state in (PASSED, RETIRED) for w in waves), "total": len(waves)}


def _card(request: HttpRequest, page: RolloutPage, typed: str) -> dict[str, Any] | None:
    asked = page.open_request
    if asked is None:
        return None
    asked.rollout = page.rollout
    return card_drawn(request.user, asked, typed=typed)


def _cards(request: HttpRequest, page: RolloutPage, card: dict[str, Any] | None) -> dict[str, Any]:
    may_act = may(request.user, "rollout-act", page.rollout.pool)
    return {
        "card": card,
        "ask": ask_drawn(page, has_moved=_has_moved(card)) if may_act or card is None else None,
        "signed": [one for one in page.approvals if one.decision and one.decision != Approval.Decision.WITHDRAWN],
        "alone": page.rollout.pool.approvals_needed == 0,
    }  # fmt: skip


def _has_moved(card: dict[str, Any] | None) -> bool:
    return bool(card and card["moved"])


def _acts(request: HttpRequest, page: RolloutPage, card: dict[str, Any] | None) -> dict[str, Any]:
    row = page.rollout
    is_unanswerable = row.state == rules.SUBMITTED and (card is None or _has_moved(card))
    return {
        "may_act": may(request.user, "rollout-act", row.pool),
        "can_submit": row.state == rules.DRAFT or is_unanswerable,
        "can_start": row.state == rules.APPROVED,
        "can_pause": row.state == rules.RUNNING,
        "can_resume": row.state == rules.PAUSED,
        "can_roll_back": row.state in _HALTS,
        "can_cancel": row.state in _CANCELS,
    }


def rollout_or_404(name: str) -> Rollout:
    """Return the rollout of this public id."""
    found = rollout_named(name)
    if found is None:
        raise Http404(_("There is no rollout %(name)s.") % {"name": name})
    return found
