# ruff: noqa: E501 - lines of tools stay whole
"""NCCL logs of other versions and of other ways to fail."""

import io

import pytest

from fleet.readings.kinds import read_as
from fleet.readings.report import Report


def read(text: str) -> Report:
    return read_as("nccl-log", io.BytesIO(text.encode()))


def start(
    ranks: int = 2, hosts: int = 2, extra: str = "", network: str = "Using network IB"
) -> str:
    """The lines of a whole start; `extra` stands before the end of the first rank."""
    lines = []
    for rank in range(ranks):
        seat = f"h100-{rank % hosts:03d}:{100 + rank}:{200 + rank} [{rank // hosts}] NCCL INFO"
        comm = f"comm 0x5581{rank:02d}0 rank {rank} nranks {ranks} cudaDev 0 nvmlDev 0 busId 1b000 commId 0xabc"
        lines += [f"{seat} {network}", f"{seat} {comm} - Init START"]
        lines += [extra] if extra and not rank else []
        lines += [f"{seat} {comm} - Init COMPLETE"]
    return "\n".join(lines) + "\n"


def test_a_whole_start_passes():
    found = read(start())
    assert (found.verdict, found.values["network"], found.values["host_count"]) == ("pass", "IB", 2)


WARN = "h100-000:100:200 [0] {} NCCL WARN {}"
# what NCCL says, verdict, finding, values
WARNINGS = [
    ("NET/IB : Got async event : port error", "fail", "ib_async_fatal", {"async_event": "port error"}),
    ("NET/IB : mlx5_0:1 Got async event : local access violation work queue error", "fail", "ib_async_fatal", {"hca": "mlx5_0"}),
    ("NET/IB : mlx5_3:1 Got fatal async event: port error(10)", "fail", "ib_async_fatal", {"hca": "mlx5_3"}),
    ("NET/IB : mlx5_3:1 Got non-fatal async event: GID table change(18)", "unknown", "ib_async_event", {"hca": "mlx5_3"}),
    ("Call to ibv_reg_mr_iova2 failed with error Cannot allocate memory", "fail", "memory_registration_failed", {}),
    ("Call to ibv_create_cq failed with error Cannot allocate memory", "fail", "verbs_failed", {}),
    ("Duplicate GPU detected : rank 0 and rank 1 both on CUDA device 1b000", "fail", "duplicate_gpu", {"rank": 0, "other_rank": 1}),
    ("Message truncated : received 1024 bytes instead of 256", "fail", "message_truncated", {}),
    ("Failed to bind NVLink SHARP (NVLS) Multicast memory of size 2097152 : CUDA error 401", "fail", "nvls_bind_failed", {}),
    ("NET/IB : Got completion from peer 10.1.3.201<33057> with status=12 opcode=0 len=0 vendor err 129 (Recv) localGid fe80::1 remoteGids::2", "fail", "ib_completion_error", {"status": 12, "vendor_err": 129}),
    ("socketPollConnect: Connect to 10.1.3.201<33057> returned 113(No route to host) errno 115 - Operation now in progress", "fail", "connect_failed", {}),
    ("NUMA auto balancing is enabled which can lead to variability in NCCL performance!", "unknown", "warning", {}),
]  # fmt: skip


@pytest.mark.parametrize(("message", "verdict", "name", "values"), WARNINGS)
@pytest.mark.parametrize(
    "source", ["transport/net_ib.cc:101", "[2026-11-30 20:26:37] transport/net_ib.cc:101"]
)
def test_a_warning_keeps_a_whole_start_from_passing(message, verdict, name, values, source):
    line = WARN.format(source, message)
    if source.startswith("["):
        line = f"{source[:21]} " + WARN.format(source[22:], message)
    found = read(start(extra=line))
    assert found.verdict == verdict
    finding = next(f for f in found.findings if f.id == name)
    assert finding.lines == (3,)
    assert {key: found.values[key] for key in values} == values


@pytest.mark.parametrize(
    "line",
    [
        "[rank3]:[F1130 20:26:37.1 ProcessGroupNCCL.cpp:1552] [PG ID 0 PG GUID 0(default_pg) Rank 3] [PG ID 0 PG GUID "
        "0(default_pg) Rank 3] ProcessGroupNCCL's watchdog got stuck for 480 seconds without making progress",
        "[rank3]:[E1130 20:26:37.1 ProcessGroupNCCL.cpp:616] [Rank 3] NCCL watchdog thread terminated with exception: "
        "CUDA error: unspecified launch failure",
    ],
)
def test_a_watchdog_that_gave_up_is_a_failure(line):
    assert read(line + "\n").verdict == "fail"


@pytest.mark.parametrize(
    ("way", "intra", "inter", "gdr"),
    [
        ("via P2P/CUMEM/read", "P2P/CUMEM/read", None, None),
        ("via P2P/IPC", "P2P/IPC", None, None),
        ("via SHM/direct/direct", "SHM/direct/direct", None, None),
        ("[send] via NET/IB/0(1)/GDRDMA", None, "NET/IB/0(1)/GDRDMA", True),
        ("[receive] via NET/IB/3/GDRDMA/Shared", None, "NET/IB/3/GDRDMA/Shared", True),
        ("[send] via NET/IB/3", None, "NET/IB/3", False),
        ("[send] via NET/IBext_v10/1/GDRDMA", None, "NET/IBext_v10/1/GDRDMA", None),
    ],
)
def test_transports_of_each_version_are_told(way, intra, inter, gdr):
    found = read(start(extra=f"h100-000:100:200 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[0] {way}"))
    assert found.values["transports"] == {"intra": intra, "inter": inter}
    assert found.values["gdr"] == gdr
    assert found.verdict == "pass"


def test_sockets_on_one_node_are_irrelevant_and_between_nodes_are_not():
    one, two = start(hosts=1, network="Using network Socket"), start(network="Using network Socket")
    assert (read(one).verdict, read(two).verdict) == ("pass", "unknown")


def test_a_rank_that_is_missing_is_told():
    text = "".join(
        line for line in start(4).splitlines(keepends=True) if "rank 3 nranks 4" not in line
    )
    found = read(text)
    assert (found.verdict, found.complete) == ("unknown", False)
    assert found.values["ranks_missing"] == {"0xabc": [3]}


@pytest.mark.parametrize(
    "prefix",
    [
        "[1,0]<stdout>:",
        "0: ",
        "2026-11-30T20:26:37Z ",
        "(RayWorkerWrapper pid=7, ip=10.0.0.1) ",
        "h100-000: ",
    ],
)
def test_a_launchers_mark_changes_nothing(prefix):
    text = "".join(f"{prefix}{line}" for line in start().splitlines(keepends=True))
    found = read(text)
    assert found.verdict == "pass"
    assert found.values["hosts"] == ["h100-000", "h100-001"]
