"""Asking others to sign what was shown, and their answer. A signature holds for exactly the facts of its digest.

What a kind of request is about (a wave, a release) is registered by the service that asks: kind_add().
"""

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.db import transaction
from django.db.models.functions import Now
from django.utils.translation import gettext as _

from fleet.doorbell import ring
from fleet.execution.clock import database_now
from fleet.models import Pool
from fleet.rules.refusals import Conflict, NeedsReason
from fleet.services.permits import permit_demand
from fleet.services.trail import Actor, trail_add
from releases.models import Approval, Release, Rollout, Signature, Wave

VALID_FOR = timedelta(hours=24)  # source: RELIABILITY.md section 4 (Rollout)
# The sentence must have something in it; how good it is, the next person on call judges.
REASON_MIN = 3


class ApprovalRefused(Conflict):
    """The answer is not taken; nothing was changed."""


class FactsMoved(ApprovalRefused):
    """The facts are not those that were shown; `moved` names those that changed."""

    def __init__(self, message: str, *, approval: Approval, moved: tuple[str, ...]) -> None:
        super().__init__(message)
        self.approval, self.moved = approval, moved


class OwnRequest(ApprovalRefused):
    """Nobody signs what they wrote or asked for."""

    status = 403


@dataclass(frozen=True)
class _Kind:
    facts: Callable[[Approval], dict[str, Any]]
    decided: Callable[[Approval, Actor], None]


_KINDS: dict[str, _Kind] = {}


def kind_add(
    kind: str,
    facts: Callable[[Approval], dict[str, Any]],
    decided: Callable[[Approval, Actor], None],
) -> None:
    """Register a kind of request: its facts as they are now, and what follows an answer.

    `decided` runs in the answer's transaction, with the rollout or release locked, once the approval is
    approved or denied; it may raise Refused, which undoes the answer.
    """
    _KINDS[kind] = _Kind(facts, decided)


