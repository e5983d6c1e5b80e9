"""Labs for the lab's own tests: one on paper (stubs answer, nobody can log in), one of two nodes."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from fleet.lab.node import Lab
from tests.labs import claim_block, missing_program

STANDIN = Path(__file__).with_name("standin_engine.py")
FAST = {"launch": 600.0, "watch": 60.0}
LAST_BLOCK, FIRST_BLOCK = 127, 100
Run = Callable[..., subprocess.CompletedProcess[str]]


@contextmanager
def claimed_block() -> Iterator[str]:
    """Claim a block of addresses as the labs of other tests do, from the other end."""
    claim, block = claim_block(range(LAST_BLOCK, FIRST_BLOCK, -1))
    with claim:
        yield block


@pytest.fixture(scope="session")
def block() -> Iterator[str]:
    with claimed_block() as name:
        yield name


def short_directory() -> Path:
    """Make a directory whose path leaves room for a unix socket's; in memory when that works."""
    shm = "/dev/shm"
    can_hold = os.path.isdir(shm) and not os.statvfs(shm).f_flag & os.ST_NOEXEC
    return Path(tempfile.mkdtemp(prefix="fl-", dir=shm if can_hold else "/tmp"))


@pytest.fixture
def lab_dir() -> Iterator[Path]:
    directory = short_directory()
    lab = directory / "lab"
    yield lab
    Lab(lab).down()
    shutil.rmtree(directory)


def use_standin(lab: Lab) -> None:
    """Replace the engine by one that starts at once and has two workers."""
    engine = lab.directory / "lib" / "engine"
    shutil.rmtree(engine)
    engine.mkdir()
    shutil.copy(STANDIN, engine / "__main__.py")


@pytest.fixture
def paper(lab_dir: Path) -> Lab:
    """Two nodes as files only."""
    lab = Lab(lab_dir).lay_out(2, scales=FAST)
    use_standin(lab)
    return lab


@pytest.fixture
def run(paper: Lab) -> Run:
    """Run a shell command as the first node of the paper lab would."""
    return node_runner(paper, "h100-001")


def node_runner(lab: Lab, name: str) -> Run:
    environment = lab.host(name).environment()

    def run_on_node(command: str, timeout: float = 30) -> subprocess.CompletedProcess[str]:
        script = f'. "$NODE_DIR/rc"\n{command}'
        return subprocess.run(
            ["sh", "-c", script],
            env=environment,
            cwd=environment["HOME"],
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )

    return run_on_node


@pytest.fixture(scope="module")
def two(block: str) -> Iterator[Lab]:
    """Two nodes with real SSH daemons and the stand-in engine."""
    if missing := missing_program():
        pytest.skip(f"the lab needs {missing}; run `make install` as root")
    directory = short_directory()
    lab = Lab(directory / "lab").up(2, block=block, scales=FAST)
    use_standin(lab)
    yield lab
    lab.down()
    os.rmdir(directory)


@pytest.fixture
def ssh(two: Lab) -> Iterator[Run]:
    """Log in with the system's ssh client; `node` is 1 or 2."""
    yield ssh_runner(two)
    two.reset()


def ssh_runner(lab: Lab, rows: list[dict] | None = None) -> Run:
    """Log in with the system's ssh client at one of these rows; the lab's nodes when none are given."""
    rows = rows or lab.inventory()

    def run_ssh(
        command: str, node: int = 1, timeout: float = 30
    ) -> subprocess.CompletedProcess[str]:
        row = rows[node - 1]
        argv = [
            "ssh", "-F", "none", "-i", str(lab.key_path), "-p", str(row["ssh_port"]),
            "-o", "BatchMode=yes", "-o", f"UserKnownHostsFile={lab.known_hosts_path}",
            "-o", "StrictHostKeyChecking=yes", "-o", "ConnectTimeout=15",
            f"{row['user']}@{row['address']}", command,
        ]  # fmt: skip
        return subprocess.run(
            argv, capture_output=True, text=True, timeout=timeout, stdin=subprocess.DEVNULL,
            check=False,
        )  # fmt: skip

    return run_ssh
