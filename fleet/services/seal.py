"""Seals the trail: chains committed rows by HMAC, so that an edit, a deletion or a swap shows itself.

Rows are sealed in the order in which they are seen committed, at positions 1, 2, 3 ...; a row that commits
after a higher id was sealed takes a later position, so gaps and late commits break nothing. The head is
written to an anchor file now and then, so that a cut tail shows itself too.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import secrets
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from django.conf import settings
from django.db import transaction

from fleet.doorbell import ring
from fleet.models import TrailEntry, TrailSeal

BATCH = 2000
# Commits may overtake each other by this many ids; older stragglers are found by the hourly full look.
LATE_IDS = 1000
ANCHOR_EVERY_S = 3600.0
GENESIS = "0" * 64
_TAIL_BYTES = 4096  # some forty lines


def trail_seal(*, look_at_all: bool = False) -> int:
    """Chain up to BATCH committed rows that have no seal yet; return how many. Call it alone (single_flight)."""
    with transaction.atomic():
        head = TrailSeal.objects.order_by("-position").first()
        rows = TrailEntry.objects.filter(seal__isnull=True).order_by("id")
        if head is not None and not look_at_all:
            rows = rows.filter(id__gt=head.entry_id - LATE_IDS)
        position, mac = (head.position, head.mac) if head else (0, GENESIS)
        key, seals = seal_key(), []
        for entry in rows[:BATCH]:
            position, mac = position + 1, seal_mac(key, mac, entry)
            seals.append(TrailSeal(entry=entry, position=position, mac=mac))
        TrailSeal.objects.bulk_create(seals)
        if seals:
            ring("audit")
        return len(seals)


def seal_mac(key: bytes, previous: str, entry: TrailEntry) -> str:
    """Return the HMAC-SHA256 of the previous seal and one row in canonical form."""
    return hmac.new(key, f"{previous}\n{_canonical(entry)}".encode(), hashlib.sha256).hexdigest()


def seal_key() -> bytes:
    """Return the key: SEAL_KEY, else a file of STATE_DIR that is made once, mode 0600."""
    if settings.SEAL_KEY:
        return settings.SEAL_KEY.encode()
    path = Path(settings.STATE_DIR) / "trail.key"
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return _make_key(path)


@dataclass(frozen=True)
class Anchor:
    """One line of the anchor file: the head of the chain at a moment."""

    at: datetime
    position: int
    mac: str


def anchor_path() -> Path:
    """Return the anchor file: TRAIL_ANCHOR_FILE, or one in STATE_DIR."""
    return Path(settings.TRAIL_ANCHOR_FILE or Path(settings.STATE_DIR) / "trail-anchors")


def anchors_read() -> list[Anchor]:
    """Return the anchors in order; a torn line is left out."""
    try:
        return _anchors_in(anchor_path().read_text())
    except FileNotFoundError:
        return []


def trail_anchor(now: datetime | None = None, *, every_s: float = ANCHOR_EVERY_S) -> bool:
    """Append the head of the chain to the anchor file when the last anchor is old; tell whether it did."""
    now = now or datetime.now(UTC)
    head = TrailSeal.objects.order_by("-position").first()
    last = _newest_anchor()
    if head is None or (last and (now - last.at).total_seconds() < every_s):
        return False
    if last and last.position >= head.position:
        return False
    line = f"{now.isoformat(timespec='seconds')} {head.position} {head.mac}\n"
    descriptor = os.open(anchor_path(), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(line)
        file.flush()
        os.fsync(file.fileno())
    return True


def _newest_anchor() -> Anchor | None:
    """Read the end of the file only: the tick asks every few seconds, and a line an hour adds up."""
    try:
        with anchor_path().open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - _TAIL_BYTES))
            tail = file.read().decode(errors="replace")
    except FileNotFoundError:
        return None
    whole = tail.partition("\n")[2] if size > _TAIL_BYTES else tail
    return next(reversed(_anchors_in(whole)), None)


def _anchors_in(text: str) -> list[Anchor]:
    anchors = []
    for line in text.splitlines():
        words = line.split()
        if len(words) == 3 and words[1].isdigit():
            anchors.append(Anchor(datetime.fromisoformat(words[0]), int(words[1]), words[2]))
    return anchors


def _make_key(path: Path) -> bytes:
    key = secrets.token_hex(32).encode()
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_name(f"{path.name}.{os.getpid()}")
    with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(key)
    try:
        os.link(fresh, path)  # the first of two processes wins
    except FileExistsError:
        return path.read_bytes()
    finally:
        fresh.unlink()
    return key


def _canonical(entry: TrailEntry) -> str:
    fields = {
        "id": entry.pk,
        "at": entry.at.astimezone(UTC).isoformat(timespec="microseconds"),
        "actor": entry.actor,
        "verb": entry.verb,
        "object_kind": entry.object_kind,
        "object_id": entry.object_id,
        "reason": entry.reason,
        "before": entry.before,
        "after": entry.after,
        "source": entry.source,
        "address": entry.address,
        "request_id": entry.request_id,
        "outcome": entry.outcome,
    }
    return json.dumps(fields, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
