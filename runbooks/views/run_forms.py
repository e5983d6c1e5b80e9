"""What people post about runs: start, take over, abort, and what becomes of the step that waits for them."""

from __future__ import annotations

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST

from fleet.rules.refusals import Refused
from fleet.services.permits import permit_demand
from fleet.services.trail import actor_of
from fleet.views.proof import FOR_DESTRUCTION, proof_refusal
from runbooks.models import Run
from runbooks.rules.book import Step
from runbooks.services.runs import run_abort, run_start, run_take, step_confirm, step_record
from runbooks.views.run_drawn import book_of
from runbooks.views.runs import run_answer, run_or_404

_PARAM = "param-"


@require_POST
def start(request: HttpRequest, name: str) -> HttpResponse:
    """Start a proposed run; whoever starts it has it in hand."""
    run_start(run=run_or_404(name), user=request.user, actor=actor_of(request))
    return redirect("run", name)


@require_POST
def halt(request: HttpRequest, name: str) -> HttpResponse:
    """Take a run over from whoever has it, or end it where it stands."""
    row, what = run_or_404(name), request.POST.get("act", "")
    if what == "take":
        run_take(run=row, user=request.user, actor=actor_of(request))
    elif what == "abort":
        run_abort(run=row, reason=request.POST.get("reason", ""), actor=actor_of(request))
    else:
        raise Refused(_("Nothing is called %(act)s here.") % {"act": what[:20]})
    return redirect("run", name)


@require_POST
def step_act(request: HttpRequest, name: str, step: str) -> HttpResponse:
    """Confirm a step, try it again, or record what a person saw of it."""
    row, what = run_or_404(name), request.POST.get("act", "")
    planned = _planned(row, step)
    if planned.who == "approver":
        pool = row.replica.pool.slug if row.replica else None
        permit_demand(request.user, "approval.sign", pool)
    if what == "confirm":
        return _confirm(request, row, planned)
    if what not in ("passed", "failed", "skipped"):
        raise Refused(_("Nothing is called %(act)s here.") % {"act": what[:20]})
    step_record(
        run=row,
        step_id=step,
        outcome=what,
        words=request.POST.get("words", ""),
        actor=actor_of(request),
    )
    return redirect("run", name)


def _confirm(request: HttpRequest, row: Run, planned: Step) -> HttpResponse:
    typed = request.POST.get("typed", "")
    is_destructive = planned.meaning.risk == "destructive"
    if is_destructive and (told := proof_refusal(request, FOR_DESTRUCTION)):
        # answered, not raised: a wrong password must stay counted
        messages.error(request, told)
        return run_answer(request, row, status=403, step=planned.id, refusal=told, typed=typed)
    given = {
        key.removeprefix(_PARAM): value
        for key, value in request.POST.items()
        if key.startswith(_PARAM)
    }
    step_confirm(run=row, step_id=planned.id, typed=typed, params=given, actor=actor_of(request))
    return redirect("run", row.public_id)


def _planned(row: Run, step_id: str) -> Step:
    book = book_of(row)  # None: today's catalogue cannot read it, and the page says so
    found = next((one for one in book.steps if one.id == step_id), None) if book else None
    if found is None:
        raise Refused(_("%(run)s has no step %(step)s.") % {"run": row, "step": step_id[:41]})
    return found
