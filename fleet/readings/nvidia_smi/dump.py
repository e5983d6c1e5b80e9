"""Reads `nvidia-smi -q`, whole or cut to sections with `-d`: a tree of keys for each card."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from fleet.readings.nvidia_smi.cells import Cell, parse_cell
from fleet.readings.nvidia_smi.sentences import Sentence, read_sentence
from fleet.readings.text import Line, number_lines

_BUS = re.compile(r"^GPU ([0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-9A-Fa-f])\s*$")
_HEAD = re.compile(
    r"^(?:Attached GPUs +:|GPU [0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-9A-Fa-f]\s*$)",
    re.M,
)
_PAIR = re.compile(r"^( *)(\S(?:.{0,100}?\S)?) *: ?(.*)$")
_KEYS_CAP = 2000


@dataclass(frozen=True)
class DumpGpu:
    """One card: keys are paths such as `ECC Errors/Volatile/SRAM Uncorrectable`."""

    bus: str
    line: int
    values: Mapping[str, str]

    @property
    def end(self) -> str:
        """The last section of the card, and its last key where no list of processes is in it."""
        last = next(reversed(tuple(self.values)), "")
        return "Processes" if last.startswith("Processes") else last

    def cell(self, path: str) -> Cell | None:
        """Return one value read as a cell; None when the section was not printed."""
        text = self.values.get(path)
        return None if text is None else parse_cell(text)


@dataclass(frozen=True)
class Dump:
    """The head of the report and its cards. `attached` counts lost cards too."""

    driver: str | None
    cuda: str | None
    attached: int | None
    gpus: tuple[DumpGpu, ...]
    sentences: tuple[Sentence, ...]

    @property
    def complete(self) -> bool:
        """Whether as many cards are printed as are attached, the last one to its end."""
        counted = self.attached is not None and len(self.gpus) == self.attached
        return counted and not self.is_last_cut and not self.is_mixed

    @property
    def is_mixed(self) -> bool:
        """Whether a card stands twice, as when two reports run into one text."""
        return len({g.bus for g in self.gpus}) != len(self.gpus)

    @property
    def is_last_cut(self) -> bool:
        """Whether the last card ends before the others do, or a full report before its processes."""
        if not self.gpus:
            return False
        last = self.gpus[-1]
        if _is_cut_inside(last):
            return True
        if "Product Name" in last.values and not any(
            k.startswith("Processes") for k in last.values
        ):
            return True
        return len({g.end for g in self.gpus}) > 1


def _is_cut_inside(gpu: DumpGpu) -> bool:
    """Tell ECC counters at the end that stop early: whatever is counted since boot is counted for ever, too."""
    if not gpu.end.startswith("ECC Errors/"):
        return False
    lists = {which: set[str]() for which in ("Volatile", "Aggregate")}
    for path in gpu.values:
        section, _, rest = path.partition("/")
        which, _, name = rest.partition("/")
        if section == "ECC Errors" and which in lists:
            lists[which].add(name)
    return bool(lists["Volatile"]) and not lists["Volatile"] <= lists["Aggregate"]


def is_dump(text: str) -> bool:
    """Tell the report by its title, or by the first card of an excerpt."""
    return "NVSMI LOG" in text or _HEAD.search(text) is not None


def parse_dump(text: str) -> Dump:
    """Read the report."""
    head: dict[str, str] = {}
    gpus: list[DumpGpu] = []
    sentences: list[Sentence] = []
    values = head
    path: list[tuple[int, str]] = []
    for line in number_lines(text):
        if bus := _BUS.match(line.text):
            values, path = {}, []
            gpus.append(DumpGpu(bus[1], line.number, values))
        # A row of the report is no sentence, and there are a thousand of them.
        elif " : " not in line.text and (sentence := read_sentence(line)):
            sentences.append(sentence)
        elif len(values) < _KEYS_CAP:
            _take(line, values, path)
    attached = head.get("Attached GPUs", "")
    return Dump(
        head.get("Driver Version") or head.get("KMD Version"),
        head.get("CUDA Version") or head.get("CUDA UMD Version"),
        int(attached) if re.fullmatch(r"\d{1,4}", attached) else None,
        tuple(gpus),
        tuple(sentences),
    )


def _take(line: Line, values: dict[str, str], path: list[tuple[int, str]]) -> None:
    """File one line under the sections that its indent puts it into."""
    text = line.text[:512].rstrip()
    bare = text.strip()
    if not bare or bare.startswith("="):
        return
    indent = len(text) - len(text.lstrip())
    while path and path[-1][0] >= indent:
        path.pop()
    if pair := _PAIR.match(text):
        values["/".join([name for _, name in path] + [pair[2]])] = pair[3].strip()
        # A key with an empty value opens a section in some releases.
        if not pair[3].strip():
            path.append((indent, pair[2]))
    else:
        path.append((indent, bare))
