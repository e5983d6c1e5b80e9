"""A copy killed in its middle: never ready, its progress is what lies on the disk, and it goes on to its end."""

import contextlib
import os
import signal
import subprocess
from pathlib import Path

import pytest

from fleet.rules import copier, shards
from tests.needs import needs_rsync
from tests.platform.test_copier import Daemon, check, lay, run
from tests.waiting import wait_until

MIB = 1 << 20
FILES = {f"model-{n}.safetensors": os.urandom(2 * MIB) for n in range(4)}
TOTAL = sum(map(len, FILES.values()))


def true_bytes(directory: Path) -> int:
    """What lies there by now, finished or not, counted by the test itself."""
    return sum(path.stat().st_size for path in directory.rglob("*") if path.is_file())


def progress(directory: Path, wanted: list[shards.Shard]) -> int:
    (section,) = copier.progress_sections(str(directory))
    return copier.bytes_of(run(section["argv"]).stdout, wanted)


@needs_rsync
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_a_copy_killed_at_half_is_never_ready_and_its_progress_is_true(tmp_path, how):
    source, target = tmp_path / "source", tmp_path / "target"
    wanted = lay(source, FILES)
    target.mkdir()
    (target / ".ready").write_text("a marker of before")
    daemon = Daemon(source, tmp_path / "home")
    try:
        url = ("127.0.0.1", daemon.port, copier.MODULE)
        argv = copier.pull_argv(str(target), url, 2048, "127.0.0.2", sorted(FILES), again=False)
        env = {"PATH": os.defpath, copier.PASSWORD_ENV: daemon.secret}
        pull = subprocess.Popen(
            argv,
            env=env,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            wait_until(lambda: true_bytes(target) >= TOTAL / 2, timeout_s=60, what="half of it")
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(pull.pid, how)
            pull.wait(timeout=20)
        lies_there = true_bytes(target)
        assert TOTAL / 2 <= lies_there < TOTAL, "it was killed in its middle"
        assert abs(progress(target, wanted) - lies_there) <= TOTAL / 100
        assert not (target / ".ready").exists()
        done = check(target, wanted)
        assert done.returncode == copier.DIFFERS_RC
        assert shards.compare(wanted, shards.read_found(done.stdout))
        assert not (target / ".ready").exists()
        assert daemon.pull(target, sorted(FILES)).returncode == 0
        assert check(target, wanted).returncode == 0
        assert progress(target, wanted) == TOTAL
        assert (target / ".ready").exists()
    finally:
        daemon.end()
