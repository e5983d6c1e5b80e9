"""Reads `nvidia-smi -L`: the cards of a node and the MIG devices cut from them."""

from __future__ import annotations

import re
from dataclasses import dataclass

from fleet.readings.nvidia_smi.sentences import Sentence, read_sentence
from fleet.readings.text import number_lines

GPU_LINE = re.compile(r"^GPU (\d{1,3}): (.{1,120}?) \(UUID: (GPU-[0-9A-Za-z-]{1,64})\)\s*$")
_MIG = re.compile(
    r"^\s+MIG (\S{1,32})\s+Device\s+(\d{1,3}): \(UUID: (MIG-[0-9A-Za-z/-]{1,96})\)\s*$"
)


@dataclass(frozen=True)
class MigDevice:
    """A slice of a card; it is not a GPU of the node."""

    profile: str
    index: int
    uuid: str


@dataclass(frozen=True)
class ListedGpu:
    """One card with the number that nvidia-smi gives it now; the UUID is what stays."""

    index: int
    name: str
    uuid: str
    line: int
    migs: tuple[MigDevice, ...] = ()


@dataclass(frozen=True)
class Listing:
    """All cards that answered, and the sentences in place of those that did not."""

    gpus: tuple[ListedGpu, ...]
    sentences: tuple[Sentence, ...]
    unread: tuple[int, ...]

    @property
    def complete(self) -> bool:
        """Whether every line was a card, a slice or a known sentence, and each number stands once."""
        said = bool(self.gpus or self.sentences) and not self.unread
        return said and not self.is_mixed and not self.missing

    @property
    def is_mixed(self) -> bool:
        """Whether a number stands twice, as when the answers of two nodes run into one text."""
        return len({g.index for g in self.gpus}) != len(self.gpus)

    @property
    def missing(self) -> tuple[int, ...]:
        """Numbers below the highest one that neither a card nor a sentence has."""
        known = {g.index for g in self.gpus} | {s.index for s in self.sentences}
        highest = max((g.index for g in self.gpus), default=-1)
        return tuple(n for n in range(highest) if n not in known)


def parse_listing(text: str) -> Listing:
    """Read the output of `nvidia-smi -L`."""
    gpus: list[ListedGpu] = []
    migs: dict[int, list[MigDevice]] = {}
    sentences: list[Sentence] = []
    unread: list[int] = []
    for line in number_lines(text):
        if gpu := GPU_LINE.match(line.text):
            gpus.append(ListedGpu(int(gpu[1]), gpu[2], gpu[3], line.number))
        elif (mig := _MIG.match(line.text)) and gpus:
            device = MigDevice(mig[1], int(mig[2]), mig[3])
            migs.setdefault(gpus[-1].line, []).append(device)
        elif sentence := read_sentence(line):
            sentences.append(sentence)
        elif line.text.strip():
            unread.append(line.number)
    whole = tuple(
        ListedGpu(g.index, g.name, g.uuid, g.line, tuple(migs.get(g.line, ()))) for g in gpus
    )
    return Listing(whole, tuple(sentences), tuple(unread))
