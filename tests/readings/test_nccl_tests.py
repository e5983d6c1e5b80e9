from __future__ import annotations

import io

import pytest

from fleet.readings.kinds import read_as
from fleet.readings.verdicts.nccl_tests import report_nccl_tests

SIZES = [2**n for n in range(20, 28)]
COLUMNS = (
    "#       size         count      type   redop    root     time   algbw   busbw #wrong"
    "     time   algbw   busbw #wrong\n"
)
OLD_COLUMNS = (
    "#       size         count    type   redop     time   algbw   busbw  error"
    "     time   algbw   busbw  error\n"
)


def read(text):
    raw = text if isinstance(text, bytes) else text.encode()
    return report_nccl_tests(io.BytesIO(raw))


def ids(report):
    return {finding.id for finding in report.findings}


def plan(low=SIZES[0], high=SIZES[-1], validation=1, step="2(factor)"):
    return (
        f"# nThread 1 nGpus 1 minBytes {low} maxBytes {high} step: {step} "
        f"warmup iters: 5 iters: 20 agg iters: 1 validation: {validation} graph: 0\n#\n# Using devices\n"
    )


def devices(ranks=16, hosts=2):
    each = max(ranks // hosts, 1)
    return "".join(
        f"#  Rank {r:2} Group  0 Pid {900 + r:6} on  node-{r // each} device {r % each:2} "
        f"[0000:0{r % each}:00] NVIDIA H100 80GB HBM3\n"
        for r in range(ranks)
    )


def row(size, bus=100.0, wrong="0", ip=None, head="float     sum      -1"):
    cells = f"{size / bus / 500:8.2f} {bus / 1.875:7.2f} {bus:7.2f} {wrong:>6}"
    other = f"{size / bus / 500:8.2f} {bus / 1.875:7.2f} {ip or bus:7.2f} {wrong:>6}"
    return f"{size:12} {size // 4:13} {head} {cells} {other}\n"


def summary(average, oob="0 OK", tail=" \n"):
    return f"# Out of bounds values : {oob}\n# Avg bus bandwidth    : {average:g}{tail}"


def whole(busses=None, **said):
    busses = busses or [20.0 * n for n in range(1, 9)]
    rows = "".join(row(s, b) for s, b in zip(SIZES, busses, strict=True))
    said = {"validation": 1, "ranks": 16, "hosts": 2} | said
    return (
        plan(validation=said["validation"])
        + devices(said["ranks"], said["hosts"])
        + "#\n"
        + COLUMNS
        + rows
        + summary(sum(busses) / len(busses))
    )


def test_a_whole_validated_run_passes():
    report = read(whole())
    assert (report.verdict, report.complete) == ("pass", True)
    assert report.values["busbw_at_max"] == {"oop": 160.0, "ip": 160.0}
    assert report.values["wrong"] == 0
    assert report.values["hosts"] == ["node-0", "node-1"]
    assert "transport_unproven" in ids(report)


def test_zeros_are_no_check_when_values_were_not_validated():
    report = read(whole(validation=0))
    assert report.verdict == "unknown"
    assert report.values["validated"] is False
    assert report.values["wrong"] is None
    assert "not_validated" in ids(report)


def test_a_table_without_its_summary_gets_no_average():
    text = whole()
    report = read(text[: text.index("# Out of bounds")])
    assert (report.verdict, report.complete) == ("unknown", False)
    assert report.values["avg_busbw"] is None
    assert report.values["oob"] is None
    assert "no_summary" in ids(report)


def test_a_crash_in_the_table_fails():
    text = whole()
    end = "node-0: Test NCCL failure common.cu:958 'remote process exited or there was a network error / '\n"
    report = read(text[: text.index("# Out of bounds")] + end)
    assert report.verdict == "fail"
    assert report.values["error"] == "remote process exited or there was a network error"
    assert report.values["avg_busbw"] is None


@pytest.mark.parametrize(
    "line",
    [
        "mpirun noticed that process rank 3 with PID 0 on node n exited on signal 9 (Killed).",
        "srun: error: node-1: task 8: Segmentation fault",
        "./all_reduce_perf: error while loading shared libraries: libnccl.so.2",
        "slurmstepd: error: *** STEP 7.0 ON n CANCELLED AT 2026-01-01T00:00:00 DUE TO TIME LIMIT ***",
        "bash: all_reduce_perf: command not found",
    ],
)
def test_what_a_launcher_says_of_a_broken_run_fails(line):
    assert read(plan() + devices() + line + "\n").verdict == "fail"


def test_values_out_of_bounds_fail_and_are_named_by_size():
    text = plan() + devices() + COLUMNS
    text += "".join(row(s, wrong="1e+07" if s == SIZES[2] else "0") for s in SIZES)
    report = read(text + summary(100, "20000000 FAILED"))
    assert report.verdict == "fail"
    assert report.values["oob"] == 20_000_000
    assert report.values["wrong_rows"] == {str(SIZES[2]): [10_000_000, 10_000_000]}


def test_an_average_below_what_was_asked_fails_on_its_line():
    report = read(whole().replace(": 90 \n", ": 90 FAILED\n"))
    assert report.verdict == "fail"
    assert (report.values["avg_busbw"], report.values["avg_ok"]) == (90.0, False)


def test_a_rounding_error_in_the_old_layout_is_no_wrong_value():
    old = "".join(
        row(s, wrong="5e-07", head="float     sum").replace("5e-07", " 5e-07") for s in SIZES
    )
    report = read(plan() + devices() + OLD_COLUMNS + old + summary(100))
    assert report.verdict == "pass"
    assert report.values["wrong"] is None
    assert report.values["wrong_column"] == "error"


@pytest.mark.parametrize("header", [OLD_COLUMNS, ""])
def test_an_empty_operation_is_read_by_what_fits(header):
    rows = "".join(row(s, wrong="0e+00", head="float          ") for s in SIZES)
    report = read(plan() + devices() + header + rows + summary(100))
    assert report.values["rows"] == len(SIZES)
    assert (report.values["redop"], report.values["root"]) == (None, None)


def test_one_rank_neither_passes_nor_fails():
    rows = "".join(row(s, 0.001) for s in SIZES)
    report = read(plan() + devices(1, 1) + COLUMNS + rows + summary(0))
    assert report.verdict == "unknown"
    assert report.values["single_rank"] is True
    assert "single_rank" in ids(report)


def test_two_jobs_line_by_line_are_not_averaged():
    one = whole().splitlines(keepends=True)
    other = whole([10.0 * n for n in range(1, 9)]).splitlines(keepends=True)
    text = "".join(line for pair in zip(one, other, strict=True) for line in pair)
    report = read(text)
    assert report.values["jobs"] == 2
    assert (report.verdict, report.complete) == ("unknown", False)
    assert "interleaved_runs" in ids(report)
    assert report.values.get("avg_busbw") is None
    assert report.values.get("busbw_at_max") is None


def test_jobs_of_one_rank_each_are_not_taken_for_a_job_of_two():
    rows = "".join(row(s, 0.001) for s in SIZES)
    one = (plan() + devices(1, 1) + COLUMNS + rows + summary(0)).splitlines()
    report = read("".join(f"{line}\n{line.replace('node-0', 'node-1')}\n" for line in one))
    assert report.verdict == "unknown"
    assert {"single_rank", "interleaved_runs"} <= ids(report)
    assert (report.values["jobs"], report.values["ranks"]) == (2, None)
    assert report.values["single_rank"] is True


def test_two_tables_whose_rows_mix_are_not_averaged():
    rows = [row(s) for s in SIZES]
    mixed = [*rows[:5], rows[0], rows[5], rows[1], rows[6], rows[7], *rows[2:]]
    report = read(plan() + devices() + COLUMNS + "".join(mixed) + summary(100))
    assert report.verdict == "unknown"
    assert report.values["monotonic"] is False
    assert report.values["busbw_at_max"] is None


def test_speakers_of_a_launcher_are_kept_apart():
    one, other = whole(), whole([10.0 * n for n in range(1, 9)])
    pairs = zip(one.splitlines(), other.splitlines(), strict=True)
    report = read("".join(f"node-a: {a}\nnode-b: {b}\n" for a, b in pairs))
    assert report.verdict == "pass"
    assert [run["avg_busbw"] for run in report.values["runs"]] == [90.0, 45.0]
    assert [run["speaker"] for run in report.values["runs"]] == ["node-a", "node-b"]
    assert "avg_busbw" not in report.values


def test_runs_one_after_another_each_count():
    report = read(whole() + whole())
    assert (report.verdict, report.values["jobs"]) == ("pass", 2)
    assert "interleaved_runs" not in ids(report)
    torn = read(whole() + whole()[:-60])
    assert (torn.verdict, torn.complete) == ("unknown", False)


def test_sizes_that_begin_again_for_another_type_or_cycle_are_one_run():
    rows = "".join(row(s) for s in SIZES)
    twice = read(plan() + devices() + COLUMNS + rows + rows + summary(100))
    assert (twice.verdict, twice.values["cycles"]) == ("pass", 2)
    types = rows + rows.replace("float", " half")
    assert read(plan() + devices() + COLUMNS + types + summary(100)).verdict == "pass"


@pytest.mark.parametrize("mark", ["...\n", "# [...]\n", "…\n"])
def test_dots_for_rows_are_no_whole_table(mark):
    text = whole()
    at = text.index(f"{SIZES[4]:12}")
    report = read(text[:at] + mark + text[at:])
    assert report.verdict == "unknown"
    assert "rows_left_out" in ids(report)


def test_a_row_taken_out_shows_in_count_and_average():
    text = whole()
    begin, end = text.index(f"{SIZES[7]:12}"), text.index("# Out of")
    report = read(text[:begin] + text[end:])
    assert {"rows_left_out", "average_differs"} <= ids(report)
    assert report.values["avg_busbw"] == 90.0


def test_the_newest_layout_keeps_its_last_columns_out_of_the_values():
    rows = "".join(row(s).rstrip("\n") + "      20 2026-01-02 03:04:05\n" for s in SIZES)
    columns = COLUMNS.rstrip("\n") + "  #iters  timestamp\n"
    report = read(plan() + devices() + columns + rows + summary(100))
    assert report.verdict == "pass"
    assert report.values["table"][0]["ip"]["wrong"] == 0


def nccl(line, host="node-0"):
    return f"{host}:900:950 [0] NCCL INFO {line}\n"


def test_nccl_lines_prove_the_network():
    lines = nccl("Using network IB") + nccl(
        "Channel 00/0 : 7[7] -> 8[0] [send] via NET/IB/0/GDRDMA"
    )
    text = whole()
    at = text.index(f"{SIZES[0]:12}")
    report = read(text[:at] + lines + text[at:])
    assert report.verdict == "pass"
    assert report.values["network"] == "IB"
    assert report.values["transports"]["inter"] == "NET/IB/0/GDRDMA"
    assert "transport_unproven" not in ids(report)


def test_a_job_on_sockets_does_not_pass_by_its_zero_ok():
    slow = whole([0.5 * n for n in range(1, 9)])
    assert read(slow).verdict == "unknown"
    assert "as_slow_as_sockets" in ids(read(slow))
    lines = nccl("Using network Socket") + nccl(
        "Channel 00/0 : 7[7] -> 8[0] [send] via NET/Socket/0"
    )
    proven = read(lines + slow)
    assert proven.values["network"] == "Socket"
    assert (proven.verdict, proven.values["oob_ok"]) == ("unknown", True)
    assert "socket_network" in ids(proven)


def test_sockets_on_a_single_node_carry_nothing():
    report = read(nccl("Using network Socket") + whole(hosts=1))
    assert report.verdict == "pass"


def test_a_row_into_which_nccl_wrote_is_torn():
    text = whole()
    at = text.index(f"{SIZES[3]:12}") + 60
    report = read(text[:at] + nccl("comm 0x1 rank 0 nranks 2 - Destroy COMPLETE") + text[at:])
    assert (report.verdict, report.complete) == ("unknown", False)


def test_a_cut_at_any_place_never_passes_and_invents_no_number():
    text = whole([17.13 * n for n in range(1, 9)])
    good = read(text).values
    known = {(r["size"], r["oop"]["busbw"]) for r in good["table"]}
    places = [*range(0, len(text) - 300, 17), *range(len(text) - 300, len(text) - 2)]
    for at in places:
        report = read(text[:at])
        assert report.verdict != "pass", at
        values = report.values
        assert values.get("avg_busbw") in (None, good["avg_busbw"]), at
        assert {(r["size"], r["oop"]["busbw"]) for r in values.get("table", ())} <= known, at


def test_a_head_cut_at_any_place_never_passes_and_invents_no_size():
    text = whole()
    sizes = set(SIZES)
    for at in range(3, len(text), 7):
        report = read(text[at:])
        assert report.verdict != "pass" or at < 4, at
        assert {r["size"] for r in report.values.get("table", ())} <= sizes, at


def test_line_ends_of_windows_and_odd_bytes_change_nothing():
    text = whole()
    assert read(text.replace("\n", "\r\n")).values == read(text).values
    odd = text.encode().replace(b"node-1", "knöten".encode("latin-1"))
    assert read(odd).verdict == "pass"
    assert read(b"").verdict == "unknown"


def test_stamps_and_marks_before_lines_do_not_part_a_run():
    stamped = "".join(
        f"2026-01-02T03:04:{n % 60:02}.123Z [1,0]<stdout>:{line}\n"
        for n, line in enumerate(whole().splitlines())
    )
    report = read(stamped)
    assert (report.verdict, report.values["speaker"]) == ("pass", "[1,0]")


def test_memory_stays_small_whatever_comes():
    text = (whole() * 3).encode()
    noise = b"".join(b"n:1:1 [0] NCCL INFO noise %d\n" % n for n in range(60_000))
    report = read(noise + text + noise)
    assert (report.verdict, report.values["jobs"]) == ("pass", 3)
    assert read_as("auto", io.BytesIO(text + noise)).kind == "nccl-tests"
