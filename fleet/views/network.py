"""Network acceptance: the list with the form that starts a run, one run live, one pair with its evidence."""

from __future__ import annotations

from typing import Any

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST, require_safe

from fleet.execution.output import command_sections
from fleet.marks import mark_of
from fleet.models import NetPair, NetRun, TrailEntry
from fleet.rules import netrun, netverdict
from fleet.rules.message import said
from fleet.rules.policy import may
from fleet.rules.refusals import Refused
from fleet.selectors.network import (
    golden_of,
    load_of,
    loaded_pair,
    pair_seen,
    run_list,
    run_named,
    run_seen,
    rungs_of,
)
from fleet.selectors.nodes import nodes_selected
from fleet.services import net_matrix
from fleet.services import network as service
from fleet.services.trail import actor_of
from fleet.views import network_drawn as drawn
from fleet.views.pager import pager
from fleet.views.parts import render_page
from fleet.views.raw_text import raw_text

HISTORY_SHOWN = 8
NUMBER_MAX = 6


@require_safe
def network_list(request: HttpRequest) -> HttpResponse:
    """The newest runs, and the form that starts one."""
    context = {
        "section": "network",
        "topics": [net_matrix.TOPIC],
        "runs": [_run(run) for run in run_list()],
        "layers": list(drawn.LAYER_WORDS.items()),
        "bar": f"{100 * netverdict.BAR:.0f}",
        "may_start": may(request.user, "network-start"),
    }
    return render_page(
        request,
        "fleet/network_list.html",
        context,
        parts={"network-live": "fleet/_network_rows.html"},
    )


def _run(run: NetRun) -> dict[str, Any]:
    is_done = run.state == netrun.DONE
    return {
        "run": run,
        "mark": mark_of("netpair", run.verdict) if is_done else mark_of("network", run.state),
        "explanation": said(run.explanation, _),
        "layers": len(run.layers),
    }


@require_POST
def network_start(request: HttpRequest) -> HttpResponse:
    """Start a run over the nodes of the field `nodes`."""
    post = request.POST
    run = service.net_run_start(
        nodes=nodes_selected(",".join(post.getlist("nodes"))),
        layers=post.getlist("layer"),
        loop_s=60 * (_number(post.get("loop_min", "30"), _("Loop, min")) or 0),
        rounds=_number(post.get("rounds", ""), _("Rounds")),
        pairs_per_leaf=_number(post.get("per_leaf", "4"), _("Pairs a leaf at once")) or 1,
        actor=actor_of(request),
        user=request.user,
    )
    return redirect("network-run", run.public_id)


def _number(text: str, field: str) -> int | None:
    """A whole number, None for an empty field. Raises Refused."""
    text = text.strip()
    if not text:
        return None
    if not (text.isascii() and text.isdigit()) or len(text) > NUMBER_MAX:
        raise Refused(
            _("%(field)s: expected a whole number, found %(found)s.")
            % {"field": field, "found": text[:20]}
        )
    return int(text)


@require_safe
def network_run(request: HttpRequest, name: str) -> HttpResponse:
    """A run: layers, pair matrix, ranking, suspects, all pairs with their numbers."""
    run = _found(name)
    seen = run_seen(run)
    layer = request.GET.get("layer", "")
    layer = layer if layer in run.layers else ""
    pairs = drawn.pair_rows(seen, layer)
    failed = [row for row in pairs if row["is_failed"]]
    is_failed_only = request.GET.get("show") == "failed"
    context = {
        "section": "network",
        "topics": [run.topic],
        "pager": pager(NetRun.objects.only("pk"), run.pk, "network-run"),
        **_run(run),
        "seen": seen,
        "layer": layer,
        "is_open": run.state in netrun.OPEN,
        "strip": drawn.strip_drawn(seen, layer),
        "matrix": drawn.matrix_drawn(seen, layer),
        "ranking": drawn.ranking_drawn(seen),
        "suspects": drawn.suspects_drawn(seen),
        "pairs": failed if is_failed_only else pairs,
        "pairs_all": len(pairs),
        "pairs_failed": len(failed),
        "is_failed_only": is_failed_only,
        "bar": f"{100 * run.bar:.0f}",
        "golden": sorted(run.golden.items()),
        "matrices": sorted({row["matrix"] for row in run.wiring.values()}),
        "loop_min": f"{run.loop_s / 60:g}",
        "history": TrailEntry.objects.filter(
            object_kind="network", object_id=run.public_id
        ).order_by("-id")[:HISTORY_SHOWN],
        "may_cancel": may(request.user, "network-cancel"),
    }
    return render_page(
        request,
        "fleet/network_run.html",
        context,
        parts={"network-run-live": "fleet/_network_run_live.html"},
    )


