"""Reads the default table of nvidia-smi: banner, cards, MIG devices, processes.

The probe does not use it; people paste it. Cells that could not be read print ERR!.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from fleet.readings.nvidia_smi.sentences import Sentence, read_sentence
from fleet.readings.text import number_lines

_VERSIONS = re.compile(
    r"(?:Driver|KMD) Version: *([0-9.]{1,24})(?: +CUDA (?:UMD )?Version: *([0-9.]{1,12}|N/A))?"
)
_HEAD = re.compile(
    r"^\|\s{1,4}(\d{1,3})\s{1,4}(\S.{0,60}?)\s+(On|Off|N/A|ERR!)\s*\|"
    r"\s*([0-9A-Fa-f:.]{8,20})\s+(On|Off|N/A|ERR!)\s*\|\s*(\S.*?)\s*\|"
)
_USE = re.compile(
    r"^\|?\s*(\S{1,8})\s+(\S{1,8})\s+(\S{1,8})\s+(\S{1,8})\s*/\s*(\S{1,8})\s*\|?"
    r"\s*(?:(\d{1,8})MiB\s*/\s*(\d{1,8})MiB|N/A|ERR!|Not Supported|Unknown Error)"
    r"\s*\|?\s*(\S{1,8})?"
)
_MIG = re.compile(r"^\|\s+(\d{1,3})\s+(\d{1,3})\s+(\d{1,3})\s+(\d{1,3})\s+\|([^|]{0,60})\|")
_BORDER = re.compile(r"^\+-{20,120}\+\s*$")
_MIB = re.compile(r"(\d{1,8})MiB\s*/\s*(\d{1,8})MiB")
_PROCESS = re.compile(
    r"^\|\s+(\d{1,3})\s+(?:N/A|\d{1,3})\s+(?:N/A|\d{1,3})\s+(\d{1,10})\s+([A-Z+]{1,4})\s+([^|]{1,60}?)"
    r"\s+(?:(\d{1,8})MiB|N/A)\s*\|"
)


@dataclass(frozen=True)
class TableGpu:
    """One card block. Numbers are None where the table prints N/A or ERR!."""

    line: int
    index: int | None
    name: str | None
    bus: str | None
    ecc: str | None
    fan: str
    temp: str
    perf: str
    power: str
    memory_used_mib: int | None
    memory_total_mib: int | None
    util_percent: int | None

    @property
    def err_fields(self) -> tuple[str, ...]:
        """Names of the cells that print ERR!."""
        cells = {"fan": self.fan, "temp": self.temp, "perf": self.perf, "power": self.power}
        failed = [name for name, cell in cells.items() if "ERR!" in cell]
        return (*failed, "ecc") if self.ecc == "ERR!" else tuple(failed)

    @property
    def ecc_uncorrected(self) -> int | None:
        """The count, or None: under MIG the column says On, which is no count."""
        return int(self.ecc) if self.ecc and re.fullmatch(r"[0-9]{1,10}", self.ecc) else None


@dataclass(frozen=True)
class TableMig:
    """One MIG device; two compute instances may share one GPU instance."""

    gpu: int
    gpu_instance: int
    compute_instance: int
    device: int
    memory_used_mib: int | None
    memory_total_mib: int | None


@dataclass(frozen=True)
class TableProcess:
    gpu: int
    pid: int
    kind: str
    name: str
    memory_mib: int | None


@dataclass(frozen=True)
class SmiTable:
    """The whole table."""

    driver: str | None
    cuda: str | None
    gpus: tuple[TableGpu, ...]
    migs: tuple[TableMig, ...]
    processes: tuple[TableProcess, ...]
    sentences: tuple[Sentence, ...]
    is_whole: bool
    is_mixed: bool = False

    @property
    def missing(self) -> tuple[int, ...]:
        """Numbers below the highest one that no card has; the tool numbers its cards without gaps."""
        known = {g.index for g in self.gpus if g.index is not None}
        return tuple(n for n in range(max(known, default=0)) if n not in known)


def is_table(text: str) -> bool:
    """Tell the table by its banner or by its column titles."""
    return "| NVIDIA-SMI" in text or ("Pwr:Usage/Cap" in text and "Fan" in text)


def parse_table(text: str) -> SmiTable:
    """Read the table, or what an excerpt left of it."""
    gpus: list[TableGpu] = []
    migs: list[TableMig] = []
    processes: list[TableProcess] = []
    sentences: list[Sentence] = []
    versions: re.Match[str] | None = None
    head: re.Match[str] | None = None
    banners, listed, ends = 0, False, False
    for line in number_lines(text):
        row = line.text[:256]
        if sentence := read_sentence(line):
            sentences.append(sentence)
        elif (found := _VERSIONS.search(row)) and versions is None:
            versions = found
        elif found := _HEAD.match(row):
            head = found
        elif found := _USE.match(row):
            gpus.append(_card(line.number, head, found))
            head = None
        elif found := _MIG.match(row):
            migs.append(_mig(found))
        elif found := _PROCESS.match(row):
            processes.append(_process(found))
        banners += "| NVIDIA-SMI" in row
        listed = listed or "| Processes:" in row
        ends = ends or (listed and _BORDER.match(row) is not None)
    return SmiTable(
        versions[1] if versions else None,
        versions[2] if versions else None,
        tuple(gpus),
        tuple(migs),
        tuple(processes),
        tuple(sentences),
        bool(versions and gpus and ends) and head is None and not _is_mixed(gpus, banners),
        _is_mixed(gpus, banners),
    )


def _is_mixed(gpus: list[TableGpu], banners: int) -> bool:
    """Tell more than one table in a text: their cards cannot be told apart."""
    numbers = [g.index for g in gpus if g.index is not None]
    return banners > 1 or len(set(numbers)) != len(numbers)


def is_border(row: str) -> bool:
    """Tell the line that closes the last part of the table; only there it has no inner corner."""
    return _BORDER.match(row) is not None


def _card(line: int, head: re.Match[str] | None, use: re.Match[str]) -> TableGpu:
    util = use[8] or ""
    return TableGpu(
        line=line,
        index=int(head[1]) if head else None,
        name=head[2] if head else None,
        bus=head[4] if head else None,
        ecc=head[6] if head else None,
        fan=use[1],
        temp=use[2],
        perf=use[3],
        power=use[4],
        memory_used_mib=int(use[6]) if use[6] else None,
        memory_total_mib=int(use[7]) if use[7] else None,
        util_percent=int(util[:-1]) if re.fullmatch(r"\d{1,3}%", util) else None,
    )


def _mig(row: re.Match[str]) -> TableMig:
    memory = _MIB.search(row[5])
    return TableMig(
        int(row[1]),
        int(row[2]),
        int(row[3]),
        int(row[4]),
        int(memory[1]) if memory else None,
        int(memory[2]) if memory else None,
    )


def _process(row: re.Match[str]) -> TableProcess:
    return TableProcess(int(row[1]), int(row[2]), row[3], row[4], int(row[5]) if row[5] else None)
