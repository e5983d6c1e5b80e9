"""What a shim that was ended leaves on the node's disk: nothing, and when killed outright nothing for long."""

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from fleet.execution import wire
from tests.execution.local_node import LocalNode
from tests.waiting import wait_until

HOUR_AGO_S = 3700


@pytest.fixture
def shm_file():
    """A file as a killed shim of this user leaves it."""
    path = Path(f"/dev/shm/flotilla.{os.urandom(3).hex()}")
    path.touch()
    yield path
    path.unlink(missing_ok=True)


def grow_old(path: Path) -> None:
    then = time.time() - HOUR_AGO_S
    os.utime(path, (then, then))


@pytest.mark.parametrize("kind", [signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE])
def test_a_probe_whose_connection_ended_leaves_nothing(node: LocalNode, kind: int):
    with slow_probe(node, 2) as shim:
        box = Path(f"/dev/shm/flotilla.{shim.pid}")
        assert box.is_dir()
        os.kill(shim.pid, kind)
        shim.wait(timeout=20)
        assert not box.exists()


def test_a_listing_removes_what_a_killed_probe_left_an_hour_ago(node: LocalNode):
    with slow_probe(node, 60) as shim:
        box = Path(f"/dev/shm/flotilla.{shim.pid}")
        for pid in (shim.pid, *_below(shim.pid)):
            os.kill(pid, signal.SIGKILL)
        shim.wait(timeout=20)
    other = Path(f"/tmp/flotilla.state-{shim.pid}")
    other.mkdir()
    try:
        node.call("list", "all")
        assert box.exists(), "it is not old yet"
        grow_old(box), grow_old(other)
        node.call("list", "all")
        assert (box.exists(), other.exists()) == (False, True)
    finally:
        other.rmdir()


@contextmanager
def slow_probe(node: LocalNode, seconds: int) -> Iterator[subprocess.Popen]:
    """A shim in the middle of its only section, and nothing of it left at the end."""
    mark = node.home / "begun"
    lines = wire.section_lines("slow", 60, ["sh", "-c", f"touch {mark}; exec sleep {seconds}"])
    shim = node.spawn("probe", "node")
    assert shim.stdin is not None
    assert shim.stdout is not None
    shim.stdin.write("".join(f"{line}\n" for line in (*lines, ";end")).encode())
    shim.stdin.close()
    try:
        wait_until(mark.exists, what="the section to run")
        yield shim
    finally:
        for pid in (*_below(shim.pid), shim.pid):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        shim.wait()
        shim.stdout.close()


def _below(pid: int) -> list[int]:
    """Return the children of a process and theirs."""
    if not Path(f"/proc/{pid}/task/{pid}/children").exists():
        return []
    return [below for child in _children(pid) for below in (child, *_below(child))]


def _children(pid: int) -> list[int]:
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def test_a_listing_removes_what_is_an_hour_old_and_nothing_else(node: LocalNode, shm_file: Path):
    root = node.home / ".flotilla"
    node.call("list", "all")
    old, fresh, other = root / "argv.abc123", root / "argv.abc124", root / "argv.notes.txt"
    for path in (old, fresh, other):
        path.touch()
    node.call("list", "all")
    assert all(path.exists() for path in (old, fresh, other, shm_file)), "nothing is old yet"
    for path in (old, other, shm_file):
        grow_old(path)
    node.call("list", "all")
    assert [path.exists() for path in (old, fresh, other, shm_file)] == [False, True, True, False]


def test_what_another_user_left_is_not_touched(node: LocalNode, shm_file: Path):
    if os.getuid() != 0:
        pytest.skip("only root can give a file away")
    os.chown(shm_file, 65534, 65534)
    grow_old(shm_file)
    node.call("list", "all")
    assert shm_file.exists()
