"""Reads `lsblk` as tree, pairs or JSON, and the file systems of `df` in the same capture.

Snap loops come first and are no disks; an empty MOUNTPOINT leaves a hole in the middle of a row. Without a TYPE
column (-f, -o) what a device is follows from its name, as the kernel gives it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from fleet.readings.fabric.disk_free import FileSystem, is_df_head, read_df_row
from fleet.readings.fabric.sentences import read_tool_sentence
from fleet.readings.text import Line, number_lines

_TYPES = (
    "disk", "part", "loop", "lvm", "crypt", "rom", "raid0", "raid1", "raid5", "raid6", "raid10",
    "md", "mpath", "dm", "swap",
)  # fmt: skip
_TREE = re.compile(
    rf"^[\s│├└─|`-]*([\w/][\w/.:!+@-]{{0,63}})\s+(.{{0,120}}?)\b({'|'.join(_TYPES)})\b(.*)$"
)
_NAME = re.compile(r"[\w/][\w/.:!+@-]{0,63}")
_GLYPHS = " \t│├└─|`-"
_SIZE = re.compile(r"(\d{1,6}(?:[.,]\d{1,3})?[BKMGTPE]|\d{1,19})\s*$", re.ASCII)
_DEFAULT_COLUMNS = re.compile(r"\d{1,4}:\d{1,7}\s+[01]\s+(\S{1,24})\s+[01]\s*$", re.ASCII)
_PAIRS = re.compile(r'([A-Z:%-]{2,24})="([^"]{0,256})"')
_JSON = re.compile(r'\{\s*"blockdevices"')
_PROMPT = re.compile(r"[$#>] (?:sudo )?(?:lsblk|df)\b|^\s*(?:lsblk|df)(?: -\S{1,16})*\s*$")
# Titles under which words with blanks stand.
_WORDY = frozenset(("MODEL", "LABEL", "PARTLABEL", "VENDOR", "MOUNTPOINT", "MOUNTPOINTS"))
_TITLE = re.compile(r"[A-Z][A-Z0-9:%-]{1,23}")
_COMMON = frozenset(
    (
        "TYPE",
        "SIZE",
        "FSTYPE",
        "MOUNTPOINT",
        "MOUNTPOINTS",
        "MAJ:MIN",
        "MODEL",
        "UUID",
        "ROTA",
        "TRAN",
        "SERIAL",
    )
)
_KERNEL_NAMES = (
    (re.compile(r"nvme\d{1,4}n\d{1,4}|(?:sd|hd|vd|xvd)[a-z]{1,4}"), "disk"),
    (re.compile(r"nvme\d{1,4}n\d{1,4}p\d{1,4}|(?:sd|hd|vd|xvd)[a-z]{1,4}\d{1,4}"), "part"),
    (re.compile(r"loop\d{1,4}(?:p\d{1,3})?"), "loop"),
    (re.compile(r"sr\d{1,3}"), "rom"),
)
_DEPTH_CAP = 16
_ROWS_CAP = 4096


@dataclass(frozen=True)
class BlockDevice:
    """One device; `size` is as printed, in bytes with -b and with a unit without. `path`: as printed."""

    name: str
    kind: str
    size: str | None
    mountpoint: str | None
    fstype: str | None
    line: int
    path: str = ""
    used_percent: int | None = None

    @property
    def can_fill(self) -> bool:
        """Whether being full is a fault: images such as snaps are always full."""
        return self.kind not in ("loop", "rom") and self.fstype not in ("squashfs", "iso9660")

    @property
    def is_nvme(self) -> bool:
        return self.kind == "disk" and self.name.startswith("nvme")

    @property
    def size_bytes(self) -> int | None:
        """The size when it was asked for in bytes; a rounded one is not made into bytes."""
        return int(self.size) if self.size and self.size.isdecimal() else None


@dataclass(frozen=True)
class Storage:
    """What a capture tells of disks and file systems. `is_headless`: rows came before any titles."""

    devices: tuple[BlockDevice, ...] = ()
    file_systems: tuple[FileSystem, ...] = ()
    is_broken: bool = False
    unread: tuple[int, ...] = ()
    is_headless: bool = False

    @property
    def disks(self) -> tuple[BlockDevice, ...]:
        """Entries of type disk, without parts and loops; a stick without a medium has size 0."""
        return tuple(d for d in self.devices if d.kind == "disk")

    @property
    def is_mixed(self) -> bool:
        """Whether a disk or a mount stands twice, as when the answers of two nodes run into one text."""
        disks = [d.name for d in self.disks]
        mounts = [(f.mountpoint, f.counts_inodes) for f in self.file_systems]
        return len(set(disks)) != len(disks) or len(set(mounts)) != len(mounts)

    @property
    def complete(self) -> bool:
        """Whether every line was understood and stood below its titles."""
        any_rows = bool(self.devices or self.file_systems)
        torn = self.is_broken or self.unread or self.is_headless or self.is_mixed
        return any_rows and not torn


@dataclass
class _Rows:
    """What the lines read so far gave."""

    devices: list[BlockDevice] = field(default_factory=list)
    systems: list[FileSystem] = field(default_factory=list)
    unread: list[int] = field(default_factory=list)
    tree_head: str = ""
    df_head: str = ""
    wrapped: tuple[str, int] = ("", 0)
    is_headless: bool = False


def parse_storage(text: str) -> Storage:
    """Read any of the forms; several may stand in one capture."""
    start = _JSON.search(text)
    if start is None:
        return _parse_lines(number_lines(text))
    devices, end = _read_json(text, start.start())
    if devices is None:
        return Storage(is_broken=True, unread=(text.count("\n", 0, start.start()) + 1,))
    # Line numbers stay those of the whole text; the rest of the line of the last bracket is empty.
    first, last = text.count("\n", 0, start.start()), text.count("\n", 0, end)
    others = [n for n in number_lines(text) if n.number <= first or n.number > last + 1]
    beside = _parse_lines(others)
    line = first + 1
    return replace(beside, devices=(*(replace(d, line=line) for d in devices), *beside.devices))


def _parse_lines(lines: list[Line]) -> Storage:
    rows = _Rows()
    for line in lines[:_ROWS_CAP]:
        _take(line, rows)
    if rows.wrapped[0]:
        rows.unread.append(rows.wrapped[1])
    unread = tuple(sorted(rows.unread + [line.number for line in lines[_ROWS_CAP:]]))
    return Storage(tuple(rows.devices), tuple(rows.systems), False, unread, rows.is_headless)


def _take(line: Line, rows: _Rows) -> None:
    """File one line: titles, a row of either tool, or what is not understood."""
    row = line.text[:1024].rstrip()
    wrapped, at = rows.wrapped
    rows.wrapped = ("", 0)
    if is_df_head(row):
        rows.df_head = row
    elif _is_tree_head(row):
        rows.tree_head = row
    elif system := read_df_row(row, line.number, rows.df_head, wrapped):
        rows.systems.append(system)
        rows.is_headless = rows.is_headless or not rows.df_head
        return
    elif device := _pairs(line):
        rows.devices.append(device)
    elif _goes_on(row, rows):
        rows.devices[-1] = _with_rest(rows.devices[-1], row)
    elif device := _tree(line, rows.tree_head):
        rows.devices.append(device)
        rows.is_headless = rows.is_headless or not rows.tree_head
    elif rows.df_head and row and not row[0].isspace() and len(row.split()) == 1:
        rows.wrapped = (row, line.number)
    elif not (_is_heading(row) or _is_mount_of(row, rows.devices) or read_tool_sentence(line)):
        rows.unread.append(line.number)
    if wrapped:
        rows.unread.append(at)


def _is_tree_head(row: str) -> bool:
    words = row.split()
    titled = len(words) > 1 and words[0] == "NAME" and all(map(_TITLE.fullmatch, words))
    return titled and bool(_COMMON & set(words))


def _goes_on(row: str, rows: _Rows) -> bool:
    """Tell the rest of a row whose name was too long: lsblk -f puts it below, behind blanks and without a branch."""
    is_rest = row[:1].isspace() and not set(row[: len(row) - len(row.lstrip(_GLYPHS))]) - {
        " ",
        "\t",
    }
    head = rows.tree_head.split()
    return (
        is_rest
        and bool(rows.devices)
        and bool(head)
        and "TYPE" not in head
        and len(row.split()) > 1
    )


def _with_rest(device: BlockDevice, row: str) -> BlockDevice:
    words = row.split()
    mount = words[-1] if words[-1].startswith(("/", "[")) else None
    used = next((int(w[:-1]) for w in words if re.fullmatch(r"[0-9]{1,3}%", w)), None)
    return replace(device, fstype=words[0][:32], mountpoint=mount, used_percent=used)


def _is_heading(row: str) -> bool:
    return not row.strip() or row.rstrip().endswith(":") or _PROMPT.search(row) is not None


def _is_mount_of(row: str, devices: list[BlockDevice]) -> bool:
    """A device with several mounts prints the others on lines of their own."""
    words = row.strip(_GLYPHS).split()
    return bool(devices) and len(words) == 1 and row[:1] in _GLYPHS and row.lstrip()[0] in "/[│"


def _tree(line: Line, head: str) -> BlockDevice | None:
    row = line.text[:1024]
    if head and (cells := _by_titles(row, head)) is not None:
        return _device(cells, line.number)
    found = _TREE.match(row)
    if found is None:
        return None
    default = _DEFAULT_COLUMNS.search(found[2])
    size = default or _SIZE.search(found[2].rstrip())
    words = found[4].split()
    mounts = [w for w in words if w.startswith(("/", "["))]
    types = [
        w for w in words if w not in mounts and not head.endswith(("MOUNTPOINT", "MOUNTPOINTS"))
    ]
    cells = {"NAME": found[1], "TYPE": found[3], "SIZE": size[1] if size else ""}
    cells |= {"MOUNTPOINT": mounts[0] if mounts else "", "FSTYPE": types[0] if types else ""}
    return _device(cells, line.number)


def _by_titles(row: str, head: str) -> dict[str, str] | None:
    """Give each title the words below it; None when the row does not stand in the head's columns."""
    titles = [(m.start(), m.end(), m[0]) for m in re.finditer(r"\S+", head)]
    cells: dict[str, str] = {}
    for word in re.finditer(r"\S+", row):
        name = word[0].lstrip(_GLYPHS)
        if not name:
            continue
        if not cells:
            if _NAME.fullmatch(name) is None:
                return None
            cells["NAME"] = name
            continue
        below = [t for start, end, t in titles if word.start() < end and word.end() > start]
        if not below:
            # The second word of a model or a label stands beside its title.
            left = [t for start, _, t in titles if start < word.start()][-1:]
            below = left if left and left[0] in _WORDY and left[0] in cells else []
        if len(below) != 1 or below[0] == "NAME":
            return None
        cells[below[0]] = f"{cells[below[0]]} {word[0]}" if below[0] in cells else word[0]
    if "TYPE" not in head.split() and cells:
        cells["TYPE"] = _kind_by_name(cells["NAME"])
    elif cells.get("TYPE") not in _TYPES:
        return None
    return cells if _SIZE.fullmatch(cells.get("SIZE", "0")) else None


