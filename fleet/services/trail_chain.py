"""Walks the seals of the trail and says how far the chain is whole."""

from __future__ import annotations

import hmac
from collections.abc import Iterator
from dataclasses import dataclass

from fleet.models import TrailEntry, TrailSeal
from fleet.services.seal import GENESIS, Anchor, anchors_read, seal_key, seal_mac


@dataclass(frozen=True)
class Verified:
    """How far the chain is whole. `problem` names the first bad row; empty when all is whole."""

    position: int
    entry_id: int | None
    unsealed: int
    problem: str = ""

    @property
    def is_whole(self) -> bool:
        return not self.problem


def trail_verify() -> Verified:
    """Recompute the whole chain and compare it with the anchors. Reads every row; memory stays constant."""
    position, entry_id, problem = 0, None, ""
    anchors = {anchor.position: anchor for anchor in anchors_read()}
    for seal, found in _walk():
        problem = _problem(seal, found, position, anchors)
        if problem:
            break
        position, entry_id = seal.position, seal.entry_id
    last = max(anchors, default=0)
    if not problem and last > position:
        problem = (
            f"position {position + 1}: the tail is cut; the anchor of "
            f"{anchors[last].at:%Y-%m-%d %H:%M} saw {last} seals, {position} are left"
        )
    unsealed = TrailEntry.objects.filter(seal__isnull=True).count()
    return Verified(position, entry_id, unsealed, problem)


def _walk() -> Iterator[tuple[TrailSeal, str]]:
    key, previous = seal_key(), GENESIS
    seals = TrailSeal.objects.select_related("entry").order_by("position")
    for seal in seals.iterator(chunk_size=1000):
        yield seal, seal_mac(key, previous, seal.entry)
        previous = seal.mac


def _problem(seal: TrailSeal, found: str, before: int, anchors: dict[int, Anchor]) -> str:
    if seal.position != before + 1:
        return f"position {before + 1}: the row is missing; the next one found is {seal.position}"
    if not hmac.compare_digest(found, seal.mac):
        return f"position {seal.position}, entry {seal.entry_id}: the row does not match its seal"
    anchor = anchors.get(seal.position)
    if anchor and not hmac.compare_digest(anchor.mac, seal.mac):
        return (
            f"position {seal.position}, entry {seal.entry_id}: the seal differs from the anchor "
            f"of {anchor.at:%Y-%m-%d %H:%M}; the chain was written anew"
        )
    return ""
