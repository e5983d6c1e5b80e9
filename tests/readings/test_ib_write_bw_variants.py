# ruff: noqa: E501 - lines of tools stay whole
"""Outputs of perftest with other options: sweeps, endless runs, GPU memory, both ways, latencies, and refusals."""

import pytest

from fleet.readings.verdicts.ib_write_bw import report_ib_write_bw

from .test_ib_write_bw import BANNER, LAT_TABLE, ROW, RULER, TABLE, head, ids

CUDA = """\
Perftest doesn't supports CUDA tests with inline messages: inline size set to 0
initializing CUDA
Listing all CUDA devices in system:
CUDA device 0: PCIe address is 1B:00

Picking device No. 0
[pid = 3669, dev = 0] device name = [NVIDIA H100 80GB HBM3]
creating CUDA Ctx
making it the current CUDA Ctx
cuMemAlloc() of a 67108864 bytes GPU buffer
allocated GPU buffer address at 00007f3fa4000000 pointer=0x7f3fa4000000
"""
AFTER = "deallocating GPU buffer 00007f3fa4000000\ndestroying current CUDA Ctx\n"


def row(size: int, gbps: float, iterations: int = 5000) -> str:
    rate = gbps * 1e3 / (size * 8)
    return f" {size:<10} {iterations:<16} {gbps + 0.5:<18.2f} {gbps:.2f}\t\t   {rate:.6f}\n"


def sweep(top: int = 23) -> str:
    return "".join(row(2**n, min(390.0, 0.2 * 2**n / 8)) for n in range(1, top + 1))


def test_a_sweep_over_sizes_passes_and_tells_its_plateau():
    found = report_ib_write_bw(head() + TABLE + sweep() + RULER)
    assert (found.verdict, found.values["rows"], found.values["plateau_gbps"]) == (
        "pass",
        23,
        390.0,
    )
    assert found.values["bw_avg"] is None


def test_an_endless_run_that_was_stopped_is_no_whole_one():
    found = report_ib_write_bw(head() + TABLE + ROW * 4 + "^C\n")
    assert (found.verdict, found.complete) == ("unknown", False)
    assert found.values["rows"] == 4


def test_an_endless_run_whose_speed_falls_is_said():
    found = report_ib_write_bw(
        head() + TABLE + row(65536, 390) + row(65536, 120) + row(65536, 390) + RULER
    )
    assert "uneven" in ids(found)
    assert found.verdict == "unknown"


def test_gpu_memory_changes_nothing():
    found = report_ib_write_bw(BANNER + CUDA + head() + TABLE + ROW + RULER + AFTER)
    assert (found.verdict, found.values["bw_avg_gbps"]) == ("pass", 391.6)
    assert not [f for f in found.findings if f.severity == "error"]


@pytest.mark.parametrize(
    "test",
    [
        "RDMA_Write Bidirectional BW",
        "Send Bidirectional BW",
        "RDMA_Read BW",
        "Send BW",
        "RDMA_Write Post List BW",
    ],
)
def test_each_tool_of_the_family_is_read(test):
    found = report_ib_write_bw(head(test=test) + TABLE + ROW + RULER)
    assert (found.verdict, found.values["bw_avg_gbps"]) == ("pass", 391.6)
    assert found.values["bidirectional"] is ("Bidirectional" in test)


def test_latency_is_read_by_its_columns():
    line = " 2       1000          1.58           5.02         1.61                1.62             0.05            1.80                    2.90\n"
    found = report_ib_write_bw(head(test="RDMA_Write Latency") + LAT_TABLE + line + RULER)
    assert (found.verdict, found.form) == ("pass", "latency")
    assert (found.values["t_typical_us"], found.values["p99_us"], found.values["bw_avg"]) == (
        1.61,
        1.8,
        None,
    )


def test_a_column_nobody_knows_is_not_guessed():
    table = TABLE.replace("   MsgRate", "   BW min[Gb/sec]   MsgRate")
    line = ROW.replace("391.60", "391.60   12.00")
    assert report_ib_write_bw(head() + table + line + RULER).verdict == "unknown"


@pytest.mark.parametrize(
    ("text", "name"),
    [
        (
            "mlx5: h100-001: got completion with error:\n Completion with error at client\n Failed status 12: wr_id 0 syndrom 0x81\nscnt=128, ccnt=0\n",
            "completion_error",
        ),
        (
            " Port number 1 state is Down\n Couldn't set the link layer\n Couldn't get context for the device\n",
            "port_down",
        ),
        (
            " IB device mlx5_9 not found\n Unable to find the Infiniband/RoCE device\n",
            "device_missing",
        ),
        (
            "Couldn't connect to 10.0.0.2:18515\nUnable to init the socket connection\n",
            "connect_failed",
        ),
        (
            " Failed to modify QP 0x1b2 to RTR\n Unable to Connect the HCA's through the link\n",
            "queue_failed",
        ),
        ("Couldn't allocate MR\nfailed to create mr\nFailed to create MR\n", "memory_refused"),
        ("bash: ib_write_bw: command not found\n", "tool_missing"),
        ("Segmentation fault (core dumped)\n", "run_failed"),
    ],
)
@pytest.mark.parametrize("before", ["", head()])
def test_a_refusal_fails_and_names_what_refused(text, name, before):
    found = report_ib_write_bw(before + text)
    assert (found.verdict, found.complete) == ("fail", False)
    assert name in ids(found)
    assert found.values["bw_avg"] is None


def test_a_rail_after_the_other_has_a_result_each():
    text = "".join(
        f"== mlx5_{n}\n"
        + head(device=f"mlx5_{n}", local=f"0x1{n}", remote=f"0x2{n}")
        + TABLE
        + row(65536, 380 + n)
        + RULER
        for n in range(8)
    )
    found = report_ib_write_bw(text)
    assert found.verdict == "pass"
    assert [test["bw_avg"] for test in found.values["tests"]] == [380.0 + n for n in range(8)]
