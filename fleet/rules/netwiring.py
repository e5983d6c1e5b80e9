"""Whether what a rank's NCCL lines say of its network equals the signed network matrix. Pure.

NCCL takes another network without an error: a card that is not there, the interface of containers, sockets. The lines
of every rank are compared, and the one that differs is named. Source: manual A 4.4, 4.5, 5.2.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from fleet.readings.nccl_log.wiring import CardWiring, Said
from fleet.rules.message import foreign, say

PASS, FAIL, UNKNOWN = "pass", "fail", "unknown"


@dataclass(frozen=True)
class Wired:
    """What the matrix put into the environment of a rank. An empty list or word: nothing was said."""

    hcas: frozenset[str] = frozenset()
    interface: str = ""
    gid_index: str = ""


@dataclass(frozen=True)
class Judged:
    """Whether a rank is wired as it should be; `text` names what differs and the line that says so."""

    verdict: str
    text: str = ""


def wired_from(env: Mapping[str, str]) -> Wired:
    """Read back what the matrix put into an environment (netscripts.environment_of)."""
    names = str(env.get("NCCL_IB_HCA", "")).lstrip("=").split(",")
    return Wired(
        hcas=frozenset(name.partition(":")[0] for name in names if name),
        interface=str(env.get("NCCL_SOCKET_IFNAME", "")).lstrip("="),
        gid_index=str(env.get("NCCL_IB_GID_INDEX", "")),
    )


def judge_card(wired: Wired, card: CardWiring | None) -> Judged:
    """Compare one rank with the matrix. What it did not say is not proven; a GID that it did not name is the one of
    its environment, for NCCL names it only with NCCL_DEBUG_SUBSYS=ENV.
    """
    if card is None:
        return Judged(UNKNOWN, say("it said nothing of its network: not proven"))
    if wired.hcas and card.hcas is not None and set(_names(card.hcas)) != wired.hcas:
        return _differs(
            say("cards %(n)s", n=_list(wired.hcas)), card.hcas, _list(_names(card.hcas))
        )
    wrong = [one for name, one in card.interfaces.items() if name != wired.interface]
    if wired.interface and wrong:
        return _differs(say("interface %(n)s", n=wired.interface), wrong[0])
    if wired.gid_index and card.gid is not None and card.gid.value != wired.gid_index:
        return _differs(say("GID index %(n)s", n=wired.gid_index), card.gid)
    if wired.hcas and card.hcas is None:
        return Judged(UNKNOWN, say("no line names the cards that it uses: not proven"))
    if wired.interface and not card.interfaces:
        return Judged(UNKNOWN, say("no line names the interface that it uses: not proven"))
    return Judged(PASS)


def _names(said: Said) -> list[str]:
    return [name for name in said.value.split(",") if name]


def _list(names: object) -> str:
    return ", ".join(sorted(names)) or "-"  # type: ignore[call-overload]


def _differs(wanted: str, said: Said, found: str = "") -> Judged:
    why = say(
        "%(found)s instead of %(wanted)s of the network matrix; %(line)s",
        found=foreign(found or said.value),
        wanted=wanted,
        line=line_words(said),
    )
    return Judged(FAIL, why)


def line_words(said: Said) -> str:
    """Name a line by its number and its words."""
    return say("line %(n)s: %(text)s", n=said.line, text=foreign(said.text))
