"""Words of the rollout pages: guards, steps of a wave, and the card on which people sign."""

from __future__ import annotations

from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from fleet.marks import Mark, mark_of
from fleet.rules import policy
from fleet.rules.message import said
from fleet.templatetags.figures import clock_span
from releases.models import Approval, Rollout, Wave
from releases.rules import rollout as rules
from releases.rules.rollout import Guard
from releases.rules.waves import AWAITING, PENDING
from releases.selectors.rollout_page import RolloutPage, UnitRow
from releases.services.approvals import facts_now, parties
from releases.services.rollout_facts import guards_of, wave_facts
from releases.services.rollout_seen import at_work
from releases.views.moved_facts import MovedFact, facts_compared, trigger_names
from releases.views.rollout_plan import NodeCommand, moved_lines, plan_card

# What the guards on a page read: incidents, nodes, holds, spares, units and the brake, other rollouts.
GUARD_TOPICS = ("incidents", "fleet", "rollouts")
GUARD_WORDS = {
    "capacity": gettext_lazy("Serving units of the pool during the wave"),
    "spares": gettext_lazy("Usable spares after it"),
    "incidents": gettext_lazy("Open incidents of the pool"),
    "triggers": gettext_lazy("Triggers that have fired"),
    "unknown": gettext_lazy("Units of which something is unknown"),
    "other_rollout": gettext_lazy("Other rollout in the pool"),
    "brake": gettext_lazy("Mass-change brake"),
}
NEEDED_WORDS = {
    "capacity": gettext_lazy("promised %(needed)s"),
    "spares": gettext_lazy("floor %(needed)s"),
}


def guards_drawn(facts: dict[str, Any]) -> list[dict[str, Any]]:
    """Return one line a guard: its word, what was found and needed, and whether it holds."""
    return [
        {
            "word": GUARD_WORDS[guard.name],
            "found": _found_words(guard, facts),
            "needed": str(NEEDED_WORDS[guard.name]) % {"needed": guard.needed}
            if guard.name in NEEDED_WORDS
            else "",
            "mark": mark_of("verdict", "pass" if guard.is_met else "fail"),
            "is_met": guard.is_met,
        }
        for guard in guards_of(facts)
    ]


def _found_words(guard: Guard, facts: dict[str, Any]) -> str:
    if guard.name == "triggers" and facts["fired_triggers"]:
        return ", ".join(trigger_names(facts["fired_triggers"]))
    return said(guard.found, _)


def steps_drawn(facts: dict[str, Any]) -> list[str]:
    """Say in order what one click lets happen to the unit of a wave."""
    first = (
        _("Drain %(unit)s on %(nodes)s, deadline %(deadline)s")
        if facts["old_release"]
        else _("Take spares for %(unit)s")
        if not facts["nodes"]
        else _("Take %(unit)s on %(nodes)s")
    )
    words = {
        "unit": facts["unit"],
        "nodes": ", ".join(facts["nodes"]),
        "deadline": clock_span(facts["drain_deadline_s"]),
        "release": facts["new_release"],
        "gpus": facts["gpus"],
        "weights": ", ".join(str(weight) for weight in facts["weights"]),
        "window": clock_span(facts["observe_s"]),
        "requests": facts["min_requests"],
    }
    second = (
        _("Stop every rank (%(gpus)s), start %(release)s, golden warm-up, then the gate")
        if facts["old_release"]
        else _("Start %(release)s on %(gpus)s GPU, golden warm-up, then the gate")
    )
    third = (
        _(
            "Weight %(weights)s %%, each observed for %(window)s at least; requests needed: %(requests)s"
        )
        if facts["min_requests"]
        else _("Weight %(weights)s %%, each observed for %(window)s")
    )
    return [text % words for text in (first, second, third)]


def units_drawn(page: RolloutPage) -> list[dict[str, Any]]:
    """Return one line a wave with what its unit runs and gets, for the strip and the table."""
    return [_unit(row, page.rollout) for row in page.units]


def _unit(row: UnitRow, rollout: Rollout) -> dict[str, Any]:
    wave, launch, endpoint = row.wave, row.launch, row.endpoint
    label = _("Canary") if wave.is_canary else str(wave.number)
    name = wave.replica.name if wave.replica else ""
    return {
        "wave": wave,
        "label": label,
        "unit": name,
        "short": name.rpartition("-")[2],
        "mark": mark_of("wave", wave.state),
        "launch": launch,
        "gate": row.gate,
        "gate_mark": mark_of("gate", row.gate.state) if row.gate else None,
        "weight": endpoint.weight if endpoint and endpoint.mode == "ready" else None,
        "mode": endpoint.get_mode_display() if endpoint else "",
        "seen_weight": endpoint.seen_weight if endpoint else None,
        "requests": endpoint.requests if endpoint else None,
        "explanation": said(wave.explanation, _),
        "is_new": bool(launch and launch.release_id == rollout.new_release_id),
    }


def triggers_drawn(rollout: Rollout) -> list[dict[str, Any]]:
    """Return one line a trigger as the newest tick judged it."""
    return [
        {
            "word": trigger_names([row["name"]])[0],
            "mark": mark_of("trigger", row["state"]),
            "found": said(row["found"], _),
            "limit": said(row["limit"], _),
        }
        for row in rollout.triggers
    ]


def head_mark(page: RolloutPage) -> Mark:
    """Return the mark of the page's head: a running rollout shows the wave that waits for a person."""
    waiting = next_wave(page)
    is_asking = waiting is not None and waiting.state == AWAITING
    return _mark(page.rollout, waiting.number if waiting and is_asking else None)


