"""Reads `nvidia-smi topo -m`: links between cards and NICs, CPU and NUMA affinity, NIC names.

It does not know what a good node looks like; NV8 is as good as NV18 until a golden node differs.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from fleet.readings.nvidia_smi.sentences import Sentence, read_sentences
from fleet.readings.text import Line, number_lines
from fleet.readings.told import tell

# From the nearest to the farthest; the tool's own legend explains the words.
PATH_ORDER = ("PIX", "PXB", "PHB", "NODE", "SYS")
_PATH_WORDS = frozenset({*PATH_ORDER, "SOC", "PSB", "PIXB"})
_NVLINK = re.compile(r"NV\d{1,3}")
_GPU = re.compile(r"GPU\d{1,3}")
_COLUMNS_CAP = 256
_TITLES = ("GPU NUMA ID", "CPU Affinity", "NUMA Affinity")
_NIC_NAME = re.compile(r"\s*(NIC\d{1,3}):\s*(\S{1,64})\s*$")
_PROMPT = re.compile(r"^\s*[>|]\s+(?=\S)")
_INTEGER = re.compile(r"\d{1,4}", re.ASCII)
_LEGEND = re.compile(r"\s*(?:(?:NIC )?Legend:\s*$|(?:X|NV#|[A-Z]{3,4})\s{1,8}= )")
_CPU_LIST = re.compile(r"\d{1,5}(?:-\d{1,5})?(?:,\d{1,5}(?:-\d{1,5})?)*,?", re.ASCII)


@dataclass(frozen=True)
class TopoRow:
    """One row: links in the order of the header's columns, then what stands behind them."""

    name: str
    line: int
    links: tuple[str, ...]
    cpu_affinity: str | None = None
    numa_affinity: int | str | None = None
    gpu_numa_id: int | None = None


@dataclass(frozen=True)
class Topology:
    """The matrix of one node. `problems` says why `complete` is False.

    `unread` are rows that are torn, `other` are lines of no part of the tool's answer.
    """

    columns: tuple[str, ...] = ()
    titles: tuple[str, ...] = ()
    rows: tuple[TopoRow, ...] = ()
    nic_legend: Mapping[str, str] = field(default_factory=dict)
    sentences: tuple[Sentence, ...] = ()
    problems: tuple[str, ...] = ()
    header_line: int | None = None
    unread: tuple[int, ...] = ()
    other: tuple[int, ...] = ()

    @property
    def complete(self) -> bool:
        """Whether every column of the header has its whole row and nothing contradicts."""
        return bool(self.columns) and not self.problems

    @property
    def gpus(self) -> tuple[str, ...]:
        """Names of the cards in the header, or nothing when there is no matrix."""
        return tuple(c for c in self.columns if _GPU.fullmatch(c))

    @property
    def nics(self) -> tuple[str, ...]:
        """Names of the NIC columns as the header prints them."""
        return tuple(c for c in self.columns if not _GPU.fullmatch(c))

    @property
    def has_gpu_numa_column(self) -> bool:
        return "GPU NUMA ID" in self.titles

    def nic_name(self, column: str) -> str:
        """Return the RDMA device behind a column; the legend is a mapping, not an order."""
        return self.nic_legend.get(column, column)

    def row(self, name: str) -> TopoRow | None:
        return next((r for r in self.rows if r.name == name), None)

    def link(self, one: str, other: str) -> str | None:
        """Return the word between two devices, from either row; None when neither has it."""
        for name, column in ((one, other), (other, one)):
            row = self.row(name)
            if row is not None and column in self.columns:
                place = self.columns.index(column)
                if place < len(row.links):
                    return row.links[place]
        return None

    def pairs(self, ones: tuple[str, ...], others: tuple[str, ...]) -> dict[tuple[str, str], str]:
        """Return the known links between two groups of devices, each pair once."""
        found: dict[tuple[str, str], str] = {}
        for one in ones:
            for other in others:
                if one == other or (other, one) in found:
                    continue
                word = self.link(one, other)
                if word is not None:
                    found[one, other] = word
        return found

    def nearest_nics(self, gpu: str) -> tuple[str, tuple[str, ...]] | None:
        """Return the nearest class and the NIC columns in it; None when no NIC is known."""
        near: dict[str, list[str]] = {}
        for nic in self.nics:
            word = self.link(gpu, nic)
            if word is not None:
                near.setdefault(word, []).append(nic)
        for word in PATH_ORDER:
            if word in near:
                return word, tuple(near[word])
        return None


