"""The list of service units. The page of one unit is the releases app's: it shows launches."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_safe

from fleet.marks import mark_of
from fleet.rules.message import said
from fleet.selectors.replicas import UnitRow, unit_rows
from fleet.selectors.units import BROKEN, CHANGING, IN_DOUBT, RUNNING
from fleet.views.parts import render_page

KINDS = ("all", "running", "doubt", "changing", "failed", "down")


@require_safe
def replica_list(request: HttpRequest) -> HttpResponse:
    """Every unit: state, nodes, generation, since when, and why."""
    rows = unit_rows()
    wanted = request.GET.get("q", "").strip().lower()[:80]
    kind = request.GET.get("kind", "all")
    kind = kind if kind in KINDS else "all"
    shown = [row for row in rows if _passes(row, kind, wanted)]
    context = {
        "section": "replicas",
        "topics": ["fleet"],
        "q": wanted,
        "kind": kind,
        "kinds": _kinds(rows, kind),
        "count": len(rows),
        "running": sum(1 for row in rows if row.state in RUNNING),
        "doubted": sum(1 for row in rows if row.state in IN_DOUBT),
        "failed": sum(1 for row in rows if row.state in BROKEN),
        "units": [_line(row) for row in shown],
    }
    return render_page(
        request,
        "fleet/replica_list.html",
        context,
        parts={"units-live": "fleet/_replica_rows.html"},
    )


def _kind_of(row: UnitRow) -> str:
    if row.state in RUNNING:
        return "running"
    if row.state in IN_DOUBT:
        return "doubt"
    if row.state in CHANGING:
        return "changing"
    return "failed" if row.state in BROKEN else "down"


def _passes(row: UnitRow, kind: str, wanted: str) -> bool:
    text = " ".join((row.name, row.pool, row.pool_name, row.state, *row.nodes)).lower()
    return kind in {"all", _kind_of(row)} and wanted in text


def _kinds(rows: list[UnitRow], chosen: str) -> list[tuple[str, str, int]]:
    """Every kind with its count; doubt is rare, and shown only where there is one or somebody asked for it."""
    words = (
        _("All"), _("Running"), _("In doubt"), _("Changing"), _("Failed"), _("Not running"),
    )  # fmt: skip
    counts = [len(rows), *(sum(1 for row in rows if _kind_of(row) == kind) for kind in KINDS[1:])]
    kinds = zip(KINDS, words, counts, strict=True)
    return [row for row in kinds if row[2] or row[0] != "doubt" or chosen == "doubt"]


def _line(row: UnitRow) -> dict[str, object]:
    return {
        "row": row,
        "mark": mark_of("replica", row.state),
        "nodes": " + ".join(row.nodes),
        "explanation": said(row.explanation, _),
    }
