"""What a node's tools of links, disks and limits do with one device, with a fault, and with forms they do not know."""

from datetime import UTC, datetime

import pytest

from fleet.lab import faults
from fleet.lab.node import Lab
from fleet.readings.fabric.ports import parse_ports


def put(paper: Lab, name: str, **args: object) -> None:
    now = datetime(2026, 11, 29, tzinfo=UTC)
    site = faults.open_site(paper.directory, paper.host("h100-001"), now, {})
    fault = faults.find_fault(name)
    faults.put_on(site, fault, {**fault.arguments, **args}, "f-0001")


@pytest.mark.parametrize(
    ("command", "rc"),
    [
        ("nvidia-smi -q -x", 2),
        ("nvidia-smi nvlink -e", 2),
        ("ibstat -s", 1),
        ("ibstatus -v", 1),
        ("ibdev2netdev -v", 1),
        ("show_gids -n", 1),
        ("ibv_devinfo -v", 1),
        ("ip neighbour", 255),
        ("ip -s link", 255),
        ("ethtool -m rail3np0", 1),
        ("lsblk -f", 1),
        ("numactl --show", 1),
        ("prlimit --nofile", 1),
        ("systemctl restart docker", 1),
    ],
)
def test_a_form_it_does_not_know_fails_and_is_recorded(
    run, paper: Lab, command: str, rc: int
) -> None:
    done = run(command)

    assert done.returncode == rc
    assert done.stdout + done.stderr
    assert paper.unknown() == [f"h100-001 {command}"]


@pytest.mark.parametrize(
    ("command", "rc"),
    [
        ("ibstat mlx5_12", 255),
        ("ibstatus mlx5_12", 1),
        ("ibv_devinfo -d mlx5_12", 255),
        ("ip link show ens99", 1),
        ("ethtool ens99", 75),
        ("ethtool -S ens99", 94),
    ],
)
def test_a_device_that_is_not_there_is_an_error_and_not_an_unknown_form(
    run, paper: Lab, command: str, rc: int
) -> None:
    done = run(command)

    assert (done.returncode, done.stdout) == (rc, "")
    assert done.stderr
    assert paper.unknown() == []


def test_one_device_is_what_the_whole_answer_says_of_it(run) -> None:
    one, every = run("ibstat mlx5_3").stdout, run("ibstat").stdout
    assert one in every
    assert [port.device for port in parse_ports(one).ports] == ["mlx5_3"]
    assert run("ibstat -l").stdout.split() == [f"mlx5_{n}" for n in range(9)]


def test_a_port_that_is_down_keeps_its_rate(run, paper: Lab) -> None:
    put(paper, "nic.down", nic=3)

    port = parse_ports(run("ibstat mlx5_3").stdout).ports[0]

    assert (port.state, port.physical, port.rate_gbs) == ("Down", "Polling", 400)
    assert "mlx5_3 port 1 ==> rail3np0 (Down)" in run("ibdev2netdev").stdout
    assert "NO-CARRIER" in run("ip link show rail3np0").stdout


def test_the_active_mtu_follows_the_interface(run, paper: Lab) -> None:
    assert "active_mtu:\t\t4096 (5)" in run("ibv_devinfo -d mlx5_3").stdout
    put(paper, "mtu.mismatch", nic=3)
    assert "active_mtu:\t\t1024 (3)" in run("ibv_devinfo -d mlx5_3").stdout
    assert "mtu 1500" in run("ip link show rail3np0").stdout


def test_a_hole_among_the_gids_is_not_counted(run, paper: Lab) -> None:
    assert run("show_gids").stdout.endswith("n_gids_found=36\n")
    put(paper, "gid.wrong", nic=3, index=3)
    lines = run("show_gids mlx5_3").stdout.splitlines()
    assert [line.split("\t")[2] for line in lines[2:-1]] == ["0", "1", "2"]
    assert lines[-1] == "n_gids_found=3"


def test_a_driver_that_does_not_fit_its_library_answers_nothing_else(run, paper: Lab) -> None:
    put(paper, "driver.mismatch")
    for form in ("-L", "-q", "topo -m", "nvlink -s", "--query-gpu=index --format=csv", "dmon"):
        done = run(f"nvidia-smi {form}")
        assert done.returncode == 18, form
        assert done.stdout.startswith(
            "Failed to initialize NVML: Driver/library version mismatch\n"
        )


def test_one_card_and_one_part_of_the_report(run) -> None:
    done = run("nvidia-smi -q -i 3 -d ECC,ROW_REMAPPER")

    assert "GPU 00000000:4E:00.0\n    ECC Mode\n" in done.stdout
    assert "Remapping Failure Occurred        : No\n" in done.stdout
    assert "GPU 00000000:1A:00.0" not in done.stdout
    assert "Product Name" not in done.stdout
    assert run("nvidia-smi -q -d NOTHING").returncode == 2
    assert run("nvidia-smi -q -i 9").returncode == 6


def test_hidden_columns_cannot_be_queried(run) -> None:
    done = run("nvidia-smi --query-gpu=_cuda --format=csv")
    assert done.returncode == 2


def test_services_are_active_or_not(run, paper: Lab) -> None:
    assert run("systemctl is-active docker nvidia-fabricmanager").stdout == "active\nactive\n"
    put(paper, "fabricmanager.down")
    done = run("systemctl is-active nvidia-fabricmanager.service sshx")
    assert (done.stdout, done.returncode) == ("inactive\ninactive\n", 3)
