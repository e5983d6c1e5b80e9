from __future__ import annotations

import pytest

from fleet.readings.host.clock import parse_chronyc_tracking
from fleet.readings.host.counters import counter_changes, parse_ethtool_stats, parse_port_counters
from fleet.readings.host.docker import parse_docker_versions
from fleet.readings.host.memory import parse_meminfo, parse_memlock
from fleet.readings.host.processors import parse_cpu_list, parse_lscpu, parse_numactl_hardware
from tests.readings.host_texts import CHRONY

ETHTOOL = """\
NIC statistics:
     rx_packets: 184467
     tx_packets: 100
     rx_prio3_pause: 12
     rx_prio3_pause_duration: 0
     rx_discards_phy: 0
     tx_pause_storm_error_events: 18446744073709551615
     [0]: rx_ucast_packets: 7
"""
PORTS = """\
/sys/class/infiniband/mlx5_0/ports/1/counters/port_xmit_data:4711
/sys/class/infiniband/mlx5_0/ports/1/counters/symbol_error:0
/sys/class/infiniband/mlx5_0/ports/1/counters/VL15_dropped:N/A (no PMA)
/sys/class/infiniband/mlx5_0/ports/1/hw_counters/out_of_sequence:5
/sys/class/infiniband/mlx5_0/ports/1/hw_counters/lifespan:10
/sys/class/infiniband/mlx5_10/ports/1/hw_counters/out_of_sequence:9
"""
LSCPU = """\
Architecture:            x86_64
  CPU op-mode(s):        32-bit, 64-bit
CPU(s):                  8
  On-line CPU(s) list:   0-7
Vendor ID:               GenuineIntel
  Model name:            Intel(R) Xeon(R) Platinum 8480C
    Thread(s) per core:  2
    Core(s) per socket:  2
    Socket(s):           2
    Flags:               fpu vme
NUMA:
  NUMA node(s):          2
  NUMA node0 CPU(s):     0,1,4,5
  NUMA node1 CPU(s):     2-3,6-7
Vulnerabilities:
  Meltdown:              Not affected
"""
LSCPU_JSON = """\
{"lscpu": [
  {"field": "Architecture:", "data": "x86_64"},
  {"field": "CPU(s):", "data": "8", "children": [
     {"field": "On-line CPU(s) list:", "data": "0-7"}]},
  {"field": "NUMA:", "data": null, "children": [
     {"field": "NUMA node(s):", "data": "2"},
     {"field": "NUMA node0 CPU(s):", "data": "0,1,4,5"},
     {"field": "NUMA node1 CPU(s):", "data": "2-3,6-7"}]}]}
"""
NUMACTL = """\
available: 2 nodes (0-1)
node 0 cpus: 0 1 4 5
node 0 size: 1031000 MB
node 0 free: 900000 MB
node 1 cpus: 2 3 6 7
node 1 size: 1032000 MB
node 1 free: 910000 MB
node distances:
node   0   1 
  0:  10  21 
  1:  21  10 
"""  # noqa: W291
MEMINFO = """\
MemTotal:       2113000000 kB
MemFree:        1900000000 kB
MemAvailable:   2000000000 kB
Shmem:             12345 kB
SwapTotal:             0 kB
SwapFree:              0 kB
HugePages_Total:      16
Hugepagesize:       2048 kB
DirectMap4k:      413568 kB
"""
DOCKER = """\
Client: Docker Engine - Community
 Version:           27.0.3
 API version:       1.46
 OS/Arch:           linux/amd64
 Context:           default

Server: Docker Engine - Community
 Engine:
  Version:          26.1.4
  API version:      1.45 (minimum version 1.24)
  Experimental:     false
 containerd:
  Version:          1.7.18
 runc:
  Version:          1.1.13
"""
DOCKER_JSON = (
    '{"Client":{"Version":"27.0.3","ApiVersion":"1.46"},"Server":{"Platform":{"Name":"x"},'
    '"Components":[{"Name":"Engine","Version":"9.9.9"}],"Version":"26.1.4","ApiVersion":"1.45"}}\n'
)
REFUSED = (
    "Cannot connect to the Docker daemon at unix:///var/run/docker.sock. "
    "Is the docker daemon running?\n"
)
LOCKED = (
    "core file size              (blocks, -c) 0\nmax locked memory           (kbytes, -l) 8192\n"
)

