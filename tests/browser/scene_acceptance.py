"""Acceptances of the scene: all nodes but one accepted, one rejected for its ECC errors, one at work."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.utils import timezone

from fleet.models import AcceptanceRun, Node, NodeAcceptance
from fleet.rules.acceptance_checks import judge
from fleet.rules.message import say
from tests.rules.test_acceptance import cards, node

BAD, AGED, OPEN = "gpu033", "gpu034", "gpu045"


def draw(asked_by: Any) -> None:
    """Draw both runs."""
    now = timezone.now()
    good = judge(node())
    bad = judge(node(cards=cards(ecc_uncorrected=2.0)))
    begun = now - timedelta(hours=3)
    run = _run(asked_by, "all", begun, begun + timedelta(minutes=4))
    rows = []
    for one in Node.objects.order_by("host__name"):
        verdict = bad if one.name == BAD else good
        row = NodeAcceptance(
            run=run,
            node=one,
            verdict=verdict.verdict,
            summary=verdict.summary,
            checks=[check.as_object() for check in verdict.checks],
            profile="GP-0001",
            is_standing=True,
            settled_at=run.ended_at,
            compared_at=run.ended_at,
        )
        if verdict is good:
            row.valid_until = begun + timedelta(days=30)
        if one.name == AGED:
            row.voided_at = now - timedelta(hours=1)
            row.voided_why = say("The node was started again since it was accepted.")
        rows.append(row)
    NodeAcceptance.objects.bulk_create(rows)
    open_run = _run(asked_by, OPEN, now - timedelta(minutes=1), None)
    NodeAcceptance.objects.create(run=open_run, node=Node.objects.get(host__name=OPEN))


def _run(asked_by: Any, scope: str, begun: Any, ended: Any) -> AcceptanceRun:
    run = AcceptanceRun.objects.create(
        requested_by=asked_by,
        scope=scope,
        deadline_at=begun + timedelta(minutes=15),
        ended_at=ended,
    )
    AcceptanceRun.objects.filter(pk=run.pk).update(created_at=begun)
    return run
