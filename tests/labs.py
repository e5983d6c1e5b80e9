"""Rehearsal labs for tests: one a size, on a block of loopback addresses that no other run uses."""

import shutil
import socket
from collections.abc import Iterable
from pathlib import Path

from fleet.lab.node import Lab

# Faster than life: a launch of minutes takes a second, an engine's own time-outs take seconds.
_SCALES = {"launch": 600, "watch": 60}
_FIRST_BLOCK, _LAST_BLOCK = 64, 127


def claim_block(thirds: Iterable[int]) -> tuple[socket.socket, str]:
    """Take a /24 by holding a port on its last address; a parallel run takes the next one."""
    for third in thirds:
        claim = socket.socket()
        try:
            claim.bind((f"127.0.{third}.254", 2221))
        except OSError:
            claim.close()
            continue
        return claim, f"127.0.{third}"
    raise RuntimeError("expected a free block in 127.0.64.0/18, found all in use")


class Labs:
    """Brings labs up on demand and keeps them until the end of the run."""

    def __init__(self, directory: Path):
        self._directory = directory
        self._by_size: dict[int, Lab] = {}
        self._claims: list[socket.socket] = []

    def of_size(self, nodes: int) -> Lab:
        """Return the lab with so many nodes, up and running."""
        if nodes not in self._by_size:
            lab = Lab(self._directory / f"lab{nodes}")
            self._by_size[nodes] = lab  # before `up`, so that a failed start is cleared up too
            claim, block = claim_block(range(_FIRST_BLOCK, _LAST_BLOCK + 1))
            self._claims.append(claim)
            lab.up(nodes=nodes, block=block, scales=_SCALES)
        return self._by_size[nodes]

    def down(self) -> None:
        for lab in self._by_size.values():
            lab.down()
        for claim in self._claims:
            claim.close()


def missing_program() -> str:
    """Name what the lab needs and this machine lacks; empty when it can run."""
    return "" if shutil.which("sshd", path="/usr/sbin:/sbin:/usr/bin:/usr/local/sbin") else "sshd"
