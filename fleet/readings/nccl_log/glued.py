"""Takes lines apart into which several processes wrote without a line end between."""

from __future__ import annotations

import re
from collections.abc import Iterable

_NEXT_SEAT = re.compile(r"([^\s\[\]:]{1,128}):\d{1,10}:\d{1,10} \[\d{1,4}\] (?:\S{1,80} )?NCCL ")
_TRANSPORT = re.compile(
    r"\S*?(?:P2P/CUMEM(?:/read)?|P2P/IPC(?:/read)?|P2P/direct pointer(?:/read)?|SHM/direct/direct"
    r"|NET/\w{1,16}/\d{1,3}(?:/GDRDMA)?)"
)


def split_glued(text: str, hosts: Iterable[str]) -> list[str]:
    """Cut a line before each further seat; `hosts` are the names known so far.

    Nothing stands between a message and the host name behind it, so a known host decides, then a
    known transport, else the whole word is taken for the host.
    """
    known = sorted((h for h in hosts if h), key=len, reverse=True)
    parts: list[str] = []
    start = 0
    for seat in _NEXT_SEAT.finditer(text, max(text.find(" NCCL "), 0)):
        cut = seat.start(1) + _host_offset(seat[1], known)
        if cut > start:
            parts.append(text[start:cut])
            start = cut
    return [*parts, text[start:]]


def _host_offset(word: str, known: list[str]) -> int:
    for host in known:
        if word.endswith(host):
            return len(word) - len(host)
    transport = _TRANSPORT.match(word)
    return transport.end() if transport and transport.end() < len(word) else 0
