"""Sentences with which perftest fails, or says that a figure was taken in another way than asked.

Most of them stand without any table: a run that failed early prints nothing else.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from fleet.readings.text import Line

FailureKind = Literal[
    "completion_error",
    "port_down",
    "device_missing",
    "no_context",
    "connect_failed",
    "handshake_failed",
    "memory_refused",
    "queue_failed",
    "gpu_memory_failed",
    "tool_missing",
    "run_failed",
    "failed",
]
NoteKind = Literal[
    "cpu_frequency", "clock_measured", "mtu_lowered", "no_peak", "inline_off", "waiting"
]

# enum ibv_wc_status of libibverbs (infiniband/verbs.h), in the words of ibv_wc_status_str(3).
_STATUS = (
    "success",
    "local length error",
    "local QP operation error",
    "local EE context operation error",
    "local protection error",
    "work request flushed error",
    "memory management operation error",
    "bad response error",
    "local access error",
    "remote invalid request error",
    "remote access error",
    "remote operation error",
    "transport retry counter exceeded",
    "RNR retry counter exceeded",
    "local RDD violation error",
    "remote invalid RD request",
    "aborted error",
    "invalid EE context number",
    "invalid EE context state",
    "fatal error",
    "response timeout error",
    "general error",
)
_COMPLETION = re.compile(r"Completion wi?th error at (\w{1,10})|got completion with error")
_STATUS_LINE = re.compile(r"Failed status (\d{1,3})(?=\D)")
_SYNDROME = re.compile(r"syndrom\w{0,3}:? (0x[0-9a-fA-F]{1,8})\b")
# enum ibv_port_state without Active: those that the tool refuses.
_PORT = re.compile(r"Port number (\d{1,3}) state is (?:Nop|Down|Init|Armed|Active ?Defer)\b")
_NEEDLES: tuple[tuple[str, FailureKind], ...] = (
    (r"IB device \S{1,80} not found|[Uu]nable to find the Infiniband", "device_missing"),
    (r"Did not detect devices|No IB devices found|^\s*No device found", "device_missing"),
    (r"Couldn't get context for the device|Couldn't set the link layer", "no_context"),
    (r"Couldn't connect to |socket connection|Problem in resolving", "connect_failed"),
    (r"Connection refused|No route to host|Connection timed out", "connect_failed"),
    (r"Name or service not known|Failed to connect|[Uu]nexpected CM event", "connect_failed"),
    (r"[Ff]ailed to exchange |[Ff]ailed to (?:sync|close connection)", "handshake_failed"),
    (r"Couldn't read remote address|to (?:read|write) (?:to )?(?:the )?socket", "handshake_failed"),
    (r"Couldn't allocate MR|[Ff]ailed to create (?:MR|mr)|Cannot allocate", "memory_refused"),
    (r"Couldn't (?:create|get) (?:CQ|QP|PD)|to create (?:CQ|QP|PD)\b", "queue_failed"),
    (r"[Ff]ailed to modify QP|Unable to Connect the HCA", "queue_failed"),
    (r"\bcu[A-Z]\w{1,30}(?:\(\d?\))? ?(?:returned|error|failed)", "gpu_memory_failed"),
    (r"CUDA error|initialize CUDA|Couldn't init.{0,20}CUDA", "gpu_memory_failed"),
    (r"\b(?:ib_|raw_ethernet_|perftest)\w{0,20}\b.{0,60}not found", "tool_missing"),
    (r"Failed to complete \w+ function", "run_failed"),
    (r"Segmentation fault|core dumped", "run_failed"),
    (r"^\s*(?:Couldn't|Failed |Unable to |Problems? with|Cannot |Can't |[Ee]rror\b)", "failed"),
)
_FAILURES = tuple((re.compile(pattern), kind) for pattern, kind in _NEEDLES)
_NOTES: tuple[tuple[re.Pattern[str], NoteKind], ...] = (
    (re.compile(r"Conflicting CPU frequency"), "cpu_frequency"),
    (re.compile(r"differs from nominal"), "clock_measured"),
    (re.compile(r"Requested mtu is higher|Changing to active mtu"), "mtu_lowered"),
    (re.compile(r"BW peak won't be measured"), "no_peak"),
    (re.compile(r"inline feature|inline messages"), "inline_off"),
    (re.compile(r"Waiting for client to connect"), "waiting"),
)


@dataclass(frozen=True)
class Failure:
    """One sentence of failure. `status` is ibv_wc_status, `syndrome` the vendor's word."""

    kind: FailureKind
    text: str
    line: int
    status: int | None = None
    syndrome: str | None = None
    port: int | None = None

    @property
    def meaning(self) -> str | None:
        """What the status means in the words of ibv_wc_status_str(3)."""
        if self.status is None or self.status >= len(_STATUS):
            return None
        return _STATUS[self.status]


def read_failure(line: Line) -> Failure | None:
    """Return the failure that a line tells of."""
    text = line.text.strip()[:300]
    if found := _STATUS_LINE.search(line.text):
        syndrome = _SYNDROME.search(line.text)
        word = syndrome[1] if syndrome else None
        return Failure("completion_error", text, line.number, int(found[1]), word)
    if _COMPLETION.search(line.text):
        return Failure("completion_error", text, line.number)
    if found := _PORT.search(line.text):
        return Failure("port_down", text, line.number, port=int(found[1]))
    for pattern, kind in _FAILURES:
        if pattern.search(line.text):
            return Failure(kind, text, line.number)
    return None


def read_note(line: Line) -> NoteKind | None:
    """Return what a line says about how the figures were taken."""
    return next((kind for pattern, kind in _NOTES if pattern.search(line.text)), None)
