"""What the acceptance that stands lets a node do: be placed, be placed after the accepted ones, or not at all. Pure.

Source: 384-card manual, section 4.3 (an exit code of 0 accepts nothing); design, node states: accepted is ready,
marginal is ready with a hold of acceptance that an approver may lift with a reason, rejected is quarantined.
An acceptance that ended (30 days, another boot, driver or firmware) is none, whatever it said.
"""

from __future__ import annotations

from dataclasses import dataclass

from fleet.rules.acceptance import ACCEPTED, MARGINAL, REJECTED
from fleet.rules.message import say

OWNER = "acceptance"  # of the holds that follow from verdicts
# How a node stands in the queue for work: an accepted one first, then one that a person answers for.
FIRST, LET_IN, NOT_ACCEPTED = range(3)


@dataclass(frozen=True)
class Stand:
    """What acceptance says of one node now.

    `verdict` is empty for a node that was never judged; `ended` says why what was said holds no more; `let_in_by`
    and `let_in_why`: who lifted the hold of this very verdict, and the reason; `held_for`: why acceptance holds it.
    """

    verdict: str = ""
    run: str = ""
    summary: str = ""
    ended: str = ""
    let_in_by: str = ""
    let_in_why: str = ""
    held_for: str = ""


NEVER = Stand()


def rank_of(stand: Stand) -> int:
    """Return FIRST, LET_IN or NOT_ACCEPTED."""
    if stand.ended:
        return NOT_ACCEPTED
    if stand.verdict == ACCEPTED:
        return FIRST
    return LET_IN if stand.verdict == MARGINAL and stand.let_in_by else NOT_ACCEPTED


def refusal_of(node: str, stand: Stand, *, is_asked: bool) -> str:
    """Say why a node may not be placed and what is to be done; empty when it may.

    `is_asked`: its pool takes accepted nodes only. A marginal node that acceptance holds is refused everywhere.
    """
    if rank_of(stand) < NOT_ACCEPTED:
        return ""
    if says_its_hold(stand) or (is_asked and stand.verdict == MARGINAL and not stand.ended):
        return say(
            "%(node)s is marginal by %(run)s (%(why)s): mend it and accept it again, or let an approver lift "
            "the hold of acceptance with a reason.",
            node=node,
            run=stand.run,
            why=stand.held_for or stand.summary,
        )
    if not is_asked:
        return ""
    return say(
        "%(node)s has no valid acceptance, which its pool asks for (%(why)s): accept it first.",
        node=node,
        why=_why_none(stand),
    )


def says_its_hold(stand: Stand) -> bool:
    """Tell whether refusal_of() names the hold of acceptance, so that nobody else need."""
    return bool(stand.verdict == MARGINAL and not stand.ended and stand.held_for)


def remark_of(node: str, stand: Stand) -> str:
    """Say of a node that may be placed in which way it is not an accepted one; empty when it is."""
    rank = rank_of(stand)
    if rank == FIRST:
        return ""
    if rank == LET_IN:
        return say(
            "%(node)s is marginal by %(run)s (%(why)s); %(who)s let it in: %(reason)s",
            node=node,
            run=stand.run,
            why=stand.summary,
            who=stand.let_in_by,
            reason=stand.let_in_why,
        )
    return say(
        "%(node)s is not accepted (%(why)s); its pool does not ask for it.",
        node=node,
        why=_why_none(stand),
    )


def _why_none(stand: Stand) -> str:
    if stand.ended:
        return say("%(run)s ended: %(why)s", run=stand.run, why=stand.ended)
    if stand.verdict == REJECTED:
        return say("rejected by %(run)s: %(why)s", run=stand.run, why=stand.summary)
    if stand.verdict == MARGINAL:
        return say("marginal by %(run)s: %(why)s", run=stand.run, why=stand.summary)
    return say("never accepted")