def _kind_by_name(name: str) -> str:
    """Return what the kernel calls so; empty for names that people give, as of volumes."""
    bare = name.rsplit("/", 1)[-1]
    return next((kind for form, kind in _KERNEL_NAMES if form.fullmatch(bare)), "")


def _pairs(line: Line) -> BlockDevice | None:
    told = {name: value.strip() for name, value in _PAIRS.findall(line.text[:2048])}
    if len(told) < 2 or not told.get("NAME"):
        return None
    return _device({"TYPE": _kind_by_name(told["NAME"]), **told}, line.number)


def _device(cells: dict[str, str], line: int) -> BlockDevice:
    mount = cells.get("MOUNTPOINT") or cells.get("MOUNTPOINTS")
    return BlockDevice(
        cells["NAME"].rsplit("/", 1)[-1],
        cells["TYPE"],
        cells.get("SIZE") or None,
        mount or None,
        cells.get("FSTYPE") or None,
        line,
        cells["NAME"],
        _percent(cells.get("FSUSE%")),
    )


def _percent(word: Any) -> int | None:
    found = re.fullmatch(r"([0-9]{1,3})%", word) if isinstance(word, str) else None
    return int(found[1]) if found else None


def _read_json(text: str, start: int) -> tuple[list[BlockDevice] | None, int]:
    """Read the object at a place of the text; None when it is cut or not lsblk's."""
    try:
        found, end = json.JSONDecoder().raw_decode(text, start)
        return list(_json_devices(found["blockdevices"], 0))[:_ROWS_CAP], end
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None, start


def _json_devices(rows: list[dict[str, Any]], depth: int) -> Iterator[BlockDevice]:
    for row in rows if depth < _DEPTH_CAP else ():
        size, kind = row.get("size"), row.get("fstype")
        mounts = [row.get("mountpoint"), *(row.get("mountpoints") or [])]
        mount = next((m for m in mounts if m is not None), None)
        yield BlockDevice(
            str(row["name"]).rsplit("/", 1)[-1][:64],
            str(row.get("type") or _kind_by_name(str(row["name"])))[:16],
            None if size is None else str(size)[:24],
            None if mount is None else str(mount)[:255],
            None if kind is None else str(kind)[:32],
            1,
            str(row["name"])[:255],
            _percent(row.get("fsuse%")),
        )
        yield from _json_devices(row.get("children") or [], depth + 1)