@require_POST
def network_cancel(request: HttpRequest, name: str) -> HttpResponse:
    """Cancel an open run, with a reason."""
    run = _found(name)
    reason = request.POST.get("reason", "")
    service.net_run_cancel(run=run, reason=reason, actor=actor_of(request), user=request.user)
    return redirect("network-run", name)


@require_safe
def network_pair(request: HttpRequest, name: str, pk: int) -> HttpResponse:
    """One pair: its layers sentence by sentence, rails, curve, and what both nodes printed."""
    run, pair = _pair(name, pk)
    context = {
        "section": "network",
        "topics": [run.topic],
        "run": run,
        "pager": pager(
            run.pairs.select_related("a__host", "b__host").defer("curve", "rails", "layers"),
            pair.pk,
            "network-pair",
            run.public_id,
            by="pk",
        ),
        **drawn.pair_row(pair),
        "layers": drawn.layers_drawn(pair, run.layers),
        "rails": drawn.rails_drawn(pair),
        "curve": drawn.curve_drawn(pair),
        "load": drawn.load_drawn(load_of(pair), golden_of(run, pair).load, _rung_links(run, pair)),
        "evidence": _evidence(pair),
        "may_gold": may(request.user, "network-golden"),
        "is_done": pair.step == netrun.DONE,
        "gold": pair.golden_for.filter(is_current=True).first(),
    }
    return render_page(
        request,
        "fleet/network_pair.html",
        context,
        parts={"network-pair-live": "fleet/_network_pair_live.html"},
    )


def _rung_links(run: NetRun, pair: NetPair) -> dict[int, str]:
    """Return by pairs at once the page of the row that measured this point of the curve; the newest one counts."""
    rows = [*rungs_of(pair), pair if pair.kind == netrun.TOGETHER else loaded_pair(pair)]
    links = {}
    for row in rows:
        layer = (row.layers.get(netverdict.TOGETHER) or {}) if row else {}
        if row and row.pk != pair.pk and (count := layer.get("values", {}).get("at_once")):
            links[int(count)] = reverse("network-pair", args=[run.public_id, row.pk])
    return links


def _evidence(pair: NetPair) -> list[dict[str, Any]]:
    rows = []
    for step in pair.steps.all():
        command = step.collect or step.command
        node = pair.a if step.side == "a" else pair.b
        names = [part["name"] for part in command.payload.get("sections", [])] or ["out"]
        rows.append(
            {
                "step": step,
                "node": node.name,
                "mark": mark_of("command", command.state),
                "explanation": said(command.explanation, _),
                "names": names if command.is_settled else [],
            }
        )
    return rows


@require_safe
def network_raw(request: HttpRequest, name: str, pk: int, n: int, section: str) -> HttpResponse:
    """The bytes that a node printed in one step, as text that can do nothing."""
    run, pair = _pair(name, pk)
    step = next((one for one in pair.steps.all() if one.pk == n), None)
    command = step and (step.collect or step.command)
    found = command_sections(command).get(section) if command else None
    if step is None or found is None:
        raise Http404(_("This pair has no output %(section)s.") % {"section": section})
    context = {
        "section": "network",
        "run": run,
        "pair": pair,
        "step": step,
        "part": section,
        "node": (pair.a if step.side == "a" else pair.b).name,
        "command": command,
        "found": found,
        "text": raw_text(found.body),
    }
    return render_page(request, "fleet/network_raw.html", context)


@require_POST
def network_golden(request: HttpRequest, name: str, pk: int) -> HttpResponse:
    """Choose a pair as the golden one of its class and topology."""
    _run_found, pair = _pair(name, pk)
    net_matrix.golden_choose(pair=pair, actor=actor_of(request), user=request.user)
    return redirect("network-pair", name, pk)


def _found(name: str) -> NetRun:
    run = run_named(name)
    if run is None:
        raise Http404(_("No network run is called %(name)s.") % {"name": name})
    return run


def _pair(name: str, pk: int) -> tuple[NetRun, NetPair]:
    run = _found(name)
    pair = pair_seen(run, pk)
    if pair is None:
        raise Http404(_("%(run)s has no such pair.") % {"run": run})
    return run, pair