ALL = [
    (parse_chronyc_tracking, CHRONY),
    (parse_ethtool_stats, ETHTOOL),
    (parse_port_counters, PORTS),
    (parse_lscpu, LSCPU),
    (parse_lscpu, LSCPU_JSON),
    (parse_numactl_hardware, NUMACTL),
    (parse_meminfo, MEMINFO),
    (parse_memlock, LOCKED),
    (parse_memlock, "unlimited\n"),
    (parse_docker_versions, DOCKER),
    (parse_docker_versions, DOCKER_JSON),
]


def leaves(value, path=""):
    """Every value that a parser gives, by its path; what is unknown is left out."""
    if hasattr(value, "__dataclass_fields__"):
        value = {name: getattr(value, name) for name in value.__dataclass_fields__}
    if hasattr(value, "items"):
        return {k: v for n, part in value.items() for k, v in leaves(part, f"{path}.{n}").items()}
    return {} if value is None else {path: value}


def test_the_clock_has_its_offset_and_the_bound_of_its_error():
    clock = parse_chronyc_tracking(CHRONY)
    assert (clock.offset_s, clock.stratum, clock.is_synchronised) == (-8e-5, 3, True)
    assert clock.error_bound_s == pytest.approx(8e-5 + 3e-4 + 2e-4)


@pytest.mark.parametrize(
    ("word", "is_synchronised"),
    [
        ("Normal", True),
        ("Insert second", True),
        ("Delete second", True),
        ("Not synchronised", False),
    ],
)
def test_a_leap_second_to_come_is_no_lost_clock(word, is_synchronised):
    clock = parse_chronyc_tracking(CHRONY.replace("Normal", word))
    assert clock.is_synchronised is is_synchronised


@pytest.mark.parametrize(
    "text", ["506 Cannot talk to daemon\n", CHRONY.replace("Normal", "Norm"), CHRONY + CHRONY]
)
def test_a_clock_that_is_not_told_once_is_none(text):
    assert parse_chronyc_tracking(text) is None


def test_ethtool_gives_every_counter():
    found = parse_ethtool_stats(ETHTOOL)
    assert found.values["rx_packets"] == 184467
    assert found.values["tx_pause_storm_error_events"] == 2**64 - 1
    assert found.values["[0]: rx_ucast_packets"] == 7
    assert (found.unknown, found.unread) == ((), ())


@pytest.mark.parametrize(
    "text",
    ["", "no stats available\n", "NIC statistics:\n", "     rx_packets: 1\n", ETHTOOL + ETHTOOL,
     "netlink error: No such device\n"],
)  # fmt: skip
def test_what_is_not_one_output_of_ethtool_is_none(text):
    assert parse_ethtool_stats(text) is None


def test_ports_of_a_device_keep_their_names():
    found = parse_port_counters(PORTS)
    assert found.values == {
        "mlx5_0/1/counters/port_xmit_data": 4711,
        "mlx5_0/1/counters/symbol_error": 0,
        "mlx5_0/1/hw_counters/out_of_sequence": 5,
        "mlx5_10/1/hw_counters/out_of_sequence": 9,
    }
    assert found.unknown == ("mlx5_0/1/counters/VL15_dropped",)


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("./hw_counters/rnr_nak_retry_err:3", "hw_counters/rnr_nak_retry_err"),
        ("symbol_error:3", "symbol_error"),
        ("ports/1/counters/symbol_error:3", "ports/1/counters/symbol_error"),
        ("/sys/devices/pci0000:00/x/infiniband/bnxt_re0/ports/1/hw_counters/rx_pkts:3",
         "bnxt_re0/1/hw_counters/rx_pkts"),
    ],
)  # fmt: skip
def test_paths_may_be_relative(line, name):
    # A colon in the path of a PCI device is no end of the path.
    assert parse_port_counters(line + "\n").values == {name: 3}


def test_what_grep_refuses_is_told_and_not_zero():
    text = PORTS + "grep: /sys/class/infiniband/mlx5_0/ports/1/counters/x: Invalid argument\n"
    found = parse_port_counters(text)
    assert found.unread == (7,)
    assert not any(name.endswith("/x") for name in found.values)


def test_a_bare_name_among_other_output_is_no_counter():
    assert parse_port_counters("symbol_error:3\nlink_downed:0\n").values["link_downed"] == 0
    assert parse_port_counters("Welcome to node\nload:3\n") is None


def test_changes_are_differences():
    later = ETHTOOL.replace("rx_prio3_pause: 12", "rx_prio3_pause: 112")
    changes = counter_changes(parse_ethtool_stats(ETHTOOL), parse_ethtool_stats(later))
    assert changes.by_name["rx_prio3_pause"] == 100
    assert changes.by_name["rx_discards_phy"] == 0
    assert changes.is_known