def parse_topo(text: str) -> Topology:
    """Read the first matrix of a capture; other tools' lines around it do not matter."""
    lines = [Line(n, _PROMPT.sub("", row)) for n, row in number_lines(text)]
    sentences = read_sentences(lines)
    at = next((i for i, line in enumerate(lines) if _is_header(line.text)), None)
    if at is None:
        other = tuple(_other(lines, sentences, (), ()))
        return Topology(
            sentences=sentences, problems=(tell("no matrix in this text"),), other=other
        )
    columns, titles = _read_header(lines[at].text)
    rows, torn, end = _read_rows(lines, at + 1, columns, titles)
    legend = dict(_read_legend(lines[end:]))
    problems: list[str] = [tell("line %(line)s: row torn or not understood", line=n) for n in torn]
    problems += _row_problems(columns, rows)
    problems += _legend_problems(columns, legend)
    if any(_is_header(line.text) for line in lines[end:]):
        problems.append(tell("more than one matrix in this text; only the first is read"))
    header = lines[at].number
    other = tuple(_other(lines, sentences, (header, *torn), rows))
    return Topology(
        columns,
        titles,
        rows,
        legend,
        sentences,
        tuple(problems),
        header,
        tuple(torn),
        other,
    )


def _other(
    lines: list[Line],
    sentences: tuple[Sentence, ...],
    taken: tuple[int, ...],
    rows: tuple[TopoRow, ...],
) -> Iterator[int]:
    """Number the lines that are no header, row, legend or sentence of the tool."""
    known = {*taken, *(s.line for s in sentences), *(r.line for r in rows)}
    for line in lines:
        if line.number in known or not line.text.strip():
            continue
        if not (_LEGEND.match(line.text) or _NIC_NAME.match(line.text)):
            yield line.number


def is_whole_line(text: str) -> bool:
    """Tell a line that can miss nothing at its end: a row that ends in N/A, the legend, a sentence."""
    words = text.split()
    closed = len(words) > 2 and _is_link(words[1]) and words[-1] in ("N/A", "X")
    return closed or text.rstrip().endswith("NVLinks") or bool(read_sentences([Line(1, text)]))


def _is_header(text: str) -> bool:
    words = text.split()
    if not words or len(words) > _COLUMNS_CAP or not _GPU.fullmatch(words[0]):
        return False
    return len(words) > 1 and not _is_link(words[1]) and not _INTEGER.match(words[1])


def _is_link(word: str) -> bool:
    return word == "X" or word in _PATH_WORDS or _NVLINK.fullmatch(word) is not None


