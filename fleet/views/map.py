"""The fleet: map and table. Three queries each, whatever the number of nodes."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_safe

from fleet.rules.message import said
from fleet.rules.node_filter import Named, parse_filter
from fleet.rules.nodeset import NodesetError
from fleet.rules.policy import may
from fleet.selectors.fleet import NodeRow, PoolSeen, node_rows, pools_seen
from fleet.views.attention import MOST, attention_items
from fleet.views.drawing import FULL_ROWS, map_groups, pool_cards
from fleet.views.parts import render_page
from fleet.views.table import COLUMNS, SORTS, page_of, table_rows

GROUPS = ("leaf", "rack", "pool")
HEALTHS = ("failed", "attention", "unknown", "ok")  # worst first
COLOURS = ("pool", "health", "hbm", "clock")


@require_safe
def fleet_map(request: HttpRequest) -> HttpResponse:
    """Pool cards, the map, what needs attention."""
    rows, (pools, control) = node_rows(), pools_seen()
    group = _choice(request, "group", GROUPS)
    shown, problem = _filtered(rows, request.GET.get("q", ""))
    items = attention_items(rows, pools, control)
    context = {
        **_head(request, rows, pools),
        "control": control,
        "group": group,
        "color": _choice(request, "color", COLOURS),
        "q": request.GET.get("q", ""),
        "problem": problem,
        "shown": len(shown),
        "is_full": len(shown) <= FULL_ROWS,
        "groups": map_groups(shown, group),
        "cards": pool_cards(pools, rows),
        "items": items[:MOST],
        "items_left": max(0, len(items) - MOST),
    }
    return render_page(
        request, "fleet/fleet_map.html", context, parts={"fleet-live": "fleet/_fleet_live.html"}
    )


@require_safe
def fleet_table(request: HttpRequest) -> HttpResponse:
    """Every node in a row, filtered and sorted by the address; boxes choose nodes for a probe."""
    rows, (pools, _control) = node_rows(), pools_seen()
    query = request.GET.get("q", "")
    shown, problem = _filtered(rows, query)
    sort = _choice(request, "sort", tuple(SORTS))
    page, pages, number = page_of(shown, sort, request.GET.get("page", "1"))
    context = {
        **_head(request, rows, pools),
        "q": query,
        "problem": problem,
        "sort": sort,
        "columns": COLUMNS,
        "rows": table_rows(page),
        "shown": len(shown),
        "page": number,
        "pages": range(1, pages + 1),
    }
    return render_page(
        request,
        "fleet/fleet_table.html",
        context,
        parts={"table-live": "fleet/_fleet_table_rows.html"},
    )


def _choice(request: HttpRequest, name: str, known: tuple[str, ...]) -> str:
    wanted = request.GET.get(name, "")
    return wanted if wanted in known else known[0]


def _filtered(rows: list[NodeRow], text: str) -> tuple[list[NodeRow], str]:
    """Return the rows that pass the filter, or all of them and why it cannot be read."""
    if not text.strip():
        return rows, ""
    try:
        passes = parse_filter(text)
    except NodesetError as error:
        return rows, said(error.sentence, _)
    return [row for row in rows if passes(_named(row))], ""


def _named(row: NodeRow) -> Named:
    seat = row.seat
    return Named(
        row.name,
        str(row.leaf),
        row.rack,
        seat.pool if seat else "spare",
        seat.unit if seat else "",
        row.state,
        row.reach,
        row.node_class,
        next((word for word in HEALTHS if word in row.healths), "unknown"),
        row.hold,
    )


def _head(request: HttpRequest, rows: list[NodeRow], pools: list[PoolSeen]) -> dict[str, Any]:
    return {
        "section": "fleet",
        "topics": ["fleet"],
        "node_count": len(rows),
        "gpu_count": sum(row.gpu_count for row in rows),
        "leaf_count": len({row.leaf for row in rows}),
        "rack_count": len({row.rack for row in rows}),
        "unit_count": sum(len(pool.units) for pool in pools),
        "may_probe": may(request.user, "probe-start"),
        "may_accept": may(request.user, "acceptance-start"),
        "may_clear": may(request.user, "brake-clear"),
    }
