"""What was read back of a proxy, and when it was asked: from orders and the recurring scrape to the gateway's rows.

A torn answer is no data: it changes nothing and everything only grows older.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Any

from fleet.execution import states
from fleet.execution.models import Scrape
from fleet.execution.output import command_sections
from fleet.readings.haproxy import ProxyReading, ServerCounts, ServerRow, parse_exchange
from fleet.services.node_moves import rows_update
from releases.models import Endpoint, Gateway
from releases.rules.gateway import backend_name
from releases.rules.window import window_add
from releases.services.gateway_effects import scrape_key
from releases.services.rollout_triggers import window_span

_SEEN = ("seen_weight", "seen_mode", "seen_running", "seen_at")
_COUNTED = ("counted", "requests", "errors")


@dataclass(frozen=True)
class ReadBack:
    """A whole reading; the proxy was asked at `asked_at` or later, never before."""

    reading: ProxyReading
    asked_at: datetime


def read_back_newer(gateway: Gateway) -> ReadBack | None:
    """Return the newest whole read-back that is newer than the one the gateway shows, or None."""
    found = [one for one in (_of_order(gateway), _of_scrape(gateway)) if one is not None]
    newest = max(found, key=lambda one: one.asked_at, default=None)
    if newest is None or (gateway.seen_at is not None and newest.asked_at <= gateway.seen_at):
        return None
    return newest


def _of_order(gateway: Gateway) -> ReadBack | None:
    order = gateway.order
    if order is None or order.state != states.SUCCEEDED or order.sent_at is None:
        return None
    if gateway.seen_at is not None and order.sent_at <= gateway.seen_at:
        return None
    section = command_sections(order).get("body")
    return _whole(section.text if section else "", order.sent_at)


def _of_scrape(gateway: Gateway) -> ReadBack | None:
    scrape = Scrape.objects.filter(key=scrape_key(gateway)).first()
    if scrape is None or scrape.ok_at is None:
        return None
    return _whole(scrape.answer, scrape.ok_at - timedelta(milliseconds=scrape.latency_ms or 0))


def _whole(text: str, asked_at: datetime) -> ReadBack | None:
    reading = parse_exchange(text)
    return ReadBack(reading, asked_at) if reading.is_whole else None


def reading_store(gateway: Gateway, read: ReadBack) -> None:
    """Show a read-back on the gateway (not saved) and on its endpoints (saved)."""
    reading = read.reading
    window = gateway.seen.get("window", [])
    gateway.seen = {
        "servers": [asdict(row) for row in reading.servers],
        "counts": [asdict(row) for row in reading.counts],
        "shares": reading.shares,
        "unread": list(reading.unread),
    }
    gateway.seen_at = read.asked_at
    servers = {(row.backend, row.name): row for row in reading.servers}
    counts = {(row.backend, row.name): row for row in reading.counts}
    epoch = gateway.subject.epoch if gateway.subject else 0
    rows = gateway.endpoints.select_for_update(of=("self",)).select_related("launch__replica__pool")
    endpoints = list(rows.order_by("pk"))
    for endpoint in endpoints:
        replica = endpoint.launch.replica
        key = (backend_name(replica.pool.slug, endpoint.slot), replica.name)
        changes = _counted(endpoint, counts.get(key), epoch)
        if read.asked_at > endpoint.changed_at:
            changes |= _seen(servers.get(key), counts.get(key), read.asked_at)
        for name, value in changes.items():
            setattr(endpoint, name, value)
    if endpoints:
        rows_update(Endpoint, endpoints, *_COUNTED, *_SEEN)
    totals = {str(one.launch_id): (one.requests, one.errors) for one in endpoints}
    gateway.seen["window"] = window_add(window, totals, read.asked_at, window_span())


def _seen(row: ServerRow | None, count: ServerCounts | None, at: datetime) -> dict[str, Any]:
    return {
        "seen_weight": row.weight if row else None,
        "seen_mode": row.mode if row else "",
        "seen_running": count.running + count.waiting if count else None,
        "seen_at": at,
    }


def _counted(endpoint: Endpoint, count: ServerCounts | None, epoch: int) -> dict[str, Any]:
    """Add what came since the last reading; a proxy or server that began anew counts from nothing."""
    if count is None:
        return {}
    now = {"epoch": epoch, "sessions": count.sessions, "errors": count.answers_5xx}
    last = endpoint.counted
    is_anew = last.get("epoch") != epoch or any(
        now[name] < last[name] for name in ("sessions", "errors")
    )
    before = {"sessions": 0, "errors": 0} if is_anew else last
    return {
        "counted": now,
        "requests": endpoint.requests + now["sessions"] - before["sessions"],
        "errors": endpoint.errors + now["errors"] - before["errors"],
    }
