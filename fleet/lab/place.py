"""Where a lab lies and which loopback block it owns."""

import hashlib
import os
import socket
import stat
from pathlib import Path

# A unix socket path holds 107 bytes; the rest of a socket's name needs the difference.
LONGEST_DIR_BYTES = 60
FALLBACK_PARENT = Path("/var/tmp")
CONSOLE_BLOCKS = ("127.0.13", *(f"127.0.{third}" for third in range(21, 64)))
LOCK_HOST = 254
SSH_PORT = 2222


class LabError(Exception):
    """The lab cannot do what was asked; the text says why and what to do."""


class BlockTaken(LabError):
    """Another lab owns this address block."""


def usable_directory(state_dir: Path, leaf: str) -> Path:
    """Return the directory for `leaf` ("lab", "postgres"): inside `state_dir` when it can work.

    A path that is too long for sockets, or that an unprivileged daemon cannot traverse when
    this process is root, moves to /var/tmp/flotilla-<hash>/<leaf>, with a link left behind.
    """
    wanted = Path(os.path.abspath(state_dir)) / leaf
    if _fits(wanted):
        return wanted
    digest = hashlib.sha256(os.fsencode(wanted.parent)).hexdigest()[:8]
    base = FALLBACK_PARENT / f"flotilla-{digest}"
    _claim_base(base)
    target = base / leaf
    _leave_link(wanted, target)
    return target


def lab_directory(state_dir: Path) -> Path:
    """Return the lab's directory; FLOTILLA_LAB_DIR overrides the choice."""
    override = os.environ.get("FLOTILLA_LAB_DIR")
    if override:
        return Path(os.path.abspath(override))
    return usable_directory(state_dir, "lab")


def _fits(path: Path) -> bool:
    if len(os.fsencode(path)) > LONGEST_DIR_BYTES:
        return False
    if os.geteuid() != 0:
        return True
    existing = (parent for parent in path.parents if parent.exists())
    return all(parent.stat().st_mode & stat.S_IXOTH for parent in existing)


def _claim_base(base: Path) -> None:
    base.mkdir(mode=0o711, parents=True, exist_ok=True)
    found = base.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
        raise LabError(f"{base} is not a directory of this user; remove it or set STATE_DIR")


def _leave_link(link: Path, target: Path) -> None:
    if link.is_symlink() and Path(os.readlink(link)) != target:
        link.unlink()
    if not link.is_symlink() and not link.exists():
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(target)


def lock_block(block: str) -> socket.socket:
    """Own `block` ("127.0.13") by listening on its .254:2222; raise BlockTaken otherwise.

    The lock lives as long as the returned socket, so a dead owner never leaves one behind.
    """
    lock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    lock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        lock.bind((f"{block}.{LOCK_HOST}", SSH_PORT))
        lock.listen(1)
    except OSError as error:
        lock.close()
        raise BlockTaken(
            f"address block {block}.0/24 is in use ({error.strerror}); "
            "stop the other lab or choose another block"
        ) from error
    return lock


def lock_first_free(preferred: str | None = None) -> tuple[str, socket.socket]:
    """Lock the preferred block, or the first free one of the console's list."""
    for block in dict.fromkeys([preferred or CONSOLE_BLOCKS[0], *CONSOLE_BLOCKS]):
        try:
            return block, lock_block(block)
        except BlockTaken:
            continue
    raise BlockTaken("every address block of the lab is in use; run `manage.py lab down`")
