"""`make up` from the outside: one line, health, exit codes, continuation, and nothing left behind."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Iterable
from pathlib import Path

import pytest

from console.embedded import leftovers
from fleet.lab.procs import descendants, stat_fields
from tests.children import end_child, start_child
from tests.waiting import wait_until

pytestmark = [pytest.mark.platform, pytest.mark.lab]
ROOT = Path(__file__).resolve().parents[2]
READY_WITHIN_S = 300  # several starts may share two cores
STOP_WITHIN_S = 15
REST_PSS_MIB = 500


class Up:
    """One `make up` program in a state folder of its own."""

    def __init__(self, state_dir: Path, port: int):
        self.state_dir, self.port = state_dir, port
        outside = {
            name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ
        }
        self.env = {
            **outside,
            "STATE_DIR": str(state_dir),
            "PORT": str(port),
            "LAB_NODES": "2",
            "LAB_LAUNCH": "none",
        }
        self.stdout = state_dir.with_suffix(".stdout")
        self.child = None

    def start(self) -> None:
        """Start and wait for the ready line."""
        script = 'exec "$0" -m console.embedded.run_all >"$STDOUT"'
        env = {**self.env, "STDOUT": str(self.stdout)}
        self.child = start_child(
            ["sh", "-c", script, sys.executable], env, self.state_dir.with_suffix(".stderr"), ROOT
        )
        wait_until(
            lambda: self.child.poll() is not None or self.said(),
            timeout_s=READY_WITHIN_S,
            what="the ready line",
        )
        assert self.said() == f"Flotilla is ready at http://127.0.0.1:{self.port}\n", self.child.log

    def said(self) -> str:
        return self.stdout.read_text() if self.stdout.exists() else ""

    def note(self) -> dict:
        return json.loads((self.state_dir / "run.json").read_text())

    def marks(self) -> list[str]:
        return [f"FLOTILLA_SUPERVISOR={self.note()['token']}", f"STATE_DIR={self.state_dir}"]

    def again(self, **env: str) -> subprocess.CompletedProcess[str]:
        """Run another one in the foreground, expected to refuse."""
        return subprocess.run(
            [sys.executable, "-m", "console.embedded.run_all"],
            env={**self.env, **env},
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=READY_WITHIN_S,
        )

    def shell(self, code: str) -> str:
        """Run Django code in a command that finds the services by run.json alone."""
        done = subprocess.run(
            [sys.executable, "manage.py", "shell", "-c", f"from fleet.models import Tick; {code}"],
            env=self.env,
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=READY_WITHIN_S,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout


@pytest.fixture
def up(free_port):
    # Short, and open to walk through under root, so that nothing moves to /var/tmp.
    place = Path(tempfile.mkdtemp(prefix="flotilla-up-"))
    place.chmod(0o711)
    running = Up(place / "state", free_port())
    yield running
    if running.child:
        end_child(running.child, patience_s=STOP_WITHIN_S)
        print(running.child.log[-6000:])
    shutil.rmtree(place)


def healthz(port: int) -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=10) as answer:
        return answer.read().decode()


def pss_mib(pids: Iterable[int]) -> float:
    """Sum of the proportional set sizes; a page that several share is counted once."""
    kib = 0
    for pid in pids:
        with contextlib.suppress(OSError):  # ended meanwhile
            text = Path(f"/proc/{pid}/smaps_rollup").read_text()
            kib += int(text.split("\nPss:")[1].split()[0])
    return kib / 1024


def command_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    except OSError:  # ended meanwhile
        return ""


def test_one_console_from_start_to_stop_and_on(up, free_port):
    up.start()
    assert healthz(up.port) == "ok"
    assert_small(up)
    assert_refused(up.again(PORT=str(free_port())), f"in use by process {up.child.pid}")
    other = str(up.state_dir.with_name("other"))
    assert_refused(up.again(STATE_DIR=other), f"port {up.port}")
    assert_few_connections(up)

    up.shell("Tick.objects.update_or_create(name='mine', at='2026-01-01T00:00Z')")
    marks = up.marks()
    up.child.send_signal(signal.SIGTERM)
    assert up.child.wait(timeout=STOP_WITHIN_S) == 0
    assert leftovers.find_marked(marks) == []
    assert up.said().count("\n") == 1

    up.stdout.unlink()
    up.start()
    assert "kept 1" in up.shell("print('kept', Tick.objects.filter(name='mine').count())")
    assert_a_death_ends_all(up)


def assert_small(up: Up) -> None:
    """The lab is not the console's, so it does not count."""
    whole = {up.child.pid, *descendants(up.child.pid)}
    labs = {pid for pid in whole if "run_lab" in command_of(pid)}
    pids = whole - labs - {pid for lab in labs for pid in descendants(lab)}
    table = "\n".join(f"{pss_mib([pid]):6.1f} {command_of(pid)[:90]}" for pid in pids)
    assert pss_mib(pids) <= REST_PSS_MIB, table


