"""The lab's store of models: a real rsync daemon, read-only, at an address of the block that is no node's.

It serves what birth.py laid out below `store/models` as the module `models`, to anybody in the block, as the store
of a site does. It is started and ended with the lab; a machine without rsync has a lab without it.
"""

import os
import shutil
import socket
import time
from pathlib import Path

from . import procs, state
from .keeping import ask_keeper
from .place import LabError

NAME = "store"  # what the keeper is asked for
KIND = "rsync"
HOST_NUMBER = 252  # of the block; .253 is the gateway, .254 the lock
PORT = 8730
START_LIMIT_S = 10.0
_DIRECTORY = "store"

# rsync drops root's rights unless told who it is; nobody else may name a group.
_AS_ROOT = "uid = 0\ngid = 0\n"
_CONF = """\
use chroot = no
pid file = {directory}/rsync.pid
lock file = {directory}/rsync.lock
max connections = 64
timeout = 120
hosts allow = {block}.0/24
hosts deny = *
[models]
path = {directory}/models
read only = yes
list = no
"""


def find_rsync() -> str:
    """Return the path of rsync on this machine; empty when there is none."""
    return shutil.which("rsync") or ""


def address_in(block: str) -> str:
    """Return the store's address in a block ("127.0.13")."""
    return f"{block}.{HOST_NUMBER}"


def lay_out_store(lab: Path, block: str) -> None:
    """Write the daemon's configuration; it is the same at every start."""
    directory = lab / _DIRECTORY
    for name in ("pids", "models"):
        (directory / name).mkdir(parents=True, exist_ok=True)
    conf = (_AS_ROOT if os.geteuid() == 0 else "") + _CONF.format(directory=directory, block=block)
    state.replace_text(directory / "rsync.conf", conf)


def daemon(lab: Path) -> dict[int, int]:
    """Return the living daemon as pid -> start ticks; empty when it is down."""
    return procs.read_pid_files(str(lab / _DIRECTORY / "pids"), KIND)


def start_store(lab: Path, block: str) -> None:
    """Let the keeper start the daemon and return when it listens; nothing is started without rsync."""
    program, directory = find_rsync(), lab / _DIRECTORY
    if not program or daemon(lab):
        return
    (directory / "rsync.pid").unlink(missing_ok=True)  # rsync refuses to start beside an old one
    address = address_in(block)
    argv = [program, "--daemon", "--no-detach", f"--config={directory}/rsync.conf"]
    argv += [f"--address={address}", f"--port={PORT}", f"--log-file={directory}/rsync.log"]
    ask_keeper(lab, {NAME: argv})
    deadline = time.monotonic() + START_LIMIT_S
    while not _answers(address):
        if not daemon(lab) or time.monotonic() > deadline:
            raise LabError(
                f"the store does not listen at {address}:{PORT}: {_last_line(directory)}"
            )
        time.sleep(0.01)


def store_status(lab: Path, block: str) -> dict:
    """Return the store's part of the status: where it listens and whether it does."""
    up = "up" if daemon(lab) else "down" if find_rsync() else "missing"
    return {"address": address_in(block), "port": PORT, "daemon": up}


def _answers(address: str) -> bool:
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex((address, PORT)) == 0


def _last_line(directory: Path) -> str:
    for name in ("rsync.log", "daemon.log"):
        path = directory / name
        lines = path.read_text(errors="replace").strip().splitlines() if path.exists() else []
        if lines:
            return lines[-1]
    return "it said nothing"
