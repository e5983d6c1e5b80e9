"""Reads a host's own name, its system's name and the state of a unit of its service manager."""

from __future__ import annotations

import re

_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9.-]{0,251}[A-Za-z0-9])?", re.ASCII)
_PRETTY = re.compile(
    r"^PRETTY_NAME=(\"[^\"\n]{1,120}\"|'[^'\n]{1,120}'|[^\s\"']{1,120})[ \t]*$", re.M
)
_UNIT_STATES = (
    "active",
    "inactive",
    "failed",
    "activating",
    "deactivating",
    "reloading",
    "unknown",
)


def parse_hostname(text: str) -> str | None:
    """Read `uname -n`: the node's own name."""
    word = text.strip()
    return word if _NAME.fullmatch(word) else None


def parse_os_release(text: str) -> str | None:
    """Read /etc/os-release: the name of the system as people say it. Source: os-release(5)."""
    found = _PRETTY.findall(text)
    return found[0].strip("\"'") if len(found) == 1 else None


def parse_is_active(text: str) -> str | None:
    """Read `systemctl is-active NAME`: one word. Source: systemctl(1)."""
    word = text.strip()
    return word if word in _UNIT_STATES else None
