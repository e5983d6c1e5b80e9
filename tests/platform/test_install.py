"""`make install`: nothing to do means nothing done, and a machine without rights is told what to run."""

import os
import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def run(*argv: str, **env: str) -> subprocess.CompletedProcess[str]:
    bare = {"HOME": os.environ.get("HOME", "/"), "PATH": "/usr/bin:/bin", **env}
    return subprocess.run(argv, cwd=ROOT, env=bare, capture_output=True, text=True, timeout=120)


def test_a_second_install_changes_nothing():
    stamp = ROOT / ".venv" / ".lock-stamp"
    before = stamp.stat().st_mtime_ns
    done = run("make", "install")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert stamp.stat().st_mtime_ns == before


def test_the_lock_files_name_hashes_but_no_index_and_no_host():
    for lock in ("requirements.lock", "requirements-dev.lock", "requirements-bench.lock"):
        text = (ROOT / lock).read_text()
        assert "--hash=sha256:" in text
        assert not re.search(r"://|index-url|find-links|trusted-host", text)


def test_the_development_lock_holds_the_runtime_at_the_same_versions():
    pins = [set(re.findall(r"^[a-z0-9-]+==\S+", (ROOT / name).read_text(), re.M)) for name in LOCKS]
    assert pins[0] <= pins[1]


LOCKS = ("requirements.lock", "requirements-dev.lock")


def test_without_rights_it_says_exactly_what_to_run():
    script = ". .ci/system-packages.sh; has_need() { false; }; may_install() { false; }; install_system_packages"
    done = run("sh", "-c", script)
    assert done.returncode == 0
    assert "apt-get install --no-install-recommends busybox chromium" in done.stdout
    assert run("sh", "-c", script, INSTALL_STRICT="1").returncode == 3
