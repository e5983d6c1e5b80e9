"""Ports of 127.0.0.1: take a free one, and say who holds a taken one."""

import os
import socket
from pathlib import Path

_LISTEN = "0A"  # state column of /proc/net/tcp


def reserve_port() -> tuple[socket.socket, int]:
    """Bind a free port and keep it from others until the socket is closed.

    A server that sets SO_REUSEADDR (Postgres, Valkey, uvicorn do) can bind it meanwhile.
    """
    holder = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    holder.bind(("127.0.0.1", 0))
    return holder, holder.getsockname()[1]


def is_free(host: str, port: int) -> bool:
    """Tell whether a server could listen on this address and port now."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return False
    return True


def holder_of(port: int) -> str:
    """Name the process that listens on `port`, as far as this user may know."""
    inodes = _listening_inodes(port)
    for fd in Path("/proc").glob("[0-9]*/fd/[0-9]*") if inodes else ():
        try:
            if os.readlink(fd) in inodes:
                return describe_process(int(fd.parts[2]))
        except OSError:
            continue
    return "a process of another user" if inodes else "an unknown process"


def describe_process(pid: int) -> str:
    """Name a process by its number and the first 160 characters of its command line, for a message."""
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return f"process {pid} (ended meanwhile)"
    command = " ".join(b" ".join(words).decode(errors="replace").split())
    return f"process {pid} ({command[:160]})"


def _listening_inodes(port: int) -> set[str]:
    found = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        try:
            rows = Path(table).read_text().splitlines()[1:]
        except OSError:
            continue
        for columns in map(str.split, rows):
            if columns[3] == _LISTEN and int(columns[1].rsplit(":", 1)[1], 16) == port:
                found.add(f"socket:[{columns[9]}]")
    return found
