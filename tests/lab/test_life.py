"""A lab's life: up, down, power cuts, killed owners, two labs, an ordinary user."""

import json
import os
import pwd
import shutil
import signal
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from fleet.lab import containers, keeping, place, power, procs, releases
from fleet.lab.node import Lab
from fleet.lab.place import BlockTaken, LabError
from tests.lab.conftest import FAST, claimed_block, node_runner, ssh_runner, use_standin
from tests.waiting import wait_until

pytestmark = pytest.mark.lab
ROOT = Path(__file__).resolve().parents[2]
IMAGE = releases.SEED_RELEASES["glm52"]["image"]
# What the owner's death may take (COMMANDS: a killed supervisor leaves nothing within 15 s).
GONE_S = 15.0
OWNER = """
import sys, time
from fleet.lab.node import Lab
Lab(sys.argv[1]).up(2, block=sys.argv[2], scales={"launch": 600.0, "watch": 60.0})
print("up", flush=True)
time.sleep(600)
"""


@pytest.fixture
def own_block():
    with claimed_block() as name:
        yield name


@pytest.fixture
def lab(lab_dir: Path) -> Lab:
    return Lab(lab_dir)


def start_container(lab: Lab, node: str = "h100-001") -> None:
    done = node_runner(lab, node)(f"docker run -d --name a {IMAGE} m")
    assert done.returncode == 0, done.stderr


def records_of(lab: Lab) -> list[str]:
    """Names of the files that tell which processes the lab has."""
    places = [*lab.directory.glob("nodes/*/pids/*"), *lab.directory.glob("keeper-*")]
    return sorted(path.name for path in places)


def test_down_leaves_neither_processes_nor_files_nor_the_block(lab: Lab, own_block: str) -> None:
    for _turn in range(2):
        lab.up(2, block=own_block, scales=FAST)
        use_standin(lab)
        start_container(lab)
        assert ssh_runner(lab)("setsid sleep 300 >/dev/null 2>&1 & hostname").returncode == 0
        assert keeping.marked(lab.directory)

        lab.down()

        assert keeping.marked(lab.directory) == {}
        assert not lab.directory.exists()
        place.lock_block(own_block).close()


def test_a_lab_that_was_on_comes_back_as_the_same_fleet(lab: Lab, own_block: str) -> None:
    lab.up(2, block=own_block, scales=FAST, weights="none")
    use_standin(lab)
    start_container(lab)
    lab.fault("h100-002", "ssh.hostkey")
    rows = {row["name"]: row["host_key"] for row in lab.inventory()}
    boots = [lab.state(name)["boot"]["id"] for name in rows]
    key = lab.key_path.read_text()
    assert records_of(lab)
    lab.down(keep=True)
    assert records_of(lab) == []

    lab.up(2, block=own_block, weights="none")

    assert {row["name"]: row["host_key"] for row in lab.inventory()} == rows
    assert lab.key_path.read_text() == key
    assert [lab.state(name)["boot"]["id"] for name in rows] != boots
    assert lab.record()["scales"]["launch"] == 600.0
    assert lab.state("h100-002")["faults"] == []
    (container,) = containers.all_containers(lab.host("h100-001").directory)
    assert (container.state["status"], container.state["exit_code"]) == ("exited", 255)
    assert ssh_runner(lab)("hostname", node=2).stdout == "h100-002\n"


def test_everything_dies_with_a_killed_owner(lab: Lab, own_block: str) -> None:
    argv = [sys.executable, "-c", OWNER, str(lab.directory), own_block]
    owner = subprocess.Popen(argv, cwd=ROOT, stdout=subprocess.PIPE)
    assert owner.stdout is not None
    assert owner.stdout.readline() == b"up\n"
    use_standin(lab)
    start_container(lab)
    listener = power.listener(lab.host("h100-001").directory)
    assert listener

    owner.kill()
    owner.communicate()

    def is_over() -> bool:
        return not keeping.marked(lab.directory) and not lab.is_running()

    wait_until(is_over, GONE_S, "the lab's processes to end")
    assert not any(procs.is_alive(pid, ticks) for pid, ticks in listener.items())
    assert not list(lab.directory.glob("nodes/*/pids/*"))


def test_what_a_killed_keeper_left_is_cleared_at_the_next_up(lab: Lab, own_block: str) -> None:
    lab.up(2, block=own_block, scales=FAST, weights="none")
    use_standin(lab)
    start_container(lab)
    left = power.commands(lab.host("h100-001"))
    listeners = power.listener(lab.host("h100-001").directory)
    power.signal_all(keeping.keeper_of(lab.directory), signal.SIGKILL)
    wait_until(lambda: not any(procs.is_alive(p, t) for p, t in listeners.items()))
    assert any(procs.is_alive(pid, ticks) for pid, ticks in left.items())

    lab.up(2, block=own_block, weights="none")

    assert not any(procs.is_alive(pid, ticks) for pid, ticks in left.items())
    assert ssh_runner(lab)("hostname").stdout == "h100-001\n"


