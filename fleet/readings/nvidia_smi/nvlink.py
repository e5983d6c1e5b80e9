"""Reads `nvidia-smi nvlink -s`: links of each card and their rates.

A sentence in place of links is a reason, not a count: under MIG the links are unknown, not zero.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from fleet.readings.nvidia_smi.listing import GPU_LINE
from fleet.readings.nvidia_smi.sentences import Sentence, read_sentence
from fleet.readings.text import number_lines
from fleet.readings.told import tell

LINK_LINE = re.compile(
    r"^\s*Link (\d{1,3}): (?:(\d{1,6}(?:\.\d{1,6})?) GB/s|(<?[Ii]n[Aa]ctive>?))", re.ASCII
)


@dataclass(frozen=True)
class NvLink:
    """One link; `gbs` is its rate in GB/s, None while it is inactive."""

    number: int
    gbs: float | None


@dataclass(frozen=True)
class GpuLinks:
    """The links of one card; `links` is None when the tool gave a reason instead."""

    index: int
    name: str
    line: int
    links: tuple[NvLink, ...] | None
    reason: str | None = None

    @property
    def up(self) -> int | None:
        """Number of active links, None when unknown."""
        return None if self.links is None else sum(1 for link in self.links if link.gbs is not None)


@dataclass(frozen=True)
class NvLinkStatus:
    """All cards of one answer."""

    gpus: tuple[GpuLinks, ...]
    sentences: tuple[Sentence, ...]
    unread: tuple[int, ...]

    @property
    def complete(self) -> bool:
        """Whether each card has its links or a reason, and as many as the others have."""
        said = all(g.links is not None or g.reason for g in self.gpus)
        torn = self.is_mixed or self.missing or self.unread
        return bool(self.gpus) and said and not torn

    @property
    def missing(self) -> tuple[int, ...]:
        """Numbers below the highest one that no card has."""
        known = {g.index for g in self.gpus}
        return tuple(n for n in range(max(known, default=0)) if n not in known)

    @property
    def is_mixed(self) -> bool:
        """Whether a card stands twice, as when two answers run into one text."""
        return len({g.index for g in self.gpus}) != len(self.gpus)


def parse_nvlink(text: str, *, is_cut: bool = False) -> NvLinkStatus:
    """Read the link status of all cards; the links of the last one are unknown when the text is cut.

    A link that is down is printed as inactive, so a card with fewer lines than the others is cut too.
    """
    heads: list[tuple[int, str, int]] = []
    links: dict[int, list[NvLink]] = {}
    reasons: dict[int, Sentence] = {}
    stray: list[Sentence] = []
    unread: list[int] = []
    for line in number_lines(text):
        if head := GPU_LINE.match(line.text):
            heads.append((int(head[1]), head[2], line.number))
        elif (link := LINK_LINE.match(line.text)) and heads:
            gbs = float(link[2]) if link[2] else None
            links.setdefault(heads[-1][2], []).append(NvLink(int(link[1]), gbs))
        elif sentence := read_sentence(line):
            if heads and sentence.kind in ("nvlink_mig", "nvlink_inactive"):
                reasons[heads[-1][2]] = sentence
            else:
                stray.append(sentence)
        elif line.text.strip():
            unread.append(line.number)
    gpus = tuple(_card(head, links.get(head[2]), reasons.get(head[2])) for head in heads)
    most = max((len(g.links or ()) for g in gpus), default=0)
    gpus = tuple(_whole(g, most, is_cut and g is gpus[-1]) for g in gpus)
    return NvLinkStatus(gpus, tuple(stray), tuple(unread))


def _whole(gpu: GpuLinks, most: int, is_cut: bool) -> GpuLinks:
    links = gpu.links
    if links and (is_cut or len(links) < most or len({x.number for x in links}) != len(links)):
        return GpuLinks(gpu.index, gpu.name, gpu.line, None)
    return gpu


def _card(
    head: tuple[int, str, int], links: list[NvLink] | None, reason: Sentence | None
) -> GpuLinks:
    index, name, line = head
    if links is None and reason is not None and reason.kind == "nvlink_inactive":
        return GpuLinks(index, name, line, (), tell("all links are inactive"))
    if links is None:
        return GpuLinks(index, name, line, None, tell("MIG mode") if reason else None)
    return GpuLinks(index, name, line, tuple(links))
