"""The node page, and the raw output of its probes. Forms on it are answered by views/acts.py."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.http import Http404, HttpRequest, HttpResponse
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy as _lazy
from django.utils.translation import ngettext
from django.views.decorators.http import require_safe

from fleet.execution.output import command_sections
from fleet.marks import CORDONED, Mark, mark_of
from fleet.models import Fact, Gpu, Hold, Pool
from fleet.readings.nvidia_smi.throttle import HARMLESS, REASON_BITS
from fleet.rules import hostkeys
from fleet.rules.history import is_uuid
from fleet.rules.message import said
from fleet.rules.policy import may
from fleet.selectors.history import node_history
from fleet.selectors.node_page import NodeSeen, neighbours, node_seen, probe_command, topology_of
from fleet.services.holds import HOST_KEY, owner_of
from fleet.services.trail import actor_of
from fleet.views.parts import render_page
from fleet.views.raw_text import raw_text
from fleet.views.topology import matrix

LONGEST_VALUE = 60
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
    before, after = neighbours(name)
    pool = seen.seat.replica.pool if seen.seat else None
    context = {
        "section": "fleet",
        "topics": [f"node-{name}"],
        "node": seen.node,
        "seen": seen,
        "seat": seen.seat,
        "marks": _marks(seen),
        "before": before,
        "after": after,
        "gpus": [_gpu(gpu, request.GET.get("gpu", "")) for gpu in seen.gpus],
        "read_at": max((gpu.observed_at for gpu in seen.gpus if gpu.observed_at), default=None),
        "topology": matrix(topology_of(seen.facts)),
        "facts": [_fact(fact, timezone.now()) for fact in seen.facts if fact.key != "topo"],
        "changes": _changes(seen.node),
        "probes": [_probe(probe) for probe in seen.probes],
        "holds": [_hold(hold, request) for hold in seen.holds],
        "hold_kinds": Hold.Kind.choices,
        "hold_spans": HOLD_SPANS,
        "key": _key(seen, request, pool),
        "may_probe": may(request.user, "probe-start", pool),
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


def _gpu(gpu: Gpu, chosen: str) -> dict[str, Any]:
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
    }


def _throttle(mask: str) -> dict[str, Any]:
    """The reasons of a mask in words, and whether one of them holds the card back; other text stays as it is."""
    try:
        bits = int(mask, 16)
    except ValueError:
        return {"words": mask, "is_bad": False}
    reasons = {reason for reason, bit in REASON_BITS.items() if bits & bit}
    words = [str(word) for reason, word in THROTTLE_WORDS.items() if reason in reasons]
    return {"words": ", ".join(words) or _("none"), "is_bad": bool(reasons - HARMLESS)}


FACT_WORDS = {
    "boot_id": _lazy("Boot"),
    "booted_at": _lazy("Booted at"),
    "clock_is_synchronised": _lazy("Clock synchronised"),
    "clock_offset": _lazy("Clock offset"),
    "containers": _lazy("Containers"),
    "cpu_count": _lazy("CPUs"),
    "docker_version": _lazy("Docker"),
    "driver_version": _lazy("GPU driver"),
    "gpu_count": _lazy("GPUs"),
    "gpu_name": _lazy("GPU model"),
    "kernel": _lazy("Kernel"),
    "memory_available": _lazy("Memory available"),
    "memory_total": _lazy("Memory"),
    "model_disk_free": _lazy("Model disk free"),
    "model_disk_total": _lazy("Model disk"),
    "models": _lazy("Models on disk"),
    "shm_total": _lazy("Shared memory"),
    "shm_used": _lazy("Shared memory used"),
}


def _changes(node: Any) -> dict[str, Any]:
    found = node_history(node)
    facts = [
        {
            "change": change,
            "word": FACT_WORDS.get(change.key, change.key),
            "before": _part_text(change.before, change.after),
            "after": _part_text(change.after, change.before),
        }
        for change in found.facts
    ]
    return {"facts": facts, "seats": found.seats}


def _part_text(value: Any, other: Any) -> str:
    """Say a value, of an object only the parts that are otherwise in the other one."""
    if not (isinstance(value, dict) and isinstance(other, dict)):
        return value_text(value)
    parts = [f"{key} {part}" for key, part in value.items() if other.get(key) != part]
    return value_text(", ".join(parts) or _("none"))


def _fact(fact: Fact, now: datetime) -> dict[str, Any]:
    is_expired = fact.expires_at <= now
    return {
        "fact": fact,
        "word": FACT_WORDS.get(fact.key, fact.key),
        "text": "" if fact.value is None else value_text(fact.value, fact.unit),
        "problem": said(fact.problem, _),
        "is_expired": is_expired,
    }


def value_text(value: Any, unit: str = "") -> str:
    """Say a value of a fact in a few words; a list or an object by its size."""
    if isinstance(value, dict | list):
        return ngettext("%(n)d value", "%(n)d values", len(value)) % {"n": len(value)}
    if isinstance(value, bool):
        return _("yes") if value else _("no")
    if unit == "B" and isinstance(value, int | float):
        return f"{value / 2**30:,.1f} GiB"
    if unit == "s" and isinstance(value, int | float):
        return _span(value)
    text = f"{value} {unit}".strip()
    return text if len(text) <= LONGEST_VALUE else f"{text[:LONGEST_VALUE]}…"


def _span(seconds: float) -> str:
    """A small span with its sign: s above 1 s, else ms (UI.md section 11)."""
    size, unit = (abs(seconds), "s") if abs(seconds) >= 1 else (abs(seconds) * 1000, "ms")
    return f"{'−' if seconds < 0 else ''}{size:.3g} {unit}"


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
