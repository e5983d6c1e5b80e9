"""The node page, and the raw output of its probes. Forms on it are answered by views/acts.py."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from django.http import Http404, HttpRequest, HttpResponse
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy as _lazy
from django.views.decorators.http import require_safe

from fleet.execution.output import command_sections
from fleet.marks import CORDONED, Mark, mark_of
from fleet.models import Fact, Gpu, Hold, Pool
from fleet.readings.kernel_log.classes import xid_words
from fleet.readings.nvidia_smi.throttle import HARMLESS, REASON_BITS
from fleet.readings.told import sentence_of
from fleet.rules import hostkeys, xids
from fleet.rules.history import is_uuid
from fleet.rules.message import said
from fleet.rules.policy import may
from fleet.selectors.golden_page import node_gold
from fleet.selectors.node_page import NodeSeen, neighbours, node_seen, probe_command, topology_of
from fleet.services.holds import HOST_KEY, owner_of
from fleet.services.trail import actor_of
from fleet.views.acceptance_drawn import panel
from fleet.views.card_history import card_charts
from fleet.views.golden_drawn import node_card
from fleet.views.node_changes import node_changes
from fleet.views.node_facts import fact_groups, fact_rows, known, of_card
from fleet.views.node_jobs import node_jobs
from fleet.views.node_ports import port_table
from fleet.views.pager import pager_by_name
from fleet.views.parts import render_page
from fleet.views.raw_text import raw_text
from fleet.views.topology import differing, matrix

# hours that a hold may last, as a form offers them; empty is without end
HOLD_SPANS = (
    ("4", _lazy("4 h")),
    ("24", _lazy("1 day")),
    ("168", _lazy("7 days")),
    ("720", _lazy("30 days")),
    ("", _lazy("without end")),
)
THROTTLE_WORDS = {
    "gpu_idle": _lazy("idle"),
    "applications_clocks_setting": _lazy("clock setting"),
    "sw_power_cap": _lazy("power cap"),
    "hw_slowdown": _lazy("hardware slowdown"),
    "sync_boost": _lazy("sync boost"),
    "sw_thermal_slowdown": _lazy("heat, software"),
    "hw_thermal_slowdown": _lazy("heat, hardware"),
    "hw_power_brake_slowdown": _lazy("power brake"),
    "display_clocks_setting": _lazy("display clock"),
}


@require_safe
def node(request: HttpRequest, name: str) -> HttpResponse:
    """A node: cards, topology, facts with source and age, holds, host key, history."""
    seen = node_seen(name)
    if seen is None:
        raise Http404(_("No node is called %(name)s.") % {"name": name})
    profile, differences = node_gold(seen.node, seen.facts)
    pool = seen.seat.replica.pool if seen.seat else None
    now = timezone.now()
    facts = fact_rows(seen.facts, now)
    context = {
        "section": "fleet",
        "topics": [f"node-{name}", "golden"],
        "node": seen.node,
        "seen": seen,
        "seat": seen.seat,
        "marks": _marks(seen),
        "pager": pager_by_name(name, neighbours, "node"),
        "gpus": [_gpu(gpu, request.GET.get("gpu", ""), seen.facts, now) for gpu in seen.gpus],
        "read_at": max((gpu.observed_at for gpu in seen.gpus if gpu.observed_at), default=None),
        "topology": matrix(topology_of(seen.facts), differing(differences)),
        "charts": card_charts(seen.samples, request.GET.get("gpu", "")),
        "gold": node_card(seen.node, profile, differences, seen.facts) if profile else None,
        "may_take": may(request.user, "golden-take"),
        "ports": port_table(seen.facts, now),
        "facts": facts,
        "fact_groups": fact_groups(facts),
        "changes": node_changes(seen.node),
        "jobs": node_jobs(seen.node),
        "probes": [_probe(probe) for probe in seen.probes],
        "holds": [_hold(hold, request) for hold in seen.holds],
        "hold_kinds": Hold.Kind.choices,
        "hold_spans": HOLD_SPANS,
        "key": _key(seen, request, pool),
        "may_probe": may(request.user, "probe-start", pool),
        "acceptance": panel(seen.node),
        "may_accept": may(request.user, "acceptance-start", pool),
        "may_hold": may(request.user, "hold-add", pool),
        "may_key": may(request.user, "host-key", pool),
    }
    return render_page(
        request, "fleet/node.html", context, parts={"node-live": "fleet/_node_live.html"}
    )


@require_safe
def probe_raw(request: HttpRequest, name: str, pk: int, section: str) -> HttpResponse:
    """The bytes a node printed for one section of a probe, as text that can do nothing; `?download=1` saves them."""
    command = probe_command(name, pk)
    found = command_sections(command).get(section) if command else None
    if found is None:
        raise Http404(_("This probe has no section %(section)s.") % {"section": section})
    if request.GET.get("download"):
        answer = HttpResponse(found.body, content_type="text/plain; charset=utf-8")
        answer["Content-Disposition"] = f'attachment; filename="{name}-{pk}-output.txt"'
        return answer
    context = {
        "section": "fleet",
        "name": name,
        "command": command,
        "argv": _argv_of(command, section),
        "found": found,
        "part": section,
        "text": raw_text(found.body),
    }
    return render_page(request, "fleet/probe_raw.html", context)


def _argv_of(command: Any, section: str) -> list[str]:
    parts = command.payload.get("sections", [])
    return next((part["argv"] for part in parts if part.get("name") == section), [])


def _marks(seen: NodeSeen) -> list[Mark]:
    """The node's state first, then what keeps it from work."""
    node, marks = seen.node, [mark_of("node", seen.node.state)]
    if seen.holds:
        marks.append(CORDONED)
    if node.host.key_state != "pinned":
        marks.append(mark_of("key", node.host.key_state))
    if node.host.reach != "ok":
        marks.append(mark_of("reach", node.host.reach))
    return marks


