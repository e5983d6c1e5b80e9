"""What a shim that was killed leaves on the node's disk: nothing of a probe, and nothing old for long."""

import os
import signal
import time
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


def test_a_shim_killed_in_a_probe_leaves_no_file(node: LocalNode):
    mark = node.home / "begun"
    lines = wire.section_lines("slow", 60, ["sh", "-c", f"touch {mark}; exec sleep 60"])
    shim = node.spawn("probe", "node")
    assert shim.stdin is not None
    shim.stdin.write("".join(f"{line}\n" for line in (*lines, ";end")).encode())
    shim.stdin.close()
    try:
        wait_until(mark.exists, what="the section to run")
        scratch = os.readlink(f"/proc/{shim.pid}/fd/7")
        assert scratch.endswith(" (deleted)")
        assert not Path(scratch.removesuffix(" (deleted)")).exists()
    finally:
        sections = [pid for pid in _children(shim.pid) for pid in (pid, *_children(pid))]
        for pid in (shim.pid, *sections):
            os.kill(pid, signal.SIGKILL)
        shim.wait()
        assert shim.stdout is not None
        shim.stdout.close()


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