def test_up_again_changes_nothing_and_another_size_is_refused(lab: Lab, own_block: str) -> None:
    lab.up(1, block=own_block, weights="none")
    keeper = keeping.keeper_of(lab.directory)

    lab.up(1)

    assert keeping.keeper_of(lab.directory) == keeper
    with pytest.raises(LabError, match="a lab of 1 nodes runs here, 2 asked for"):
        lab.up(2)


def test_a_block_belongs_to_one_lab(lab: Lab, own_block: str, tmp_path: Path) -> None:
    lab.up(1, block=own_block, weights="none")

    with pytest.raises(BlockTaken, match=own_block):
        Lab(tmp_path / "other").up(1, block=own_block)


def test_the_next_block_is_taken_when_the_first_is_in_use(monkeypatch, own_block: str) -> None:
    monkeypatch.setattr(place, "CONSOLE_BLOCKS", (own_block, "127.0.99"))
    with place.lock_block(own_block):
        chosen, lock = place.lock_first_free()
        lock.close()

    assert chosen == "127.0.99"


def test_a_caller_that_holds_signals_back_does_not_pass_that_on(lab: Lab, own_block: str) -> None:
    held = {signal.SIGTERM, signal.SIGHUP}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, held)
    try:
        lab.up(1, block=own_block, weights="none")
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)

    done = ssh_runner(lab)("grep SigBlk /proc/self/status; grep SigIgn /proc/self/status")

    blocked, ignored = (int(line.split()[1], 16) for line in done.stdout.splitlines())
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE):
        assert not (blocked | ignored) & 1 << (number - 1)


@pytest.mark.parametrize("name", ["lab", "x" * 70])
def test_a_directory_that_cannot_work_moves_and_leaves_a_link(
    name: str, lab_dir: Path, monkeypatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(place, "FALLBACK_PARENT", tmp_path)
    state = lab_dir.parent / name
    state.mkdir()
    # Anybody must get through to a directory that root uses.
    for parent in (state, lab_dir.parent):
        parent.chmod(0o755)

    chosen = place.usable_directory(state, "lab")

    if name == "lab":
        assert chosen == state / "lab"
        return
    assert chosen.parent.parent == tmp_path
    assert (state / "lab").readlink() == chosen
    assert place.usable_directory(state, "lab") == chosen


def ordinary_user() -> pwd.struct_passwd | None:
    """Return an account that is not root and can log in."""
    for entry in pwd.getpwall():
        shell = entry.pw_shell
        is_usable = os.access(shell, os.X_OK) and not shell.endswith(("nologin", "false", "sync"))
        if 0 < entry.pw_uid < 65534 and is_usable:
            return entry
    return None


AS_USER = """
import json, subprocess, sys
from pathlib import Path
from fleet.lab import keeping
from fleet.lab.node import Lab
lab = Lab(sys.argv[1]).up(2, block=sys.argv[2])
row = lab.inventory()[1]
done = subprocess.run(
    ["ssh", "-F", "none", "-i", str(lab.key_path), "-p", "2222", "-o", "BatchMode=yes",
     "-o", f"UserKnownHostsFile={lab.known_hosts_path}", f"{row['user']}@{row['address']}",
     "hostname; nvidia-smi -L | wc -l; docker ps -aq"],
    capture_output=True, text=True, stdin=subprocess.DEVNULL)
lab.fault("h100-001", "ssh.silent")
lab.down()
print(json.dumps([done.stdout, done.stderr, sorted(keeping.marked(lab.directory))]))
"""


def test_an_ordinary_user_can_run_a_lab(lab_dir: Path, own_block: str) -> None:
    if os.geteuid() != 0:
        pytest.skip("already an ordinary user: every other test here shows it")
    user = ordinary_user()
    if user is None or shutil.which("setpriv") is None:
        pytest.skip("this machine has no ordinary account with a shell, or no setpriv")
    as_user = ["setpriv", f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups"]
    # setpriv still has root's powers when it looks its program up; this shell has none.
    as_user += ["sh", "-c", 'exec "$@"', "sh"]
    environment = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": f"{ROOT}:{sysconfig.get_path('purelib')}",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    python = next((p for p in (sys.executable, "/usr/bin/python3") if can_run(as_user, p)), None)
    if python is None:
        pytest.skip(f"{user.pw_name} can run neither this Python nor the system's")
    directory = lab_dir.parent / "user"
    directory.mkdir()
    os.chown(directory, user.pw_uid, user.pw_gid)
    lab_dir.parent.chmod(0o755)

    done = subprocess.run(
        [*as_user, python, "-c", AS_USER, str(directory / "lab"), own_block],
        cwd=directory, env=environment, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip

    assert done.returncode == 0, done.stderr
    stdout, stderr, left = json.loads(done.stdout)
    assert stdout == "h100-002\n8\n", stderr
    assert left == []


def can_run(as_user: list[str], python: str) -> bool:
    check = f"import sys; sys.exit(sys.version_info[:2] != {sys.version_info[:2]})"
    return subprocess.run([*as_user, python, "-c", check], check=False, cwd="/",
                          capture_output=True).returncode == 0  # fmt: skip