def test_what_went_backwards_or_is_missing_is_unknown_and_not_zero():
    before = parse_port_counters(PORTS)
    later = PORTS.replace("out_of_sequence:5", "out_of_sequence:1").replace("symbol_error", "other")
    changes = counter_changes(before, parse_port_counters(later))
    assert changes.by_name["mlx5_0/1/hw_counters/out_of_sequence"] is None
    assert changes.went_back == ("mlx5_0/1/hw_counters/out_of_sequence",)
    assert set(changes.missing) == {
        "mlx5_0/1/counters/symbol_error",
        "mlx5_0/1/counters/other",
        "mlx5_0/1/counters/VL15_dropped",
    }
    assert all(changes.by_name[name] is None for name in changes.missing)
    assert not changes.is_known


def test_a_counter_whose_digits_may_be_cut_is_unknown():
    before = parse_port_counters(PORTS)
    cut = PORTS.replace("out_of_sequence:9", "out_of_sequence:95")[:-2]
    changes = counter_changes(before, parse_port_counters(cut))
    assert changes.by_name["mlx5_10/1/hw_counters/out_of_sequence"] is None


def test_a_counter_that_stands_twice_is_unknown():
    found = parse_port_counters(PORTS + PORTS.replace(":5", ":6"))
    assert found.values == {}
    assert len(found.unknown) == 5


def test_nothing_compared_with_nothing_is_not_known():
    empty = parse_ethtool_stats("NIC statistics:\n  a: 1\n")
    assert not counter_changes(type(empty)(), type(empty)()).is_known


@pytest.mark.parametrize("text", [LSCPU, LSCPU_JSON])
def test_processors_and_their_nodes(text):
    found = parse_lscpu(text)
    assert (found.cpus, found.numa_nodes, found.online) == (8, 2, tuple(range(8)))
    assert found.cpus_of_node == {0: (0, 1, 4, 5), 1: (2, 3, 6, 7)}
    assert found.is_consistent


def test_processors_have_their_model_and_threads():
    found = parse_lscpu(LSCPU)
    assert found.model == "Intel(R) Xeon(R) Platinum 8480C"
    assert (found.sockets, found.cores_per_socket, found.threads_per_core) == (2, 2, 2)


def test_a_node_that_is_missing_makes_it_inconsistent():
    found = parse_lscpu(LSCPU.replace("  NUMA node1 CPU(s):     2-3,6-7\n", ""))
    assert found.cpus == 8
    assert not found.is_consistent


def test_two_hosts_in_one_text_have_no_number_of_either():
    assert parse_lscpu(LSCPU + LSCPU.replace("8\n", "16\n")) is None
    assert parse_lscpu(LSCPU + LSCPU.replace(" 2\n", " 1\n")).sockets is None


@pytest.mark.parametrize(
    ("text", "cpus"),
    [("0-3,8", (0, 1, 2, 3, 8)), ("", ()), ("5", (5,)), ("3-1", None), ("0-99999", None),
     ("0,0", None), ("0-", None), ("a", None), ("\u0663", None)],
)  # fmt: skip
def test_a_list_of_processors(text, cpus):
    assert parse_cpu_list(text) == cpus


def test_memory_nodes_have_sizes_and_distances():
    nodes = parse_numactl_hardware(NUMACTL)
    assert [n.cpus for n in nodes] == [(0, 1, 4, 5), (2, 3, 6, 7)]
    assert nodes[0].size_bytes == 1031000 * 1024**2
    assert nodes[1].distances == (21, 10)


def test_a_memory_node_may_have_no_processors():
    text = NUMACTL.replace("node 1 cpus: 2 3 6 7", "node 1 cpus:")
    assert parse_numactl_hardware(text)[1].cpus == ()


@pytest.mark.parametrize(
    "text",
    [
        "No NUMA available on this system\n",
        NUMACTL + NUMACTL,
        NUMACTL.replace("node 1 size: 1032000 MB\n", ""),
        NUMACTL.replace("  1:  21  10 \n", ""),
        NUMACTL.replace("2 nodes (0-1)", "3 nodes (0-1)"),
        NUMACTL.replace("  1:  21  10", "  1:  21  1"),
        NUMACTL.rstrip(),
    ],
)
def test_memory_nodes_of_which_something_is_missing_are_none(text):
    assert parse_numactl_hardware(text) is None


def test_meminfo_is_in_bytes():
    found = parse_meminfo(MEMINFO)
    assert found.total_bytes == 2113000000 * 1024
    assert (found.swap_total_bytes, found.huge_pages, found.huge_page_bytes) == (0, 16, 2097152)
    assert parse_meminfo(MEMINFO.replace("SwapTotal", "Other")).swap_total_bytes is None


