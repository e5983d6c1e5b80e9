"""What `lsblk` and `df` say: whether a node has local NVMe, and whether a file system is full."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from fleet.readings.fabric.blocks import Storage
from fleet.readings.fabric.disk_free import FileSystem
from fleet.readings.report import Finding, Report, Severity, lead, open_end, verdict_of
from fleet.readings.told import tell

_FULL_PERCENT, _NEARLY_FULL_PERCENT = 99, 90
# What a container gets when nobody asks for more; NCCL and the engine's workers need more.
_SMALL_SHM = re.compile(r"(?:64M|64Mi|65536|67108864)")


def report_storage(storage: Storage, cut: int | None, more: tuple[Finding, ...]) -> Report:
    """Judge a capture of either tool or both; `cut` is the last line when no line feed ends it."""
    disks = [d for d in storage.disks if d.size not in ("0", "0B")]
    nvme = [d for d in disks if d.is_nvme]
    whole = storage.complete and cut is None
    findings = (*open_end(cut), *more, *_findings(storage, whole))
    good = whole and not [f for f in findings if f.severity != "info"]
    summary = tell("%(all)s disks, %(nvme)s of them NVMe.", all=len(disks), nvme=len(nvme))
    if not storage.devices:
        summary = tell("%(all)s file systems.", all=len(storage.file_systems))
    return Report(
        "fabric",
        "storage",
        whole,
        verdict_of(findings, known_good=good),
        lead(findings, summary),
        findings,
        _values(storage),
        storage.unread,
    )


def _findings(storage: Storage, whole: bool) -> Iterator[Finding]:
    if storage.is_broken:
        yield Finding("incomplete", "warn", tell("the JSON is cut or not lsblk's"), storage.unread)
    elif storage.is_headless:
        text = tell("rows without titles: the beginning may be cut")
        yield Finding("incomplete", "warn", text)
    if storage.is_mixed:
        text = tell(
            "a disk or a mount stands twice: the answers of more than one node in this text"
        )
        yield Finding("mixed", "warn", text)
    # Of a text that is cut the disk may be missing, not of the node.
    if storage.devices and not any(d.is_nvme for d in storage.disks) and not storage.is_broken:
        text = tell("no local NVMe disk among the block devices")
        lines = tuple(d.line for d in storage.disks)
        # Neither is a list of one volume that somebody asked for.
        yield Finding("no_nvme", "error" if whole and lines else "warn", text, lines)
    for system in storage.file_systems:
        yield from _full(system)
    for device in storage.devices:
        if device.used_percent is not None and device.mountpoint and device.can_fill:
            yield from _use(device.mountpoint, device.used_percent, tell("space"), device.line)


def _full(system: FileSystem) -> Iterator[Finding]:
    space = tell("inodes") if system.counts_inodes else tell("space")
    for used, what in ((system.used_percent, space), (system.inodes_percent, tell("inodes"))):
        # A row without its device may be an image, which is always full, or a disk: neither is known.
        if used is not None and (system.can_fill or not system.source):
            yield from _use(system.mountpoint, used, what, system.line, is_known=system.can_fill)
    if system.mountpoint == "/dev/shm" and _SMALL_SHM.fullmatch(system.size or ""):
        text = tell(
            "/dev/shm has %(size)s, a container's default: too small for several GPUs",
            size=system.size,
        )
        yield Finding("dev_shm_small", "warn", text, (system.line,))


def _use(
    mount: str, used: int, what: str, line: int, *, is_known: bool = True
) -> Iterator[Finding]:
    if used >= _NEARLY_FULL_PERCENT:
        text = tell(
            "%(mount)s has %(used)s %% of its %(what)s in use", mount=mount, used=used, what=what
        )
        severity: Severity = "error" if used >= _FULL_PERCENT and is_known else "warn"
        yield Finding("disk_full", severity, text, (line,))


def _values(storage: Storage) -> dict[str, Any]:
    disks = storage.disks
    nvme = [d for d in disks if d.is_nvme]
    space = [f for f in storage.file_systems if not f.counts_inodes]
    shm = next((f for f in space if f.mountpoint == "/dev/shm"), None)
    told = bool(storage.devices) and not storage.is_mixed
    sizes = [d.size_bytes for d in nvme]
    loops = {re.sub(r"[0-9]+$", "N", d.path) for d in storage.devices if d.kind == "loop"}
    return {
        "disks": len(disks) if told else None,
        "nvme_disks": len(nvme) if told else None,
        "nvme_capacity_bytes": sum(s or 0 for s in sizes) if told and None not in sizes else None,
        "disk_names": [d.name for d in disks],
        "disk_sizes": {d.name: d.size for d in disks},
        "empty_disks": [d.name for d in disks if d.size in ("0", "0B")],
        "types": list(dict.fromkeys(d.kind for d in storage.devices if d.kind)),
        "loop_prefix": next(iter(loops)) if len(loops) == 1 else None,
        "mounts": {d.mountpoint: d.name for d in storage.devices if d.mountpoint},
        "file_systems": len(space) if space and not storage.is_mixed else None,
        "used_pct": {f.mountpoint: f.used_percent for f in space},
        "size": {f.mountpoint: f.size for f in space},
        "avail": {f.mountpoint: f.available for f in space},
        "dev_shm_size": shm.size if shm else None,
        "dev_shm_used_pct": shm.used_percent if shm else None,
    }
