"""What people post about rollouts. Each form is one service call; what a service refuses comes back as a sentence."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.conf import settings
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_http_methods, require_POST

from fleet.models import Pool
from fleet.rules.message import said
from fleet.rules.policy import may
from fleet.rules.refusals import Conflict, NeedsReason, Refused
from fleet.services.permits import permit_demand
from fleet.services.trail import actor_of
from fleet.views.parts import render_page
from fleet.views.proof import FOR_DESTRUCTION, FOR_SIGNATURE, proof_refusal
from releases.models import Approval, Release, Rollout
from releases.rules.waves import FIELD_WORDS, Strategy
from releases.selectors.rollout_page import pools_to_roll, releases_to_roll
from releases.services import rollouts as services
from releases.services.approvals import REASON_MIN, FactsMoved, approval_decide
from releases.services.rollouts import RolloutRefused
from releases.views.rollouts import rollout_answer, rollout_or_404

_DEFAULTS = Strategy()
# A rehearsed fleet has no users whose requests could be waited for.
_REHEARSED = Strategy(observe_s=60.0, min_requests=0, drain_deadline_s=60.0)


@require_http_methods(["GET", "HEAD", "POST"])
def new(request: HttpRequest) -> HttpResponse:
    """The form of a new rollout with the usual strategy; posting it drafts one, and nothing runs."""
    pools = pools_to_roll()
    wanted = request.POST.get("pool") or request.GET.get("pool", "")
    pool = next((row for row in pools if row.slug == wanted), next(iter(pools), None))
    if request.method == "POST":
        return _create(request, pool)
    usual = _usual()
    context = {
        "section": "rollouts",
        "pools": pools,
        "pool": pool,
        "releases": releases_to_roll(pool) if pool else [],
        "chosen": request.GET.get("release", ""),
        "defaults": usual,
        "observe_min": round(usual.observe_s / 60),
        "drain_min": round(usual.drain_deadline_s / 60),
        "may_make": pool is not None and may(request.user, "rollout-new", pool, is_write=True),
    }
    return render_page(request, "releases/rollout_new.html", context)


_NUMBER_WORDS = {
    "release": gettext_lazy("Release"),
    "observe_min": gettext_lazy("Window at each weight, min"),
    "min_requests": gettext_lazy("Requests needed in a window"),
    "drain_min": gettext_lazy("Drain deadline, min"),
    "number": gettext_lazy("Wave"),
}


def _usual() -> Strategy:
    return _REHEARSED if settings.IS_REHEARSAL else _DEFAULTS


def _create(request: HttpRequest, pool: Pool | None) -> HttpResponse:
    if pool is None:
        raise Refused(_("No pool has a reviewed release. Let one be signed first."))
    permit_demand(request.user, "rollout-new", pool.slug)
    release = Release.objects.filter(pool=pool, pk=_number(request, "release", 0)).first()
    if release is None:
        raise Refused(_("Choose a reviewed release of this pool."))
    with refusals_said():
        made = services.rollout_create(
            pool=pool,
            release=release,
            strategy=_strategy(request),
            reason=_reason(request),
            actor=actor_of(request),
            user=request.user,
            has_canary=request.POST.get("canary", "yes") == "yes",
        )
    return redirect("rollout", made.public_id)


def _strategy(request: HttpRequest) -> dict[str, Any]:
    usual = _usual()
    return {
        "canary_weights": _weights(request, "canary_weights", usual.canary_weights),
        "wave_weights": _weights(request, "wave_weights", usual.wave_weights),
        "observe_s": 60 * _number(request, "observe_min", round(usual.observe_s / 60)),
        "min_requests": _number(request, "min_requests", usual.min_requests),
        "drain_deadline_s": 60 * _number(request, "drain_min", round(usual.drain_deadline_s / 60)),
        "on_trigger": request.POST.get("on_trigger", usual.on_trigger),
        "approve": request.POST.get("approve", usual.approve),
    }


def _weights(request: HttpRequest, name: str, usual: tuple[int, ...]) -> list[int]:
    words = request.POST.get(name, "").replace(",", " ").split()
    if not words:
        return list(usual)
    if not all(word.isascii() and word.isdigit() and len(word) <= 3 for word in words):
        raise Refused(
            _("%(field)s: expected rising percents like 1, 5, 25, found %(found)s.")
            % {"field": said(FIELD_WORDS[name], _), "found": " ".join(words)[:60]}
        )
    return [int(word) for word in words]


def _number(request: HttpRequest, name: str, usual: int) -> int:
    word = request.POST.get(name, "").strip()
    if not word:
        return usual
    if not (word.isascii() and word.isdigit() and len(word) <= 9):
        raise Refused(
            _("%(field)s: expected a whole number, found %(found)s.")
            % {"field": str(_NUMBER_WORDS[name]), "found": word[:20]}
        )
    return int(word)


@require_POST
def act(request: HttpRequest, name: str) -> HttpResponse:
    """Submit a draft, start what is approved, or go on after a pause."""
    row, what = rollout_or_404(name), request.POST.get("act", "")
    who: dict[str, Any] = {"actor": actor_of(request)}
    with refusals_said():
        if what == "submit":
            services.rollout_submit(rollout=row, user=request.user, **who)
        elif what == "start":
            services.rollout_start(rollout=row, **who)
        elif what == "resume":
            reason = _reason(request)
            services.rollout_resume(rollout=row, reason=reason, user=request.user, **who)
        else:
            raise Refused(_("Nothing is called %(act)s here.") % {"act": what[:20]})
    return redirect("rollout", name)


@require_POST
def halt(request: HttpRequest, name: str) -> HttpResponse:
    """Pause, cancel what has not begun, or stop and roll back, for which the rollout's id must be typed and the
    sign-in fresh.
    """
    row, what, reason = rollout_or_404(name), request.POST.get("act", ""), _reason(request)
    who: dict[str, Any] = {"actor": actor_of(request), "reason": reason}
    with refusals_said():
        if what == "pause":
            services.rollout_pause(rollout=row, **who)
        elif what == "cancel":
            services.rollout_cancel(rollout=row, user=request.user, **who)
        elif what == "rollback":
            if request.POST.get("confirm", "").strip() != name:
                raise Refused(_("Type %(name)s exactly to stop and roll back.") % {"name": name})
            if told := proof_refusal(request, FOR_DESTRUCTION):
                # answered, not raised: a wrong password must stay counted
                messages.error(request, told)
                return rollout_answer(request, row, status=403, back_reason=reason)
            services.rollout_rollback(rollout=row, user=request.user, **who)
        else:
            raise Refused(_("Nothing is called %(act)s here.") % {"act": what[:20]})
    return redirect("rollout", name)


@require_POST
def ask(request: HttpRequest, name: str) -> HttpResponse:
    """Ask others to sign the next wave."""
    with refusals_said():
        services.wave_ask(
            rollout=rollout_or_404(name),
            number=_number(request, "number", -1),
            reason=_reason(request),
            actor=actor_of(request),
            user=request.user,
        )
    return redirect("rollout", name)


@require_POST
def sign(request: HttpRequest, name: str, pk: int) -> HttpResponse:
    """Take one person's answer to a request. Moved facts, or an old sign-in, come back on the card with what was
    typed. A rejection needs no fresh sign-in.
    """
    row: Rollout = rollout_or_404(name)
    approval = Approval.objects.filter(pk=pk, rollout=row).first()
    if approval is None:
        raise Conflict(_("This request does not belong to %(name)s.") % {"name": name})
    reason, decision = request.POST.get("reason", ""), request.POST.get("decision", "")
    # what is closed has no card on which to ask: the service says why, and signs nothing
    is_signing = decision == Approval.Decision.APPROVED and approval.is_open
    if is_signing and (told := proof_refusal(request, FOR_SIGNATURE)):
        # answered, not raised: a wrong password must stay counted
        messages.error(request, told)
        return rollout_answer(request, row, status=403, typed=reason)
    try:
        done = approval_decide(
            approval=approval,
            decision=decision,
            facts_digest=request.POST.get("facts_digest", ""),
            reason=reason,
            actor=actor_of(request),
            user=request.user,
        )
    except FactsMoved as refusal:
        messages.error(request, str(refusal))
        return rollout_answer(request, row, status=refusal.status, typed=reason)
    if not done.decision:
        messages.info(request, _("Signed. Another person's signature is still needed."))
    return redirect("rollout", name)


def _reason(request: HttpRequest) -> str:
    reason = request.POST.get("reason", "").strip()
    if len(reason) < REASON_MIN:
        raise NeedsReason(_("A reason is needed. Write why, then send again."))
    return reason


@contextmanager
def refusals_said() -> Iterator[None]:
    """Turn what a service refused into the sentence of a refusal page."""
    try:
        yield
    except RolloutRefused as refusal:
        raise Conflict(" ".join(said(reason, _) for reason in refusal.reasons)) from refusal
