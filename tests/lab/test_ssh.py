"""Real logins with the system's ssh client, and faults of reachability."""

import subprocess
from concurrent.futures import ThreadPoolExecutor

import pytest

from fleet.lab import keys, power, releases
from fleet.lab.node import Lab
from fleet.lab.place import LabError
from tests.waiting import wait_until

pytestmark = pytest.mark.lab
IMAGE = releases.SEED_RELEASES["glm52"]["image"]
BOOT_ID = 'cat "$NODE_SYSROOT/proc/sys/kernel/random/boot_id"'


def test_each_node_answers_as_itself(ssh, two: Lab) -> None:
    assert [ssh("hostname", node).stdout for node in (1, 2)] == ["h100-001\n", "h100-002\n"]
    first, second = (row["host_key"] for row in two.inventory())
    assert first != second


def test_exit_codes_and_streams_pass_through(ssh) -> None:
    done = ssh("ulimit -l; echo err >&2; exit 7")

    assert (done.returncode, done.stdout) == (7, "unlimited\n")
    assert "err" in done.stderr


def test_a_command_of_several_lines_runs_as_written(ssh) -> None:
    done = ssh('set -- \'a b\' "c\'d"\nfor word; do echo "[$word]"; done # end')

    assert done.stdout.splitlines() == ["[a b]", "[c'd]"]


