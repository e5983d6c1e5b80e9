"""Events in NCCL's warnings and in the exceptions around them.

The first warning is the cause; what follows it on other ranks is mostly a consequence. Status 5
(flushed) never is the cause of status 12 (retries exceeded).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from fleet.readings.report import Severity


@dataclass(frozen=True)
class NcclEvent:
    """One event where it was seen. `is_echo`: other events explain it."""

    name: str
    severity: Severity
    line: int
    text: str
    host: str | None = None
    gpu: int | None = None
    said_at: str | None = None
    is_echo: bool = False
    fields: Mapping[str, Any] = field(default_factory=dict)


_ADDRESS = r"(?P<peer>[0-9A-Za-z.:_%-]{1,128}?)<(?P<port>\d{1,5})>"
_STATUS = re.compile(r"(?:status=|completion with error )(?P<status>\d{1,4})\b")
_VENDOR = re.compile(r"vendor err (?P<vendor_err>\d{1,6})(?: \((?P<direction>Send|Recv)\))?")
_PEER = re.compile(rf"(?:from peer|Connect to|to peer|remote peer) {_ADDRESS}")
_HCA = re.compile(r"\bhca (?P<hca>\w{1,64})")
_SHM = re.compile(
    r"(?P<segment>/dev/shm/nccl-\w{1,32})(?: to |[^(]{0,40}\(size )(?P<size>\d{1,15})"
)
_ERRNO = re.compile(r"\[Errno (?P<errno>\d{1,3})\] (?P<errno_text>[A-Z][A-Za-z ]{2,60})")
_ERRNO_BEHIND = re.compile(r"error: (?P<errno_text>[A-Z][A-Za-z ]{2,60}) \((?P<errno>\d{1,3})\)")
_RANK_TWICE = re.compile(r"rank (?P<rank>\d{1,6}) of (?P<nranks>\d{1,6}) ranks has already")
_FAILED = re.compile(r"failed ?: (?P<errno_text>[A-Z][A-Za-z ]{2,60})")
_VERSIONS = re.compile(r"rank (\d{1,6}) version (\d{4,6})")
_GID = re.compile(
    r"on dev (?P<hca>\w{1,64})(?::\d)?.{0,120}?local GID index (?P<gid_index>\d{1,4})"
)

_ASYNC = re.compile(
    r"(?:NET/IB : (?P<hca>\w{1,64}):\d{1,3} )?Got (?:fatal |non-fatal )?async event ?: (?P<async_event>.{1,80})"
)
_TWO_RANKS = re.compile(
    r"rank (?P<rank>\d{1,6}) and rank (?P<other_rank>\d{1,6}) both on CUDA device (?P<bus>\w{1,16})"
)

# name, severity, needles (any tells), patterns whose groups become fields
_TABLE: tuple[tuple[str, Severity, tuple[str, ...], tuple[re.Pattern[str], ...]], ...] = (
    ("ib_completion_error", "error", ("Got completion from peer", "Got completion with error"),
     (_STATUS, _VENDOR, _PEER, _HCA)),
    ("shm_full", "error", ("/dev/shm/nccl-",), (_SHM, _ERRNO_BEHIND)),
    ("no_space", "error", ("No space left on device", "[Errno 28]"), (_ERRNO,)),
    ("duplicate_rank", "error", ("has already checked in",), (_RANK_TWICE,)),
    ("nccl_version_mismatch", "error", ("Mismatched NCCL version",), ()),
    ("ibv_create_ah_failed", "error", ("ibv_create_ah failed",), ()),
    ("ib_async_fatal", "error", ("async event : port error", "async event : local catastrophic error",
     "async event : local access violation", "async event : local work queue", "async event : device fatal",
     "async event : QP fatal", "Got fatal async event", "async event: port error"), (_ASYNC,)),
    ("ib_async_event", "warn", ("async event",), (_ASYNC,)),
    ("memory_registration_failed", "error", ("ibv_reg_mr", "ibv_reg_dmabuf_mr"), ()),
    ("duplicate_gpu", "error", ("Duplicate GPU detected",), (_TWO_RANKS,)),
    ("message_truncated", "error", ("Message truncated",), ()),
    ("nvls_bind_failed", "error", ("Failed to bind NVLink SHARP", "NVLS multicast memory"), ()),
    ("watchdog_stuck", "error", ("watchdog got stuck", "Heartbeat monitor timed out",
     "watchdog thread terminated with exception"), ()),
    ("ibv_modify_qp_failed", "error", ("ibv_modify_qp failed",), (_GID,)),
    ("no_net_plugin", "error", ("Failed to initialize any NET plugin",), ()),
    ("connect_failed", "error", ("socketStartConnect: Connect to", "Connect to "),
     (_PEER, _FAILED)),
    ("verbs_failed", "error", ("Call to ibv_",), ()),
    ("no_ibverbs", "warn", ("Failed to open libibverbs",), ()),
    ("cuda_failure", "error", ("Cuda failure",), ()),
    ("ignored_setting", "warn", (", ignoring NCCL_", "ignoring ", "is not supported or fails"), ()),
    ("unhandled_error", "error", ("Test NCCL failure", "unhandled system error",
     "unhandled cuda error", "ncclSystemError", "ncclInternalError", "ncclRemoteError",
     "ncclUnhandledCudaError", "ncclInvalidUsage", "remote process exited"), ()),
)  # fmt: skip
_BY_NAME = {name: (severity, patterns) for name, severity, _, patterns in _TABLE}
_ECHOES = (
    "Failed to execute operation",
    "Connection closed by remote peer",
    "recv failed while polling",
    "Connection reset by peer",
    "failed: 2",
)


def name_event(text: str, *, is_warning: bool) -> str | None:
    """Name what a line reports; a warning that has no name is called `warning`."""
    for name, _, needles, _ in _TABLE:
        for needle in needles:
            if needle in text:
                return name
    return "warning" if is_warning else None


def read_event(
    name: str, text: str, line: int, *, host: str | None, gpu: int | None, at: str | None
) -> NcclEvent:
    """Read the fields of an event that was named."""
    severity, patterns = _BY_NAME.get(name, ("warn", ()))
    fields = _fields(name, text, patterns)
    is_echo = name == "unhandled_error" or fields.get("status") == 5
    if name == "warning":
        is_echo = any(needle in text for needle in _ECHOES)
    return NcclEvent(name, severity, line, text[:300], host, gpu, at, is_echo, fields)


def _fields(name: str, text: str, patterns: tuple[re.Pattern[str], ...]) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    for pattern in patterns:
        if found := pattern.search(text):
            fields |= {k: _number(v) for k, v in found.groupdict().items() if v is not None}
    if name == "nccl_version_mismatch":
        fields["rank_versions"] = {
            rank: spell_version(int(version)) for rank, version in _VERSIONS.findall(text)
        }
    return fields


def _number(text: str) -> int | str:
    return int(text) if text.isascii() and text.isdigit() else text


def spell_version(number: int) -> str:
    """Spell NCCL's version integer: 22705 is 2.27.5, and before 2.9 2708 is 2.7.8."""
    if number < 10_000:
        return f"{number // 1000}.{number // 100 % 10}.{number % 100}"
    return f"{number // 10_000}.{number // 100 % 100}.{number % 100}"
