"""What the gate pages show: the newest runs with their counts, one run with its rows. Reads only."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from django.db.models import Count, Q, QuerySet
from django.urls import reverse

from fleet.models import Evidence
from fleet.selectors.jump import jump_add
from fleet.selectors.scope import scope_add
from releases.models import GateRow, GateRun, Launch
from releases.rules import gates as rules

RUNS_SHOWN = 100
RUNS_OF_A_LAUNCH = 5
KINDS: dict[str, Q] = {
    "all": Q(),
    "open": ~Q(state__in=sorted(rules.ENDED)),
    "passed": Q(state=rules.PASSED),
    "failed": Q(state=rules.FAILED),
    "unproven": Q(state__in=sorted(rules.ENDED - {rules.PASSED, rules.FAILED})),
}
_ID = re.compile(r"GR-(\d{1,9})")


Key = tuple[str, str]  # (check, subject)


@dataclass(frozen=True)
class GateSeen:
    """One run with the verdict of each result that is there, and the answers that were kept at its end."""

    run: GateRun
    verdicts: dict[Key, str]
    evidence: list[Evidence]


def gate_named(public_id: str, lock: bool = False) -> GateRun | None:
    """Return the run of this public id, or None; with `lock`, its row is locked."""
    found = _ID.fullmatch(public_id)
    rows = GateRun.objects.select_related(
        "launch__replica__pool", "launch__release", "requested_by"
    )
    rows = rows.select_for_update(of=("self",)) if lock else rows
    return rows.filter(pk=int(found[1])).first() if found else None


def gate_seen(public_id: str) -> GateSeen | None:
    """Return a run with its verdicts and evidence, or None. Three queries, none of which reads an answer."""
    run = gate_named(public_id)
    if run is None:
        return None
    kept = Evidence.objects.filter(object_kind="gate", object_id=run.public_id).defer("body")
    verdicts = {
        (check, subject): verdict
        for check, subject, verdict in run.rows.values_list("check_name", "subject", "verdict")
    }
    return GateSeen(run, verdicts, list(kept.order_by("pk")))


def gate_rows(run: GateRun, keys: Iterable[Key]) -> dict[Key, GateRow]:
    """Return the rows of these results that are there, answers included. One query."""
    wanted = set(keys)
    rows = run.rows.filter(subject__in={subject for _check, subject in wanted})
    found = {(row.check_name, row.subject): row for row in rows}
    return {key: row for key, row in found.items() if key in wanted}


def gate_runs(kind: str) -> list[GateRun]:
    """Return the newest runs of a kind with `passed`, `failed` and `unproven` counts of their rows."""
    return list(_counted(GateRun.objects.filter(KINDS[kind]))[:RUNS_SHOWN])


def gate_kinds() -> dict[str, int]:
    """Count the runs of each kind, in one query."""
    counts = {name: Count("pk", filter=wanted) for name, wanted in KINDS.items() if wanted}
    return GateRun.objects.aggregate(all=Count("pk"), **counts)


def runs_of_launch(launch: Launch | None) -> list[GateRun]:
    """Return the newest runs over a launch, with their counts."""
    if launch is None:
        return []
    return list(_counted(launch.gate_runs.all())[:RUNS_OF_A_LAUNCH])


def _counted(runs: QuerySet[GateRun]) -> QuerySet[GateRun]:
    return (
        runs.select_related("launch__replica__pool", "launch__release", "requested_by")
        .annotate(
            passed=Count("rows", filter=Q(rows__verdict=rules.PASSED)),
            failed=Count("rows", filter=Q(rows__verdict=rules.FAILED)),
            unproven=Count("rows", filter=Q(rows__verdict=rules.INCONCLUSIVE)),
        )
        .order_by("-pk")
    )


def _page(found: re.Match[str]) -> str | None:
    name = f"GR-{int(found[1]):04d}"
    return reverse("gate", args=[name]) if gate_named(name) else None


scope_add("gate", gate_named, lambda run: run.launch.replica.pool.slug)
jump_add(_ID.pattern, _page)