def _read_header(text: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    places = sorted((text.find(t), t) for t in _TITLES if t in text)
    # "CPU Affinity" may be torn off in the middle of a word: what is left is not a device.
    devices = text[: places[0][0]] if places else text
    columns = tuple(w for w in devices.split() if w not in ("CPU", "NUMA", "Affinity"))
    return columns, tuple(t for _, t in places)


def _read_rows(
    lines: list[Line], start: int, columns: tuple[str, ...], titles: tuple[str, ...]
) -> tuple[tuple[TopoRow, ...], list[int], int]:
    """Read rows up to the legend or the next matrix; other lines may stand between."""
    rows: dict[str, TopoRow] = {}
    torn: list[int] = []
    for at in range(start, len(lines)):
        line = lines[at]
        if len(rows) == len(columns) or line.text.startswith("Legend:") or _is_header(line.text):
            return tuple(rows.values()), torn, at
        words = line.text.split()
        if not _looks_like_row(words, columns):
            continue
        row = _read_row(line, len(columns), titles)
        if row is None or row.name not in columns or row.name in rows:
            torn.append(line.number)
        else:
            rows[row.name] = row
    return tuple(rows.values()), torn, len(lines)


def _looks_like_row(words: list[str], columns: tuple[str, ...]) -> bool:
    if not words:
        return False
    return words[0] in columns or sum(_is_link(w) for w in words) >= 2


def _read_row(line: Line, width: int, titles: tuple[str, ...]) -> TopoRow | None:
    words = line.text.split()
    links = tuple(words[1 : width + 1])
    if len(links) < width or not all(_is_link(w) for w in links):
        return None
    tail = _tail_cells(line.text, width)
    if not _GPU.fullmatch(words[0]) or not titles:
        return TopoRow(words[0], line.number, links)
    cpu, numa, own = _affinities(tail, titles)
    if _is_cut(cpu, numa, own, titles):
        return None
    return TopoRow(words[0], line.number, links, cpu, _int_or_text(numa), _int_or_none(own))


def _is_cut(cpu: str | None, numa: str | None, own: str | None, titles: tuple[str, ...]) -> bool:
    """Tell a row that ends early. A cpuset leaves cells empty; a tear leaves the last ones out."""
    if "GPU NUMA ID" in titles:
        return own is None or not (own == "N/A" or _INTEGER.fullmatch(own))
    return "NUMA Affinity" in titles and cpu is not None and numa is None


def _tail_cells(text: str, width: int) -> list[str]:
    """Return the cells behind the links; TABs keep empty cells, blanks cannot."""
    if "\t" in text.strip():
        cells = [c.strip() for c in text.strip("\n").split("\t")]
        while cells and not cells[0]:
            cells.pop(0)
        return cells[width + 1 :]
    return text.split()[width + 1 :]


def _affinities(
    tail: list[str], titles: tuple[str, ...]
) -> tuple[str | None, str | None, str | None]:
    """Give each title its cell. The tool leaves an empty cell before GPU NUMA ID."""
    own = None
    if "GPU NUMA ID" in titles and (len(tail) >= 3 or (len(tail) == 2 and not _is_cpus(tail[0]))):
        own = tail.pop()
    if len(tail) >= 2:
        return tail[0] or None, tail[1] or None, own
    cell = tail[0] if tail else ""
    if _is_cpus(cell):
        return cell, None, own
    return None, cell or None, own


def _is_cpus(cell: str) -> bool:
    """Tell a CPU list from a NUMA number; a lone number cannot be told and counts as NUMA."""
    return _CPU_LIST.fullmatch(cell) is not None and _INTEGER.fullmatch(cell) is None


def _int_or_text(cell: str | None) -> int | str | None:
    if cell is None or cell == "N/A":
        return None
    return int(cell) if _INTEGER.fullmatch(cell) else cell


def _int_or_none(cell: str | None) -> int | None:
    return int(cell) if cell is not None and _INTEGER.fullmatch(cell) else None


def _read_legend(lines: list[Line]) -> Iterator[tuple[str, str]]:
    for line in lines:
        if name := _NIC_NAME.match(line.text):
            yield name[1], name[2]


def _row_problems(columns: tuple[str, ...], rows: tuple[TopoRow, ...]) -> Iterator[str]:
    missing = [c for c in columns if c not in {r.name for r in rows}]
    if missing:
        yield tell("no row for %(names)s", names=", ".join(missing[:16]))
    by_name = {r.name: r.links for r in rows}
    for i, one in enumerate(columns):
        if one in by_name and by_name[one][i] != "X":
            yield tell(
                "%(name)s: its own cell is %(cell)s, not X; columns are shifted",
                name=one,
                cell=by_name[one][i],
            )
        for j in range(i):
            other = columns[j]
            if one in by_name and other in by_name and by_name[one][j] != by_name[other][i]:
                yield tell(
                    "%(one)s to %(other)s: %(there)s one way, %(back)s the other",
                    one=one,
                    other=other,
                    there=by_name[one][j],
                    back=by_name[other][i],
                )


def _legend_problems(columns: tuple[str, ...], legend: Mapping[str, str]) -> Iterator[str]:
    """A NIC column without a name in the legend; older tools print the device itself."""
    nameless = [c for c in columns if c.startswith("NIC") and c not in legend]
    if nameless:
        yield tell("no name in the NIC legend for %(names)s", names=", ".join(nameless[:16]))
