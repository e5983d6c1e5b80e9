"""The page of one service unit. A unit is launched and ended whole; nothing here acts on a part of it."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.http import Http404, HttpRequest, HttpResponse
from django.utils import timezone
from django.utils.translation import gettext as _
from django.views.decorators.http import require_safe

from fleet.execution.models import Scrape
from fleet.marks import mark_of
from fleet.models import Member, Replica
from fleet.rules.message import said
from fleet.rules.policy import may
from fleet.views.pager import pager_by_name
from fleet.views.parts import render_page
from fleet.views.proof import FOR_DESTRUCTION, password_label
from releases.marks import launch_mark
from releases.rules import launch as rules
from releases.selectors.unit_page import (
    BARS_SHOWN,
    Generation,
    UnitSeen,
    unit_neighbours,
    unit_seen,
)
from releases.services.launches import LAUNCHABLE
from releases.views.gates import launch_gates
from releases.views.gateway_drawn import ending_drawn
from releases.views.words import ROW_WORDS


@require_safe
def replica(request: HttpRequest, name: str) -> HttpResponse:
    """A unit: state, members, generations, launch phases on one scale, what its endpoint answers."""
    seen = unit_seen(name)
    if seen is None:
        raise Http404(_("No unit is called %(name)s.") % {"name": name})
    unit, live = seen.replica, seen.live
    context = {
        "section": "replicas",
        "topics": [f"replica-{name}", *([live.topic] if live else [])],
        "replica": unit,
        "seen": seen,
        "live": live,
        "pager": pager_by_name(name, unit_neighbours, "replica"),
        "mark": mark_of("replica", unit.shown_state),
        "explanation": said(unit.explanation, _),
        "members": [_member(member) for member in seen.members],
        "generations": [_generation(row) for row in seen.generations],
        "bars": phase_bars(seen, timezone.now()),
        "endpoint": _endpoint(seen),
        "may_launch": may(request.user, "launch-create", unit.pool),
        "may_stop": may(request.user, "launch-stop", unit.pool),
        "ending": ending_drawn(live) if live else None,
        "password_label": password_label(request, FOR_DESTRUCTION),
        "refused_because": _why_not(unit),
        **launch_gates(request, live),
        "is_ending": live is not None and live.state in {rules.FREEZING, rules.STOPPING},
    }
    return render_page(
        request,
        "releases/replica.html",
        context,
        parts={"unit-live": "releases/_replica_live.html"},
    )


def _why_not(unit: Replica) -> str:
    """Say why this unit cannot be launched now, or nothing."""
    if unit.state in LAUNCHABLE:
        return ""
    return _("Already %(state)s") % {
        "state": str(mark_of("replica", unit.shown_state).word).lower()
    }


def _member(member: Member) -> dict[str, Any]:
    return {
        "member": member,
        "node": member.node,
        "mark": mark_of("node", member.node.state),
        "reach": mark_of("reach", member.node.host.reach),
        "gpus_bad": 0 < member.well < member.node.gpu_count,
    }


def _generation(row: Generation) -> dict[str, Any]:
    launch = row.launch
    end = launch.ended_at
    return {
        "launch": launch,
        "mark": launch_mark(launch),
        "nodes": " + ".join(row.nodes),
        "ran_s": (end - launch.ready_at).total_seconds() if end and launch.ready_at else None,
        "cause": said(launch.cause or (launch.explanation if end else ""), _),
    }


def phase_bars(seen: UnitSeen, now: datetime) -> dict[str, Any]:
    """Return stacked bars of the newest launches on one scale; widths are percent of the longest."""
    rows = [_bar(row, now) for row in seen.generations[:BARS_SHOWN] if row.rows]
    longest = max((bar["seconds"] for bar in rows), default=0) or 1
    for bar in rows:
        at = 0.0
        for part in bar["parts"]:
            part["x"], part["width"] = (
                round(at, 2),
                round(max(0.4, 100 * part["seconds"] / longest), 2),
            )
            at += part["width"]
    keys = {part["row"] for bar in rows for part in bar["parts"]}
    return {"rows": rows, "key": [(row, word) for row, word in ROW_WORDS.items() if row in keys]}


def _bar(row: Generation, now: datetime) -> dict[str, Any]:
    parts = [
        {
            "row": name,
            "word": ROW_WORDS[name],
            "seconds": span.seconds(now),
            "is_running": span.ended_at is None,
        }
        for name, span in row.rows.items()
    ]
    end = row.launch.ready_at or row.launch.ended_at
    return {
        "generation": row.launch.generation,
        "parts": parts,
        "seconds": sum(part["seconds"] for part in parts),
        "total_s": ((end or now) - row.launch.created_at).total_seconds(),
        "is_ready": row.launch.ready_at is not None,
    }


def _endpoint(seen: UnitSeen) -> dict[str, Any] | None:
    golden, metrics = seen.scrapes.get("golden"), seen.scrapes.get("metrics")
    if golden is None and metrics is None:
        return None
    values = metrics.values if metrics else {}
    kv = values.get("vllm:kv_cache_usage_perc")
    return {
        "golden": golden,
        "mark": _golden_mark(golden),
        "metrics": metrics,
        "running": values.get("vllm:num_requests_running"),
        "waiting": values.get("vllm:num_requests_waiting"),
        "kv_percent": None if kv is None else 100 * kv,
        "address": seen.live.plan["http"] if seen.live else None,
    }


def _golden_mark(golden: Scrape | None) -> Any:
    if golden is None or golden.tried_at is None:
        return mark_of("verdict", "unknown")
    return mark_of("verdict", "fail" if golden.misses else "pass")
