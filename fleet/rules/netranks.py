"""What the NCCL lines of each rank of a pair prove: transport, cards, interface and GID, with the line that differs.

Ranks count over the first node, then the second, as mpirun places them. Ranks that say the same are told together.
"""

from __future__ import annotations

from collections.abc import Iterator

from fleet.readings.nccl_log.wiring import CardWiring, Said, WiringReader
from fleet.rules.message import say
from fleet.rules.netscripts import GPUS, Wiring, environment_of
from fleet.rules.netwiring import FAIL, PASS, UNKNOWN, judge_card, line_words, wired_from


def judge_ranks(
    text: str, names: tuple[str, str], wirings: tuple[Wiring, Wiring] | None
) -> list[tuple[str, str]]:
    """Return (verdict, sentence) of what some rank proves otherwise; one passing sentence when none does.

    Without `wirings` only sockets and a missing GPU direct are looked for.
    """
    reader = WiringReader()
    reader.feed(enumerate(text.splitlines(), start=1))
    found = list(_ranks(reader, names, wirings))
    for verdict in (FAIL, UNKNOWN):
        if mine := [(rank, why) for rank, told, why in found if told == verdict]:
            return [(verdict, _first(mine))]
    if wirings is None:
        return []
    return [(PASS, say("All %(n)d ranks use the cards and the interface of the network matrix.",
                       n=len(found)))]  # fmt: skip


def _first(mine: list[tuple[str, str]]) -> str:
    rank, why = mine[0]
    told = say("%(rank)s: %(why)s", rank=rank, why=why)
    if len(mine) == 1:
        return told
    return say("%(first)s; so it is with %(n)d ranks", first=told, n=len(mine))


def _ranks(
    reader: WiringReader, names: tuple[str, str], wirings: tuple[Wiring, Wiring] | None
) -> Iterator[tuple[str, str, str]]:
    for at, node in enumerate(names):
        wired = wired_from(environment_of(wirings[at])) if wirings else None
        for gpu in range(GPUS):
            rank = say(
                "rank %(rank)d (%(node)s, GPU %(gpu)d)", rank=at * GPUS + gpu, node=node, gpu=gpu
            )
            card = reader.cards.get((node, gpu))
            if card is not None and (bad := _bad_transport(card)) is not None:
                yield rank, FAIL, line_words(bad)
            elif wired is not None:
                judged = judge_card(wired, card)
                yield rank, judged.verdict, judged.text


def _bad_transport(card: CardWiring) -> Said | None:
    """Return the line of a channel over sockets, or over InfiniBand without GPU direct."""
    for name, said in card.transports.items():
        if name.startswith("NET/") and not (name.startswith("NET/IB") and "GDRDMA" in name):
            return said
    return None