def test_sftp_works_under_the_forced_command(ssh, two: Lab, tmp_path) -> None:
    row = two.inventory()[0]
    batch = tmp_path / "batch"
    batch.write_text("pwd\nls -a\n")
    done = subprocess.run(
        ["sftp", "-F", "none", "-b", str(batch), "-i", str(two.key_path), "-P", "2222",
         "-o", f"UserKnownHostsFile={two.known_hosts_path}", f"{row['user']}@{row['address']}"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip

    assert done.returncode == 0, done.stderr
    assert "Remote working directory" in done.stdout


def test_another_key_is_refused(ssh, two: Lab, tmp_path) -> None:
    keys.write_key_pair(tmp_path / "key", "nobody")
    row = two.inventory()[0]
    done = subprocess.run(
        ["ssh", "-F", "none", "-i", str(tmp_path / "key"), "-p", "2222", "-o", "BatchMode=yes",
         "-o", "IdentitiesOnly=yes", "-o", f"UserKnownHostsFile={two.known_hosts_path}",
         f"{row['user']}@{row['address']}", "true"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip

    assert done.returncode == 255
    assert "Permission denied" in done.stderr


def test_a_container_outlives_the_session_that_started_it(ssh) -> None:
    assert ssh(f"docker run -d --name a {IMAGE} m").returncode == 0

    assert "running" in ssh("docker ps --format json").stdout
    assert ssh("docker rm -f a").returncode == 0


def test_refused_and_back(ssh, two: Lab) -> None:
    two.fault("h100-001", "ssh.refused")
    assert "Connection refused" in ssh("true").stderr
    assert ssh("true", node=2).returncode == 0

    assert two.clear("h100-001", "ssh.refused")[0]["is_cleared"]

    assert ssh("true").returncode == 0


def test_silent_accepts_and_says_nothing(ssh, two: Lab) -> None:
    fault_id = two.fault("h100-001", "ssh.silent")
    with pytest.raises(subprocess.TimeoutExpired):
        ssh("true", timeout=1)

    two.clear("all", fault_id)

    assert ssh("true").returncode == 0


def test_an_open_session_survives_a_refused_listener(ssh, two: Lab) -> None:
    host = two.host("h100-001")
    fifo = host.directory / "root" / "home" / "fifo"
    with ThreadPoolExecutor(1) as pool:
        session = pool.submit(ssh, "mkfifo fifo; echo here; read -r line <fifo; echo $line")
        wait_until(fifo.exists)
        two.fault("h100-001", "ssh.refused")

        fifo.write_text("still\n")

        assert session.result(10).stdout == "here\nstill\n"


def test_a_changed_host_key_is_noticed_and_can_come_back(ssh, two: Lab) -> None:
    two.fault("h100-001", "ssh.hostkey")
    assert "Host key verification failed" in ssh("true").stderr

    two.clear("h100-001")

    assert ssh("true").returncode == 0


def test_a_dead_node_loses_everything_and_wakes_with_another_boot(ssh, two: Lab) -> None:
    before = ssh(BOOT_ID).stdout
    ssh(f"docker run -d --name a {IMAGE} m")
    ssh("setsid sleep 300 >/dev/null 2>&1 &")

    two.fault("h100-001", "node.dead")

    host = two.host("h100-001")
    assert power.commands(host) == {}
    assert power.listener(host.directory) == {}
    assert "Connection refused" in ssh("true").stderr
    two.clear("h100-001")
    assert ssh(BOOT_ID).stdout != before
    assert "Exited (255)" in ssh("docker ps -a --format json").stdout


def test_a_reboot_changes_the_boot_id(ssh, two: Lab) -> None:
    before = ssh(BOOT_ID).stdout

    two.fault("h100-002", "node.reboot")

    assert ssh(BOOT_ID, node=2).stdout not in ("", before)
    assert two.state("h100-002")["boot"]["reason"] == "reboot"


def test_killing_a_rank_kills_one_process(ssh, two: Lab) -> None:
    ssh(f"docker run -d --name a --label fleet.unit=u1 {IMAGE} m")

    two.fault("u1", "rank.kill", gpu=1)

    wait_until(lambda: "Exited (0)" in ssh("docker ps -a --format json").stdout)
    assert two.status()["nodes"][0]["faults"] == []


def test_a_hung_rank_goes_on_when_cleared(ssh, two: Lab) -> None:
    ssh(f"docker run -d --name a {IMAGE} m")
    fault_id = two.fault("h100-001", "rank.hang", gpu=0)
    pid = two.state("h100-001")["faults"][0]["args"]["pid"]

    def is_stopped() -> bool:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] == "T"

    wait_until(is_stopped)
    two.clear("h100-001", fault_id)

    wait_until(lambda: not is_stopped())


def test_a_fault_that_cannot_be_there_is_refused_and_leaves_nothing(ssh, two: Lab) -> None:
    for target, name, args, words in (
        ("h100-001", "rank.kill", {"gpu": 0}, "no rank runs on GPU 0"),
        ("h100-001", "gpu.xid79", {"gpu": 8}, "has GPUs 0 to 7"),
        ("h100-009", "ssh.refused", {}, "no node, unit or leaf h100-009"),
        ("h100-001", "ssh.broken", {}, "no fault ssh.broken"),
        ("h100-001", "rank.kill", {"card": 1}, "does not know card"),
        ("h100-001", "rank.kill", {"gpu": "x"}, "gpu=x is not int"),
    ):
        with pytest.raises(LabError, match=words):
            two.fault(target, name, **args)
    assert two.state("h100-001")["faults"] == []


def test_what_only_a_reboot_clears_is_said(ssh, two: Lab) -> None:
    two.fault("h100-001", "gpu.xid79", gpu=2)

    (told,) = two.clear("h100-001")
    assert (told["is_cleared"], told["explanation"]) == (False, "reboot the node")

    two.fault("h100-001", "node.reboot")
    assert ssh("nvidia-smi -L").returncode == 0


def test_reset_restores_the_birth_state(ssh, two: Lab) -> None:
    ssh(f"docker run -d --name a {IMAGE} m")
    ssh("mkdir -p .flotilla/subjects/s; touch .flotilla/shim-0123; touch left")
    two.fault("h100-001", "gpu.missing", gpu=1)
    two.fault("h100-001", "ssh.silent")

    two.reset()

    assert ssh("docker ps -aq").stdout == ""
    assert ssh("ls -A; ls -A .flotilla").stdout.split() == [".flotilla", "shim-0123"]
    assert ssh("nvidia-smi -L | wc -l").stdout == "8\n"
    assert two.unknown() == []
