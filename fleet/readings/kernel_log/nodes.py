"""Kernel logs of many nodes in one text: lines that name theirs (pdsh, clush) or blocks (dshbak, clush -b).

Each node has a reader of its own, fed with the numbers that its lines have in the whole text. Memory is bounded by
the number of nodes, not by lines. What is true of other kinds is said in by_node.py.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

from fleet.readings.kernel_log.reader import KernelReader
from fleet.readings.kernel_log.stamps import read_stamp
from fleet.readings.text import clean_line, decode

PREFIXES, BLOCKS = "prefixes", "blocks"
# Where in the head of a block the last line stood: behind its first rule, or at its names.
_OPEN, _NAMES = "open", "names"
_HEAD_LINES = 64
_NODES_CAP = 1024
_STRAYS_CAP = 200
_FAILURES_CAP = 64
_NAMED = re.compile(rb"((?=[a-zA-Z.-]{0,62}\d)[a-zA-Z0-9][a-zA-Z0-9.-]{1,62}): ?")
_LAUNCHER = re.compile(rb"(?:pdsh@[\w.-]{1,80}|clush): ([\w.,\[\]-]{1,200}): (.{0,300})")
_RULE = re.compile(rb"-{8,80}\s*$")
_SET = re.compile(rb"([a-zA-Z0-9][\w.,\[\]-]{0,4096}?)(?: \(\d{1,5}\))?\s*$")
_PART = re.compile(r"((?:[^,\[]|\[[^\]]*\])+)")
_RANGE = re.compile(r"([^\[]*)\[([\d,-]{1,2048})\](.*)")


def nodes_form(batch: list[bytes]) -> str:
    """Tell how the first lines of a text name their nodes; empty when they do not.

    A name in front of each line is one only when a kernel's stamp stands behind it: a driver names its devices too.
    """
    head = [line for line in batch[: 4 * _HEAD_LINES] if line.strip()][:_HEAD_LINES]
    if len(head) >= 3 and _RULE.match(head[0]) and _SET.match(head[1]) and _RULE.match(head[2]):
        return BLOCKS
    lines = [line for line in head if not _LAUNCHER.match(line)]
    named = [found for line in lines if (found := _NAMED.match(line))]
    if not named or len(named) < len(lines):
        return ""
    stamped = sum(1 for found in named if _is_stamped(found.string[found.end() :]))
    return PREFIXES if 2 * stamped >= len(named) else ""


def _is_stamped(line: bytes) -> bool:
    return bool(read_stamp(clean_line(decode(line[:400]))).form)


class NodeLogs:
    """Hands each line to the reader of its node; `strays` are the first lines that name none.

    `left_out`: nodes beyond the most that are told, known once by_node() was asked.
    """

    def __init__(self, form: str) -> None:
        self.lines = 0
        self.strays: list[int] = []
        self.stray_count = 0
        self.left_out = 0
        self.failures: tuple[tuple[int, str, str], ...] = ()
        self._is_blocks = form == BLOCKS
        self._readers: dict[str, KernelReader] = {}
        self._block: str | None = None
        self._state = ""

    def feed(self, batch: list[bytes]) -> None:
        """Read the next lines, without their line ends."""
        parts: dict[str, tuple[list[bytes], list[int]]] = {}
        for name, line in self._part_blocks(batch) if self._is_blocks else self._part_named(batch):
            if name is None or (name not in self._readers and len(self._readers) >= _NODES_CAP):
                self._note_stray(line)
                continue
            self._readers.setdefault(name, KernelReader())
            lines, numbers = parts.setdefault(name, ([], []))
            lines.append(line)
            numbers.append(self.lines)
        for name, (lines, numbers) in parts.items():
            self._readers[name].feed(lines, numbers)

    def by_node(self) -> dict[str, KernelReader]:
        """Return the reader of each node; the nodes of one block share one.

        A node that stands in two blocks is there twice, as `h1` and `h1 #2`: neither may hide the other.
        """
        if not self._is_blocks:
            return self._readers
        found: dict[str, KernelReader] = {}
        times: Counter[str] = Counter()
        self.left_out = 0
        for names, reader in self._readers.items():
            for name in dict.fromkeys(_expand(names)):
                if len(found) >= _NODES_CAP:
                    self.left_out += 1
                    continue
                times[name] += 1
                found[name if times[name] == 1 else f"{name} #{times[name]}"] = reader
        return found

    def _part_named(self, batch: list[bytes]) -> Iterator[tuple[str | None, bytes]]:
        for line in batch:
            self.lines += 1
            if found := _NAMED.match(line):
                yield found[1].decode(), line[found.end() :]
            elif told := _LAUNCHER.match(line):
                if len(self.failures) < _FAILURES_CAP:
                    words = decode(told[2]).strip()
                    self.failures = (*self.failures, (self.lines, decode(told[1]), words))
            elif line.strip():
                yield None, line

    def _part_blocks(self, batch: list[bytes]) -> Iterator[tuple[str | None, bytes]]:
        """A block begins with a rule, its names and a rule."""
        for line in batch:
            self.lines += 1
            if _RULE.match(line):
                self._state = "" if self._state == _NAMES else _OPEN
            elif self._state == _OPEN and (found := _SET.match(line)):
                self._state, self._block = _NAMES, found[1].decode()
                if len(self._readers) < _NODES_CAP:
                    self._readers.setdefault(self._block, KernelReader())
            elif line.strip():
                self._state = ""
                yield self._block, line

    def _note_stray(self, line: bytes) -> None:
        self.stray_count += 1
        if len(self.strays) < _STRAYS_CAP:
            self.strays.append(self.lines)


def _expand(names: str) -> list[str]:
    """Return the nodes of a set such as `h100-[001-003,007],x1`."""
    found: list[str] = []
    for part in _PART.findall(names):
        ranged = _RANGE.fullmatch(part)
        if ranged is None:
            found.append(part)
            continue
        for word in ranged[2].split(","):
            first, _, last = word.partition("-")
            if not first.isdigit() or not (last or first).isdigit():
                continue
            stop = min(int(last or first), int(first) + _NODES_CAP)
            found += [
                f"{ranged[1]}{number:0{len(first)}d}{ranged[3]}"
                for number in range(int(first), stop + 1)
            ]
    return found or [names]