def facts_digest(facts: dict[str, Any]) -> str:
    """Return the SHA256 of facts as canonical JSON: what a signature is bound to."""
    text = json.dumps(facts, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()


def facts_now(approval: Approval) -> dict[str, Any]:
    """Return the facts of an approval's subject as they are now."""
    return _KINDS[approval.kind].facts(approval)


def facts_moved(approval: Approval, now: dict[str, Any]) -> tuple[str, ...]:
    """Return the names of the facts that differ from those of the request, sorted."""
    names = set(approval.facts) | set(now)
    return tuple(sorted(name for name in names if approval.facts.get(name) != now.get(name)))


def facts_hold(approval: Approval) -> bool:
    """Tell whether the facts of a request are still so: only then can it be signed."""
    return facts_digest(facts_now(approval)) == approval.facts_digest


def pool_of(approval: Approval) -> Pool:
    """Return the pool whose approvers answer."""
    subject = approval.rollout or approval.release
    return subject.pool


def parties(approval: Approval) -> frozenset[int]:
    """Return the keys of the people who may never sign it: who asked, who wrote its subject, who last edited it.

    Source: RELIABILITY.md section 2 (I9), SECURITY.md S6.
    """
    subject = approval.rollout or approval.release
    return frozenset({approval.asked_by_id, subject.author_id, subject.last_editor_id} - {None})


@transaction.atomic
def approval_ask(
    *,
    kind: str,
    facts: dict[str, Any],
    actor: Actor,
    user: Any,
    rollout: Rollout | None = None,
    wave: Wave | None = None,
    release: Release | None = None,
    reason: str = "",
    needed: int | None = None,
) -> Approval:
    """Ask others to sign these facts; an open request of the same subject is withdrawn by it.

    `needed`: signatures, the pool's setting when left out. With 0 the asker stands alone: the request is
    approved at once and the trail says so.
    """
    subject = rollout or release
    if subject is None:
        raise ValueError("an approval is about a rollout or a release")
    _withdraw_open(kind, rollout, wave, release, user)
    approval = Approval.objects.create(
        kind=kind,
        rollout=rollout,
        wave=wave,
        release=release,
        facts=facts,
        facts_digest=facts_digest(facts),
        ask_reason=reason.strip(),
        needed=subject.pool.approvals_needed if needed is None else needed,
        asked_by=user,
        expires_at=database_now() + VALID_FOR,
    )
    trail_add(
        actor=actor,
        verb="approval.ask",
        object_kind=_subject_kind(approval),
        object_id=_subject_name(approval),
        reason=reason,
        after=_words(approval) | {"needed": approval.needed, "alone": approval.needed == 0},
    )
    if approval.needed == 0:
        _settle(approval, "approved", None, "")
        _KINDS[kind].decided(approval, actor)
    _ring(approval)
    return approval


def _withdraw_open(kind: str, rollout: Any, wave: Any, release: Any, user: Any) -> None:
    rows = Approval.objects.filter(
        kind=kind, rollout=rollout, wave=wave, release=release, decision=""
    )
    rows.update(decision=Approval.Decision.WITHDRAWN, decided_by=user, decided_at=Now())


@transaction.atomic
def approval_decide(
    *,
    approval: Approval,
    decision: str,
    facts_digest: str,
    reason: str,
    actor: Actor,
    user: Any,
) -> Approval:
    """Take one person's answer: `approved` (a signature) or `denied` (with words). Repeating a yes changes nothing.

    The subject's row is locked as its start locks it, so that a denial and a start never both win.
    Raises NotAllowed, OwnRequest, FactsMoved, NeedsReason and ApprovalRefused.
    """
    _lock_subject(approval)
    approval = (
        Approval.objects.select_for_update(of=("self",))
        .select_related("rollout__pool", "release__pool", "wave", "asked_by", "decided_by")
        .get(pk=approval.pk)
    )
    permit_demand(user, "approval.sign", pool_of(approval).slug)
    _demand_other_person(approval, user)
    _demand_open(approval)
    if decision == Approval.Decision.DENIED:
        _deny(approval, reason, actor, user)
    elif decision == Approval.Decision.APPROVED:
        _demand_same_facts(approval, facts_digest)
        _sign(approval, reason, actor, user)
    else:
        raise ApprovalRefused(
            _("An answer is approved or denied, found %(found)s.") % {"found": decision[:20]}
        )
    _ring(approval)
    return approval


def _lock_subject(approval: Approval) -> None:
    rows = Rollout.objects if approval.rollout_id else Release.objects
    list(rows.select_for_update().filter(pk=approval.rollout_id or approval.release_id))


def _demand_other_person(approval: Approval, user: Any) -> None:
    if user.pk in parties(approval):
        raise OwnRequest(
            _(
                "You asked for this, wrote it or edited it last; another person with the role must sign it."
            )
        )


def _demand_open(approval: Approval) -> None:
    if approval.decision:
        raise ApprovalRefused(
            _("This request is %(decision)s already, by %(who)s.")
            % {
                "decision": approval.get_decision_display().lower(),
                "who": approval.decided_by or "-",
            }
        )
    if approval.expires_at <= database_now():
        raise ApprovalRefused(_("This request is older than 24 hours. Let it be asked anew."))


def _demand_same_facts(approval: Approval, shown: str) -> None:
    now = facts_now(approval)
    if shown == approval.facts_digest == facts_digest(now):
        return
    raise FactsMoved(
        _("The facts moved after this was asked. Nothing was signed; read them, then ask anew."),
        approval=approval,
        moved=facts_moved(approval, now),
    )


def _sign(approval: Approval, reason: str, actor: Actor, user: Any) -> None:
    _signature, is_new = Signature.objects.get_or_create(
        approval=approval, user=user, defaults={"reason": reason.strip()}
    )
    if not is_new:
        return
    count = approval.signatures.count()
    trail_add(
        actor=actor,
        verb="approval.sign",
        object_kind=_subject_kind(approval),
        object_id=_subject_name(approval),
        reason=reason,
        after=_words(approval) | {"signatures": count, "needed": approval.needed},
    )
    if count >= approval.needed:
        _settle(approval, "approved", user, reason)
        _KINDS[approval.kind].decided(approval, actor)


def _deny(approval: Approval, reason: str, actor: Actor, user: Any) -> None:
    if len(reason.strip()) < REASON_MIN:
        raise NeedsReason(_("A rejection needs a reason. Write why, then send again."))
    _settle(approval, "denied", user, reason)
    trail_add(
        actor=actor,
        verb="approval.reject",
        object_kind=_subject_kind(approval),
        object_id=_subject_name(approval),
        reason=reason,
        after=_words(approval),
    )
    _KINDS[approval.kind].decided(approval, actor)


@transaction.atomic
def approvals_withdraw(
    *, user: Any, rollout: Rollout | None = None, release: Release | None = None
) -> int:
    """Withdraw every open request of a rollout or release that goes no further; return how many. No row of its
    own in the trail: the move of the rollout or release is there.
    """
    rows = Approval.objects.filter(rollout=rollout, release=release, decision="")
    return rows.update(decision=Approval.Decision.WITHDRAWN, decided_by=user, decided_at=Now())


def _settle(approval: Approval, decision: str, user: Any, reason: str) -> None:
    approval.decision, approval.decided_by = decision, user
    approval.decided_at, approval.reason = database_now(), reason.strip()
    approval.save(update_fields=["decision", "decided_by", "decided_at", "reason"])


def _subject_kind(approval: Approval) -> str:
    return "rollout" if approval.rollout_id else "release"


def _subject_name(approval: Approval) -> str:
    return (approval.rollout or approval.release).public_id


def _words(approval: Approval) -> dict[str, Any]:
    return {
        "approval": approval.public_id,
        "kind": approval.kind,
        "wave": approval.wave.number if approval.wave else None,
        "facts_digest": approval.facts_digest,
    }


def _ring(approval: Approval) -> None:
    if approval.rollout:
        ring("inbox", approval.rollout.topic)
    else:
        ring(
            "inbox", f"release-{_subject_name(approval)}", "fleet"
        )  # the list of releases hears the fleet