@pytest.mark.parametrize(
    "text",
    [
        "cat: /proc/meminfo: Permission denied\n",
        MEMINFO.replace("MemAvailable", "Other"),
        MEMINFO + MEMINFO.replace("2113000000", "1000000000"),
        MEMINFO.replace("2113000000", "0"),
    ],
)
def test_memory_that_is_not_told_is_none(text):
    assert parse_meminfo(text) is None


@pytest.mark.parametrize(
    ("text", "limit_bytes"),
    [("unlimited\n", None), ("8192\n", 8388608), ("0\n", 0), (LOCKED, 8388608),
     ("max locked memory       (-l) unlimited\n", None)],
)  # fmt: skip
def test_the_limit_of_locked_memory(text, limit_bytes):
    found = parse_memlock(text)
    assert found.limit_bytes == limit_bytes
    assert found.is_unlimited is (limit_bytes is None)


@pytest.mark.parametrize(
    "text", ["", "unlimit\n", "81", "sh: ulimit: not found\n", "8192\nunlimited\n", "-1\n", "8k\n"]
)
def test_a_limit_that_is_not_told_is_none(text):
    assert parse_memlock(text) is None


@pytest.mark.parametrize("text", [DOCKER, DOCKER_JSON])
def test_docker_has_a_client_and_a_server(text):
    found = parse_docker_versions(text)
    assert (found.client, found.client_api) == ("27.0.3", "1.46")
    assert (found.server, found.server_api, found.refusal) == ("26.1.4", "1.45", None)


@pytest.mark.parametrize(
    "text",
    [
        DOCKER.partition("Server")[0] + REFUSED,
        '{"Client":{"Version":"27.0.3","ApiVersion":"1.46"},"Server":null}\n' + REFUSED,
        REFUSED + '{"Client":{"Version":"27.0.3","ApiVersion":"1.46"},"Server":null}\n',
    ],
)
def test_a_daemon_that_does_not_answer_has_no_version(text):
    found = parse_docker_versions(text)
    assert (found.client, found.server) == ("27.0.3", None)
    assert found.refusal.startswith("Cannot connect")


def test_versions_of_components_are_not_the_servers():
    text = DOCKER.replace("  Version:          26.1.4\n", "")
    assert parse_docker_versions(text).server is None


@pytest.mark.parametrize(
    "text", ["", "docker: command not found\n", "{}", "{", "[]", '{"Client":3}', DOCKER_JSON * 2]
)
def test_what_is_not_dockers_answer_is_none(text):
    assert parse_docker_versions(text) is None


@pytest.mark.parametrize(("parse", "text"), ALL)
def test_a_torn_text_raises_nothing_and_gives_no_other_value(parse, text):
    whole = leaves(parse(text))
    assert whole
    for cut in range(len(text)):
        found = leaves(parse(text[:cut]))
        assert all(whole.get(path) == value for path, value in found.items()
                   if not path.endswith((".ends", ".unread", ".unknown"))), cut  # fmt: skip


@pytest.mark.parametrize(("parse", "text"), ALL)
def test_line_ends_of_windows_change_nothing(parse, text):
    assert parse(text.replace("\n", "\r\n")) == parse(text)


@pytest.mark.parametrize(("parse", "_text"), ALL)
@pytest.mark.parametrize(
    "text",
    ["", "\n", "\0" * 999, "M\ufffdnchen: \ufffd\n", "\u0663\u0664 kB\n", "{" * 50_000, "a" * 100_000,
     ": " * 50_000, "1-" * 50_000, "NIC statistics:\n" + "a:" * 9_000, "  0:" + " 1" * 30_000,
     " " * 100_000, "Leap status" + " " * 50_000, "node 0 cpus:" + " 7" * 30_000 + "\n",
     "System time     : 0." + "1" * 50_000, "/" * 50_000 + ":1\n", "a/" * 20_000 + ":1\n"],
)  # fmt: skip
def test_a_foreign_text_is_none(parse, _text, text):
    assert parse(text) is None


@pytest.mark.parametrize(("parse", "text"), ALL)
def test_another_output_in_between_invents_nothing(parse, text):
    foreign = "Mon Jun  1 2026\n0, NVIDIA H100, 41\nGPU0\t X \tNV18\nM\ufffdnchen\n"
    lines = text.splitlines(keepends=True)
    middle = len(lines) // 2
    found = leaves(parse("".join(lines[:middle]) + foreign + "".join(lines[middle:])))
    whole = leaves(parse(text))
    assert all(whole.get(path) == value for path, value in found.items()
               if not path.endswith((".unread", ".unknown")))  # fmt: skip
