"""The gateway's host: a login beside the nodes, this machine's own HAProxy, and its faults."""

import shutil
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from fleet.lab import gateway, procs
from fleet.lab.node import Lab
from fleet.lab.place import LabError
from tests.lab.conftest import Run, claimed_block, ssh_runner
from tests.needs import needs_haproxy
from tests.waiting import wait_until

pytestmark = pytest.mark.lab
CONFIG = """\
defaults
  mode http
  timeout connect 1s
  timeout client 9s
  timeout server 9s
frontend f
  bind {address}:{port}
  http-request return status 200 content-type text/plain string "up"
"""


@pytest.fixture
def at_gateway(two: Lab) -> Iterator[Run]:
    yield ssh_runner(two, [two.gateway_row()])
    two.reset()


def test_it_is_no_node(two: Lab) -> None:
    assert [row["name"] for row in two.inventory()] == ["h100-001", "h100-002"]
    assert "gateway" not in [host.name for host in two.targets("all")]
    assert [row["name"] for row in two.status()["nodes"]] == ["h100-001", "h100-002"]
    assert two.status()["gateway"]["sshd"] == "up"


def test_a_login_finds_this_machines_tools_and_none_of_a_gpu_node(
    two: Lab, at_gateway: Run
) -> None:
    done = at_gateway("command -v sh; command -v nvidia-smi; echo $NODE_NAME; cd; pwd")
    found = done.stdout.split()
    assert found[1:] == ["gateway", f"{two.gateway().directory}/root/home"], done.stderr
    path = at_gateway("echo $PATH").stdout.strip().split(":")
    assert f"{two.directory}/bin" not in path
    assert not (two.directory / "unknown.log").read_text()


@needs_haproxy
def test_a_login_finds_haproxy(two: Lab, at_gateway: Run) -> None:
    assert at_gateway("haproxy -v").stdout.startswith("HAProxy version")
    assert two.gateway_row()["proxy"] == at_gateway("command -v haproxy").stdout.strip()


def test_it_is_born_with_ports_that_stay(lab_dir: Path) -> None:
    lab = Lab(lab_dir).lay_out(1, weights="none")
    first, boot = lab.gateway_row(), lab.state("gateway")["boot"]["id"]
    assert first["address"] == "127.0.13.253"
    assert first["port"] != first["admin_port"]
    with socket.create_server(("127.0.0.1", first["admin_port"])):
        lab.lay_out(1, weights="none")
        assert lab.gateway_row() == first
        other = Lab(lab_dir.with_name("other")).lay_out(1, weights="none").gateway_row()
    shutil.rmtree(lab_dir.with_name("other"))
    assert other["admin_port"] != first["admin_port"], "what is in use is not given away"
    again = lab.state("gateway")["boot"]["id"]
    assert again != boot
    boot_file = lab.gateway().directory / "root/proc/sys/kernel/random/boot_id"
    assert boot_file.read_text() == f"{again}\n"


def test_two_blocks_have_two_admin_ports() -> None:
    ports = {gateway.ports_in(f"127.0.{third}", {})["admin_port"] for third in range(13, 128)}
    assert len(ports) == 115


def test_no_haproxy_is_said(lab_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gateway, "find_proxy", lambda: "")
    lab = Lab(lab_dir).lay_out(1, weights="none")
    assert lab.gateway_row()["proxy"] == ""
    assert lab.status()["gateway"]["proxy"] == "missing"
    assert lab.gateway().environment()["PATH"] == "/usr/bin:/bin"


@pytest.fixture
def proxy(two: Lab, at_gateway: Run) -> None:
    start_proxy(two, at_gateway)


def start_proxy(lab: Lab, run: Run) -> None:
    """Start a real HAProxy by a login at the gateway's host."""
    row = lab.gateway_row()
    home = lab.gateway().directory / "root" / "home"
    (home / "haproxy.cfg").write_text(CONFIG.format(**row))
    run("setsid haproxy -db -f haproxy.cfg >log 2>&1 </dev/null &")
    wait_until(lambda: _answer(row) == "up", 20, "the proxy")


def _answer(row: dict, wait_s: float = 10.0) -> str:
    try:
        with socket.create_connection((row["address"], row["port"]), wait_s) as client:
            client.sendall(b"GET / HTTP/1.0\r\n\r\n")
            return client.recv(1000).rpartition(b"\n")[2].decode()
    except TimeoutError:
        return "silent"
    except OSError:
        return "refused"


@needs_haproxy
@pytest.mark.usefixtures("proxy")
def test_a_killed_proxy_is_gone(two: Lab) -> None:
    assert two.status()["gateway"]["proxy"] == "up"
    two.fault("gateway", "gateway.kill")
    wait_until(lambda: _answer(two.gateway_row()) == "refused", 20, "the proxy's end")
    assert two.status()["gateway"]["proxy"] == "down"
    assert two.status()["gateway"]["faults"] == []
    with pytest.raises(LabError, match="no proxy runs"):
        two.fault("gateway", "gateway.kill")


@needs_haproxy
@pytest.mark.usefixtures("proxy")
def test_a_stopped_proxy_says_nothing_until_it_goes_on(two: Lab) -> None:
    two.fault("gateway", "gateway.stop")

    def states() -> list[str]:
        pids = gateway.proxies(two.gateway())
        return [fields[0] for pid in pids if (fields := procs.stat_fields(pid))]

    # A signal that was sent is acted on a moment later.
    wait_until(lambda: states() == ["T"], what="the proxy to stand still")
    assert _answer(two.gateway_row(), 0.5) == "silent"
    assert [row["is_cleared"] for row in two.clear("gateway")] == [True]
    assert _answer(two.gateway_row()) == "up"


@needs_haproxy
@pytest.mark.usefixtures("proxy")
def test_a_reboot_takes_the_proxy_along(two: Lab) -> None:
    boot = two.state("gateway")["boot"]["id"]
    two.fault("gateway", "node.reboot", dark=0.1)
    assert _answer(two.gateway_row()) == "refused"
    assert two.state("gateway")["boot"]["id"] != boot
    assert two.status()["gateway"]["sshd"] == "up"


@needs_haproxy
def test_nothing_of_it_outlives_the_lab(lab_dir: Path) -> None:
    with claimed_block() as block:
        lab = Lab(lab_dir).up(1, block=block, weights="none")
        start_proxy(lab, ssh_runner(lab, [lab.gateway_row()]))
        (pid,) = gateway.proxies(lab.gateway())
        row = lab.gateway_row()
        lab.down()
    assert procs.start_ticks(pid) is None
    assert _answer(row) == "refused"


@pytest.mark.parametrize(
    ("target", "fault"),
    [
        ("gateway", "gpu.xid79"),
        ("gateway", "docker.down"),
        ("h100-001", "gateway.kill"),
        ("all", "gateway.stop"),
    ],
)
def test_a_fault_that_a_host_cannot_have_is_refused(two: Lab, target: str, fault: str) -> None:
    with pytest.raises(LabError, match=f"{fault} is for a "):
        two.fault(target, fault)
