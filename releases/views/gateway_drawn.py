"""Finished words and numbers of the gateway's page. What was not read back is drawn as not known, never as zero."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import ngettext, pgettext

from fleet.execution.states import SUBJECT_LIVE
from fleet.marks import CRIT, IDLE, OK, WARN, Mark, mark_of
from fleet.rules.message import said
from releases.models import Drain, Endpoint, Gateway, Launch
from releases.selectors.gateway_page import GatewaySeen, PoolSeen, UnitSeen
from releases.selectors.gateways import is_fresh
from releases.services.drains import DEADLINE_S
from releases.services.endpoints import endpoint_agrees


def gateway_drawn(seen: GatewaySeen) -> dict[str, Any]:
    """Return head and proxy panel: how it stands, where it listens, how old the read-back is."""
    gateway = seen.gateway
    subject = gateway.subject
    return {
        "mark": _gateway_mark(gateway),
        "address": f"{gateway.host.address}:{gateway.port}",
        "explanation": said(gateway.explanation, _),
        "backends": sum(len(pool.units) for pool in seen.pools),
        "is_fresh": is_fresh(gateway.seen_at),
        "is_live": subject is not None and subject.state == SUBJECT_LIVE,
        "subject": subject,
        "reach": mark_of("reach", gateway.host.reach),
        "unread": gateway.seen.get("unread", [])[:5],
    }


def _gateway_mark(gateway: Gateway) -> Mark:
    subject = gateway.subject
    if subject is None or subject.state != SUBJECT_LIVE:
        return Mark(CRIT, "crit", _("Proxy does not run"), "down")
    if not is_fresh(gateway.seen_at):
        return Mark(WARN, "unk", _("Not read back"), "unknown")
    if gateway.differences:
        count = len(gateway.differences)
        words = ngettext("%(n)d difference", "%(n)d differences", count) % {"n": count}
        return Mark(WARN, "warn", words, "differs")
    return Mark(OK, "ok", _("Does as wanted"), "agrees")


def pool_drawn(seen: PoolSeen, *, is_chosen: bool) -> dict[str, Any]:
    """Return one line of the pools: units, what runs, what was answered, and the share of each revision."""
    units = seen.units
    serving = [unit for unit in units if _serves(unit.endpoint)]
    running = [unit.endpoint.seen_running for unit in units]
    requests = sum(unit.endpoint.requests for unit in units)
    errors = sum(unit.endpoint.errors for unit in units)
    return {
        "pool": seen.pool,
        "models": ", ".join(seen.models),
        "is_chosen": is_chosen,
        "count": len(units),
        "serving": len(serving),
        "draining": sum(1 for unit in units if unit.drain),
        "running": None if None in running or not units else sum(running),
        "requests": requests if units else None,
        "errors": errors if units else None,
        "errors_percent": 100 * errors / requests if requests else None,
        "slots": [
            {"slot": slot.slot, "release": slot.release, "percent": slot.share}
            for slot in seen.slots
        ],
        "mark": _pool_mark(len(units), len(serving)),
    }


def _serves(endpoint: Endpoint) -> bool:
    return (
        endpoint.weight > 0 and endpoint.mode == Endpoint.Mode.READY and endpoint_agrees(endpoint)
    )


def _pool_mark(count: int, serving: int) -> Mark:
    if not count:
        return Mark(IDLE, "idle", _("No units"), "empty")
    if not serving:
        return Mark(CRIT, "crit", _("Nothing serves"), "closed")
    return Mark(OK, "ok", pgettext("traffic", "Open"), "open")


def unit_drawn(seen: UnitSeen) -> dict[str, Any]:
    """Return one unit: wanted, read back, at work by the proxy and by the engine."""
    endpoint, replica = seen.endpoint, seen.endpoint.launch.replica
    values = seen.engine.values if seen.engine and not seen.engine.misses else {}
    kv = values.get("vllm:kv_cache_usage_perc")
    is_read = endpoint.seen_at is not None
    return {
        "endpoint": endpoint,
        "launch": endpoint.launch,
        "replica": replica,
        "nodes": " + ".join(seen.nodes),
        "percent": endpoint.weight,
        "agrees": endpoint_agrees(endpoint),
        "is_read": is_read,
        "is_fresh": is_fresh(endpoint.seen_at),
        "mode": mark_of("endpoint", endpoint.mode),
        "seen_mode": mark_of("endpoint", endpoint.seen_mode) if endpoint.seen_mode else None,
        "running": seen.endpoint.seen_running,
        "engine_running": values.get("vllm:num_requests_running"),
        "kv_percent": None if kv is None else 100 * kv,
        "is_down": bool(seen.row and seen.row.mode == "ready" and not seen.row.is_up),
        "mark": mark_of("replica", replica.shown_state),
        "drain": drain_drawn(seen.drain) if seen.drain else None,
        "stop_reason": said(endpoint.launch.stop_reason, _),
        "entry": said(endpoint.explanation, _),
    }


def drain_drawn(drain: Drain) -> dict[str, Any]:
    """Return a drain: its state, what it waits for, its deadline, and its proof or what was cut."""
    left = (drain.deadline_at - timezone.now()) / timedelta(seconds=1)
    return {
        "drain": drain,
        "name": drain.launch.replica.name,
        "generation": drain.launch.generation,
        "mark": mark_of("drain", drain.state),
        "explanation": said(drain.explanation, _),
        "reason": said(drain.reason, _),
        "is_open": drain.ended_at is None,
        "left_s": max(0.0, left),
        "proof": drain.proof,
    }


def ending_drawn(launch: Launch) -> dict[str, Any]:
    """Return what ending a launch does to its traffic: what is drained first, or how many are cut now.

    `running` is None when the proxy was not read lately.
    """
    endpoint = Endpoint.objects.filter(launch=launch).first()
    is_known = endpoint is not None and is_fresh(endpoint.seen_at)
    drain = launch.drains.filter(ended_at=None).first() if launch.stop_reason else None
    return {
        "is_served": endpoint is not None and launch.state == Launch.State.READY,
        "running": endpoint.seen_running if endpoint is not None and is_known else None,
        "drain": drain_drawn(drain) if drain else None,
        "reason": said(launch.stop_reason, _),
        "minutes": round(DEADLINE_S / 60),
    }


def differences_drawn(gateway: Gateway) -> list[str]:
    """Return what the proxy does otherwise than wanted, in the reader's language."""
    return [said(text, _) for text in gateway.differences]


def waiting_drawn(launch: Launch) -> dict[str, Any]:
    """Return a ready unit that is behind no gateway, and why."""
    why = _(
        "Two other releases of its pool are behind the gateway; it gets traffic when one is gone."
    )
    return {"launch": launch, "name": launch.replica.name, "why": why}