def _gpu(gpu: Gpu, chosen: str, facts: Sequence[Fact], now: datetime) -> dict[str, Any]:
    used, total = gpu.memory_used_mib, gpu.memory_total_mib
    return {
        "gpu": gpu,
        "mark": mark_of("gpu", gpu.health),
        "is_chosen": chosen == str(gpu.index),
        "short_uuid": f"…{gpu.uuid[-4:]}" if gpu.uuid else "",
        "has_record": is_uuid(gpu.uuid),
        "percent": min(100, round(100 * used / total)) if used is not None and total else None,
        "explanation": said(gpu.explanation, _),
        "throttle": _throttle(gpu.throttle_reasons),
        "hbm_c": _number(of_card(known(facts, "memory_temperature", now), gpu.index)),
        "remap": _remap(gpu.index, facts, now),
        "xids": _xids(gpu.bus, known(facts, "xids", now), now),
    }


def _number(value: Any) -> float | None:
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def _remap(index: int, facts: Sequence[Fact], now: datetime) -> dict[str, Any]:
    """What became of bad rows of a card's memory: none, waiting, replaced, or no spare left."""
    failure, pending, rows = (
        of_card(known(facts, key, now), index)
        for key in ("remap_failure", "remap_pending", "remapped_uncorrectable")
    )
    if failure == "Yes":
        return {"text": _("no spare"), "tone": "t-crit"}
    if pending == "Yes":
        return {"text": _("pending"), "tone": "t-warn"}
    if failure != "No" or pending != "No":
        return {"text": "", "tone": "dim"}
    return {"text": str(rows) if rows else _("none"), "tone": "dim"}


def _xids(bus: str, found: Any, now: datetime) -> dict[str, Any]:
    """The codes that the kernel told of a card; empty when nobody read the log, or which card it is.

    A code whose time has passed is shown and no longer marked; the tip says what each one asks for.
    """
    if not bus or not isinstance(found, list):
        return {"text": "", "tone": "dim", "tip": ""}
    place = _slot(bus)
    mine = [one for one in xids.events(found, now=now) if _slot(one.bus) == place]
    told = ", ".join(dict.fromkeys(str(one.code) for one in mine))
    tone = "t-warn" if any(not one.is_over for one in mine) else "dim"
    if xids.still_open(mine, "reset", "hardware"):
        tone = "t-crit"
    tips = {
        one.code: f"{one.code}: {said(sentence_of(xid_words(one.code)), _)}. {said(one.action, _)}"
        for one in mine
    }
    return {"text": told or _("none"), "tone": tone, "tip": " ".join(tips.values())}


def _slot(bus: str) -> str:
    """A PCI address as short as the kernel writes it: 00000000:4E:00.0 is 0000:4e:00."""
    domain, _colon, rest = bus.lower().partition(":")
    return f"{domain[-4:]}:{rest.partition('.')[0]}"


def _throttle(mask: str) -> dict[str, Any]:
    """The reasons of a mask in words, and whether one of them holds the card back; other text stays as it is."""
    try:
        bits = int(mask, 16)
    except ValueError:
        return {"words": mask, "is_bad": False}
    reasons = {reason for reason, bit in REASON_BITS.items() if bits & bit}
    words = [str(word) for reason, word in THROTTLE_WORDS.items() if reason in reasons]
    return {"words": ", ".join(words) or _("none"), "is_bad": bool(reasons - HARMLESS)}


def _probe(probe: Any) -> dict[str, Any]:
    return {
        "probe": probe,
        "mark": mark_of("verdict", probe.verdict),
        "summary": said(probe.summary or probe.command.explanation, _),
        "findings": [_finding(finding) for finding in probe.findings],
        "may_cancel": probe.settled_at is None and not probe.command.cancel_requested_at,
        "parts": [part.get("name", "") for part in probe.command.payload.get("sections", [])],
    }


def _finding(finding: Any) -> dict[str, Any]:
    if not isinstance(finding, dict):
        return {"mark": mark_of("gpu", "attention"), "text": said(str(finding), _)}
    look = {"error": "failed", "warn": "attention", "info": "ok"}.get(
        finding.get("severity", ""), "unknown"
    )
    return {"mark": mark_of("gpu", look), "text": said(str(finding.get("text", "")), _)}


def _hold(hold: Hold, request: HttpRequest) -> dict[str, Any]:
    is_own = hold.owner == owner_of(actor_of(request))
    return {
        "hold": hold,
        "is_own": is_own,
        "is_key": hold.owner == HOST_KEY,
        "reason": said(hold.reason, _),
    }


def _key(seen: NodeSeen, request: HttpRequest, pool: Pool | None) -> dict[str, Any]:
    host, change = seen.node.host, seen.key_change
    may_decide = change is not None and may(request.user, "host-key-sign", pool)
    is_asker = change is not None and change.requested_by_id == request.user.pk
    return {
        "mark": mark_of("key", host.key_state),
        "pinned": hostkeys.fingerprint(host.host_key) if host.host_key else "",
        "offered": hostkeys.fingerprint(host.offered_key) if host.offered_key else "",
        "change": change,
        "wanted": hostkeys.fingerprint(change.new_key) if change else "",
        "may_sign": may_decide and not is_asker,
        "may_withdraw": may_decide,
        "is_asker": is_asker,
    }