def assert_refused(second: subprocess.CompletedProcess[str], reason: str) -> None:
    assert (second.returncode, second.stdout) == (3, "")
    assert reason in second.stderr


def assert_few_connections(up: Up) -> None:
    """Each request runs in a thread of its own; the threads must not keep a connection each."""
    for _ in range(30):
        healthz(up.port)
    count = (
        "from django.db import connection as c; q = c.cursor();"
        " q.execute('SELECT count(*) FROM pg_stat_activity WHERE usename = current_user');"
        " print('connections', q.fetchone()[0])"
    )
    assert int(up.shell(count).split()[-1]) < 25


def assert_a_death_ends_all(up: Up, name: str = "watch", command: str = "flotilla: watch") -> None:
    marks = up.marks()
    part = next(p for p in children_of(up.child.pid) if command in command_of(p))
    os.kill(part, signal.SIGKILL)
    assert up.child.wait(timeout=STOP_WITHIN_S + 5) == 128 + signal.SIGKILL
    assert f"{name} ended with exit code 137" in up.child.log
    assert leftovers.find_marked(marks) == []


def children_of(parent: int) -> list[int]:
    return [pid for pid in descendants(parent) if (stat_fields(pid) or "??")[1] == str(parent)]


PARTS = {
    "web": "flotilla: web",
    "conductor": "flotilla: conductor",
    "beat": "flotilla: beat",
    "hand-1": "flotilla: hand-1",
    "watch": "flotilla: watch",
    "postgres": "bin/postgres",
    "valkey": "valkey-server",
    "lab": "embedded.run_lab",
}


@pytest.mark.long
@pytest.mark.faults
def test_the_death_of_any_part_ends_all_and_the_next_start_goes_on(up):
    up.env["LAB_LAUNCH"] = "glm52"
    count = "from releases.models import Launch as L; print(*(L.objects.filter(state=s).count() for s in {}))"
    for number, (name, command) in enumerate(PARTS.items()):
        up.stdout.unlink(missing_ok=True)
        up.start()
        told = [str(number), "1"]  # the unit of each earlier run is over, a new one is there
        wait_until(
            lambda told=told: up.shell(count.format(["failed", "ready"])).split()[-2:] == told,
            timeout_s=READY_WITHIN_S,
            what=f"the unit to be ready before the death of {name}",
        )
        assert_a_death_ends_all(up, name, command)


def test_a_killed_supervisor_leaves_nothing(up):
    up.start()
    lab_mark = f"FLOTILLA_LAB={(up.state_dir / 'lab').resolve()}"
    marks = [*up.marks(), lab_mark]
    assert leftovers.find_marked(marks)
    up.child.kill()
    wait_until(
        lambda: not leftovers.find_marked(marks),
        timeout_s=STOP_WITHIN_S,
        what="all processes to vanish",
    )


def test_given_servers_are_used_instead_of_own_ones(up, servers):
    own = {name: os.environ[name] for name in ("DATABASE_URL", "REDIS_URL")}
    up.env |= {**own, "LAB_NODES": "0"}
    up.start()
    assert {name: up.note()["env"][name] for name in own} == own
    commands = [command_of(pid) for pid in leftovers.find_marked(up.marks())]
    assert not [command for command in commands if "postgres" in command or "valkey" in command]
