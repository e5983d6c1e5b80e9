# ruff: noqa: E501 - lines of tools stay whole
"""Outputs of nccl-tests of other releases, options and launchers, and other ways in which a run ends."""

import pytest

from .test_nccl_tests import COLUMNS, SIZES, devices, ids, plan, read, summary, whole

HEAD = "# nccl-tests version 2.19.6 nccl-headers=23007 nccl-library=23007\n# Collective test starting: {name}_perf\n"
TAIL = "#\n# Collective test concluded: {name}_perf\n"
UNITS = "#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)       \n"
BUS = [20.0 * n for n in range(1, 9)]


def run(
    head: str = "float     sum      -1", wrong: str = "0", ip_wrong: str | None = None, **said: int
) -> str:
    rows = "".join(
        _row(size, bus, head, wrong, ip_wrong) for size, bus in zip(SIZES, BUS, strict=True)
    )
    return plan(**said) + devices() + "#\n" + COLUMNS + UNITS + rows + summary(sum(BUS) / len(BUS))


def _row(size: int, bus: float, head: str, wrong: str, ip_wrong: str | None) -> str:
    cells = [f"{size / bus / 500:8.2f} {bus / 1.875:7.2f} {bus:7.2f}"] * 2
    return (
        f"{size:12} {size // 4:13} {head} {cells[0]} {wrong:>6} {cells[1]} {ip_wrong or wrong:>6}\n"
    )


def test_the_newest_layout_passes_with_its_versions():
    text = (
        HEAD.format(name="all_reduce")
        + run().replace("graph: 0", "graph: 0 unalign: 0")
        + TAIL.format(name="all_reduce")
    )
    found = read(text)
    assert (found.verdict, found.complete) == ("pass", True)
    wanted = {
        "nccl_tests": "2.19.6",
        "nccl_library": 23007,
        "collective": "all_reduce",
        "ranks": 16,
        "concluded": True,
    }
    assert {key: found.values[key] for key in wanted} == wanted
    assert found.values["busbw_at_max"] == {"oop": 160.0, "ip": 160.0}


def test_a_run_that_was_started_and_did_not_conclude_is_no_pass():
    assert read(HEAD.format(name="all_reduce") + run()).verdict == "unknown"


@pytest.mark.parametrize(
    ("head", "redop", "root"),
    [
        ("float    none       0", "none", 0),
        ("float    none      -1", "none", -1),
        ("bfloat16     sum      -1", "sum", -1),
    ],
)
def test_operations_and_roots_of_other_collectives_are_read(head, redop, root):
    found = read(run(head))
    assert found.verdict == "pass"
    assert (found.values["redop"], found.values["root"]) == (redop, root)


def test_values_checked_out_of_place_only_are_checked():
    """sendrecv and alltoall cannot be checked in place: N/A stands there."""
    assert read(run("float    none      -1", ip_wrong="N/A")).verdict == "pass"


@pytest.mark.parametrize(
    "said", [{"wrong": "N/A"}, {"wrong": "N/A", "validation": 0}, {"validation": 0}]
)
def test_values_that_were_not_checked_are_no_pass(said):
    found = read(run(**said))
    assert found.verdict == "unknown"
    assert "not_validated" in ids(found)


@pytest.mark.parametrize(
    "mark", ["[1,0]<stdout>:", "0: ", "2026-11-30T20:26:37.123456789Z ", "[2026-11-30 20:26:37] "]
)
def test_a_launchers_mark_changes_nothing(mark):
    found = read("".join(f"{mark}{line}" for line in run().splitlines(keepends=True)))
    assert found.verdict == "pass"
    assert found.values["busbw_at_max"] == {"oop": 160.0, "ip": 160.0}


NCCL = "node-0:900:900 [0] NCCL INFO "
BETWEEN = [
    (
        f"{NCCL}Using network IB\n{NCCL}Channel 00/0 : 0[0] -> 8[0] [send] via NET/IB/0/GDRDMA\n",
        "pass",
        None,
    ),
    (
        f"{NCCL}Using network Socket\n{NCCL}Channel 00/0 : 0[0] -> 8[0] [send] via NET/Socket/0\n",
        "unknown",
        "socket_network",
    ),
    (
        "node-0:900:990 [0] transport/net_ib.cc:101 NCCL WARN NET/IB : mlx5_0:1 Got async event : port error\n",
        "fail",
        "ib_async_fatal",
    ),
    (
        "node-0:900:990 [0] transport/net_ib.cc:1909 NCCL WARN NET/IB : Got completion from peer 10.1.3.2<33057> with status=12 opcode=0 len=0 vendor err 129 (Recv)\n",
        "fail",
        "ib_completion_error",
    ),
]


@pytest.mark.parametrize(("lines", "verdict", "name"), BETWEEN)
def test_lines_of_nccl_between_rows_count(lines, verdict, name):
    """The table is whole and good in all of them."""
    first, rest = run().split(COLUMNS)
    found = read(first + lines + COLUMNS + rest)
    assert found.verdict == verdict
    assert name is None or name in ids(found)
    assert found.values["rows"] == 8


ENDS = [
    (
        "slurmstepd: error: *** STEP 4711.0 ON h100-001 CANCELLED AT 2026-11-30T20:26:37 DUE TO TIME LIMIT ***\n",
        "fail",
    ),
    (
        "mpirun noticed that process rank 3 with PID 0 on node h100-002 exited on signal 9 (Killed).\n",
        "fail",
    ),
    (
        "h100-001: Test NCCL failure common.cu:961 'unhandled system error (run with NCCL_DEBUG=INFO for details) / '\n .. h100-001 pid 900: Test failure common.cu:844\n",
        "fail",
    ),
    (
        "h100-001: Test CUDA failure common.cu:892 'out of memory'\n .. h100-001 pid 900: Test failure common.cu:891\n",
        "fail",
    ),
    ("/bin/bash: line 1:   900 Killed\n", "fail"),
    ("bash: all_reduce_perf: command not found\n", "fail"),
    (
        "./build/all_reduce_perf: error while loading shared libraries: libnccl.so.2: cannot open shared object file\n",
        "fail",
    ),
    ("", "unknown"),
]


@pytest.mark.parametrize(("end", "verdict"), ENDS)
def test_a_run_that_broke_off_has_no_average(end, verdict):
    text = "".join(run().splitlines(keepends=True)[:-4]) + end
    found = read(text)
    assert (found.verdict, found.complete) == (verdict, False)
    assert found.values["avg_busbw"] is None


def test_a_hang_in_the_middle_of_a_row_is_no_row():
    table = run().partition("# Out of bounds")[0]
    found = read(table[:-20])
    assert found.verdict == "unknown"
    assert found.values["rows"] == 7


def test_an_average_below_what_was_asked_for_fails():
    assert (
        read(
            run().replace("# Avg bus bandwidth    : 90 ", "# Avg bus bandwidth    : 90 FAILED")
        ).verdict
        == "fail"
    )


def test_several_pairs_one_after_the_other_have_values_each():
    found = read(whole() + whole())
    assert found.verdict == "pass"
    assert len(found.values["runs"]) == 2
    assert "avg_busbw" not in found.values
