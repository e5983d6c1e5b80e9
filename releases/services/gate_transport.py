"""The transport check of a gate: what the stored log of a launch's nodes says about each of their ranks. Reads only."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

from fleet.execution.models import LogStream
from fleet.execution.streams import chunk_lines, chunks_after
from fleet.readings.nccl_log import NcclReader
from fleet.readings.nccl_log.seats import SeatTally
from fleet.readings.nccl_log.wiring import CardWiring, WiringReader
from fleet.rules.netwiring import Wired, wired_from
from releases.models import Launch, LaunchPosition
from releases.rules import gates as rules

LINES_A_NODE = 100_000  # NCCL speaks while a unit starts; what is not found in these is not proven


def transport_rows(launch: Launch, place: LaunchPosition) -> list[rules.Row]:
    """Judge the ranks of one node by the lines that the console stored of it."""
    layout = launch.plan["positions"][place.position]["layout"]
    per_node = layout["gpus_per_node"]
    plan = rules.transport_plan(launch.release.content)
    mine = range(place.position * per_node, (place.position + 1) * per_node)
    wired = _wired(launch.plan["positions"][place.position])
    judged = rules.judge_transport(plan, ranks_seen(place, per_node), mine.stop, wired)
    return judged[mine.start :]


def rank_subjects(launch: Launch, position: int) -> list[str]:
    """Return the subjects of the rows that one node of a launch must have."""
    per_node = launch.plan["positions"][position]["layout"]["gpus_per_node"]
    return [f"r{rank}" for rank in range(position * per_node, (position + 1) * per_node)]


def ranks_seen(place: LaunchPosition, per_node: int) -> list[rules.RankSeen]:
    """Read what each card of a node said about its channels; a card that said nothing is not among them."""
    stream = LogStream.objects.filter(subject=place.subject_id).first()
    reader = NcclReader()
    wiring = WiringReader()
    for chunk in _first_chunks(stream):
        lines = list(chunk_lines(chunk))
        reader.feed(line.text.encode() for line in lines)
        wiring.feed((line.number, line.text) for line in lines)
    reader.finish()
    cards = {card.card: card for card in wiring.cards.values()}
    by_card: dict[int, list[SeatTally]] = {}
    for seat in reader.table.seats.values():
        if seat.gpu is not None and seat.gpu < per_node:
            by_card.setdefault(seat.gpu, []).append(seat)
    return [_rank(place, per_node, card, seats, cards.get(card)) for card, seats in by_card.items()]


def _wired(position: Mapping[str, Any]) -> Wired | None:
    """Return what the signed network matrix said when the launch was planned; None where none was signed.

    The matrix names whole cards behind `=`; a release of old, which might still name some, does not.
    """
    words = [after for flag, after in pairwise(position["argv"]) if flag == "-e"]
    env = dict(word.split("=", 1) for word in words if "=" in word)
    return wired_from(env) if env.get("NCCL_IB_HCA", "").startswith("=") else None


def _rank(
    place: LaunchPosition,
    per_node: int,
    card: int,
    seats: list[SeatTally],
    wiring: CardWiring | None,
) -> rules.RankSeen:
    """Join what one card said under all names of its host: none of its channels may be lost."""
    transports: Counter[str] = Counter()
    for seat in seats:
        transports.update(seat.transports)
    return rules.RankSeen(
        rank=place.position * per_node + card,
        node=place.node.name,
        transports=dict(transports),
        is_complete=all(seat.is_complete for seat in seats if seat.transports or seat.begun),
        card=wiring,
    )


def _first_chunks(stream: LogStream | None):
    left = LINES_A_NODE
    for chunk in chunks_after(stream, 0) if stream else ():
        if left <= 0:
            return
        left -= chunk.line_count
        yield chunk