def row_mark(row: Any) -> Mark:
    """Return the mark of a listed rollout: the same as on its page."""
    return _mark(row, row.asking_wave)


def _mark(rollout: Rollout, asking: int | None) -> Mark:
    if rollout.state == rules.RUNNING and asking is not None:
        word = _("Wave %(n)s waits for approval") % {"n": asking}
        return Mark("hold", "hold", word, rollout.state)
    return mark_of("rollout", rollout.state)


def next_wave(page: RolloutPage) -> Wave | None:
    """Return the wave that would begin next, when a person has to ask for it."""
    wave = at_work([row.wave for row in page.units])
    is_going = page.rollout.state in (rules.RUNNING, rules.PAUSED)
    return wave if wave and is_going and wave.state in (PENDING, AWAITING) else None


# -- the card


def card_drawn(user: Any, approval: Approval, *, typed: str = "") -> dict[str, Any]:
    """Return the card of an open request: what it touches, what proves it, and whether this person may sign.

    Guards are those of now: a card must not look safe by what was so when it was asked. `moved` says what differs.
    """
    facts, pool = approval.facts, approval.rollout.pool
    now = facts_now(approval)
    moved = facts_compared(approval, now)
    return {
        "approval": approval,
        "rollout": approval.rollout,
        "pool": pool,
        "title": card_title(approval),
        "button": _BUTTONS[approval.kind] % {"n": facts.get("number", 0)},
        "steps": steps_drawn(facts),
        "guards": guards_drawn(now),
        "plan": plan_card(approval.rollout, facts, approval.wave and approval.wave.replica),
        "facts": facts,
        "units": facts.get("units", []),
        "fired": said(facts.get("fired", ""), _),
        "silent": trigger_names(now["silent_triggers"]),
        "signatures": list(approval.signatures.all()),
        "left": approval.needed - len(approval.signatures.all()),
        "refusal": sign_refusal(user, approval),
        "moved": moved,
        "moved_lines": _moved_lines(approval, moved, now),
        "may_ask": policy.may(user, "rollout-act", pool, is_write=True),
        "typed": typed,
    }


def _moved_lines(
    approval: Approval, moved: list[MovedFact], now: dict[str, Any]
) -> list[NodeCommand]:
    return moved_lines(approval, now) if any(one.name == "commands" for one in moved) else []


_BUTTONS = {
    Approval.Kind.ROLLOUT: gettext_lazy("Approve the rollout"),
    Approval.Kind.WAVE: gettext_lazy("Approve wave %(n)s"),
    Approval.Kind.RESUME: gettext_lazy("Sign to go on with wave %(n)s"),
}


def card_title(approval: Approval) -> str:
    """Name what is asked for."""
    if approval.kind == Approval.Kind.RELEASE:
        return _("Sign %(name)s") % {"name": approval.release.public_id}
    name = approval.rollout.public_id
    if approval.kind == Approval.Kind.ROLLOUT:
        count = len(approval.facts.get("units", []))
        text = ngettext("Start %(name)s: %(n)s unit", "Start %(name)s: %(n)s units", count)
        return text % {"name": name, "n": count}
    if approval.kind == Approval.Kind.RESUME:
        return _("Go on with %(name)s after a trigger") % {"name": name}
    return _("Wave %(n)s of %(name)s") % {"n": approval.facts["number"], "name": name}


def sign_refusal(user: Any, approval: Approval) -> str:
    """Say why this person cannot sign, or nothing."""
    pool = (approval.rollout or approval.release).pool
    if not policy.may(user, "approval.sign", pool, is_write=True):
        return _("Needs role approver")
    if user.pk in parties(approval):
        return _("You wrote it, edited it last or asked for it: another approver signs")
    if user.pk in {signature.user_id for signature in approval.signatures.all()}:
        return _("You signed already")
    return ""


def ask_drawn(page: RolloutPage, *, has_moved: bool = False) -> dict[str, Any] | None:
    """Return the card on which a wave is asked for, with its guards as they are now; None when none is due.

    `has_moved`: the facts of the open request moved, so that nobody can sign that one any more.
    """
    wave = next_wave(page)
    if wave is None or wave.is_canary or page.rollout.strategy.get("approve") == "canary":
        return None
    if _is_asked(page.open_request, wave, has_moved=has_moved):
        return None
    signed = next((one for one in page.approvals if one.wave_id == wave.pk), None)
    facts = wave_facts(page.rollout, wave)
    guards = guards_drawn(facts)
    is_answered = signed and signed.kind == Approval.Kind.WAVE and not signed.is_open
    last = signed if is_answered else None
    is_void = last is not None and last.decision == Approval.Decision.APPROVED
    moved = facts_compared(last, facts) if last and is_void else []
    return {
        "wave": wave,
        "last": last,
        "moved": moved,
        "moved_lines": _moved_lines(last, moved, facts) if last else [],
        "plan": plan_card(page.rollout, facts, wave.replica),
        "guards": guards,
        "steps": steps_drawn(facts),
        "is_met": all(guard["is_met"] for guard in guards),
        "is_alone": page.rollout.pool.approvals_needed == 0,
    }


def _is_asked(request: Approval | None, wave: Wave, *, has_moved: bool) -> bool:
    """To go on after a trigger is asked for elsewhere, also anew."""
    if request is None or request.wave_id != wave.pk:
        return False
    return request.kind != Approval.Kind.WAVE or not has_moved
