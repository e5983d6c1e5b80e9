from __future__ import annotations

import json

import pytest

from fleet.readings.ib_write_bw.reader import parse_perftest
from fleet.readings.ib_write_bw.rows import read_header, to_gbps
from fleet.readings.kinds import recognise
from fleet.readings.verdicts.ib_write_bw import report_ib_write_bw

RULER = "-" * 87 + "\n"
TABLE = " #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]\n"
ROW = " 65536      5000             392.10             391.60\t\t   0.746918\n"
LAT_TABLE = (
    " #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]"
    "    t_stdev[usec]   99% percentile[usec]   99.9% percentile[usec]\n"
)
NUMBERS = ["001", "003", "006", "008", "009", "011", "012", "013", "015", "017"]


def head(test="RDMA_Write BW", device="mlx5_0", local="0x01", remote="0x02", qps=1):
    return (
        RULER
        + f"                    {test} Test\n"
        + f" Dual-port       : OFF\t\tDevice         : {device}\n"
        + f" Number of qps   : {qps}\t\tTransport type : IB\n"
        + " Connection type : RC\t\tUsing SRQ      : OFF\n"
        + " CQ Moderation   : 1\n Mtu             : 4096[B]\n Link type       : Ethernet\n"
        + " GID index       : 3\n Max inline data : 0[B]\n"
        + RULER
        + f" local address: LID 0000 QPN {local} PSN {local}a RKey 0x1 VAddr 0x7f\n"
        + " GID: 00:00:00:00:00:00:00:00:00:00:255:255:10:00:00:39\n"
        + f" remote address: LID 0000 QPN {remote} PSN {remote}a RKey 0x1 VAddr 0x7f\n"
        + RULER
    )


CLIENT = head() + TABLE + ROW + RULER
SERVER = head(local="0x02", remote="0x01") + TABLE + ROW + RULER
BANNER = "\n" + "*" * 36 + "\n* Waiting for client to connect... *\n" + "*" * 36 + "\n"


def ids(report):
    return {finding.id for finding in report.findings}


def test_a_whole_run_passes_with_its_settings():
    report = report_ib_write_bw(CLIENT)
    assert (report.verdict, report.complete, report.form) == ("pass", True, "bandwidth")
    values = report.values
    assert (values["bw_avg"], values["unit"], values["bw_avg_gbps"]) == (391.6, "Gb/sec", 391.6)
    assert (values["device"], values["gid_index"], values["mtu"], values["qps"]) == (
        "mlx5_0", 3, 4096, 1,
    )  # fmt: skip
    assert values["bidirectional"] is False
    assert report.unread == ()


def test_both_sides_of_one_test_are_one_test():
    report = report_ib_write_bw(CLIENT + BANNER + SERVER)
    assert (report.verdict, report.values["rows"], report.values["distinct_tests"]) == (
        "pass",
        2,
        1,
    )
    assert report.values["bw_avg"] == 391.6


def test_two_tests_are_not_added_nor_averaged():
    other = (
        head(device="mlx5_1", local="0x03", remote="0x04") + TABLE + ROW.replace("391.60", "196.10")
    )
    report = report_ib_write_bw(CLIENT + other.replace("0.746918", "0.374031") + RULER)
    assert report.values["distinct_tests"] == 2
    assert report.values["bw_avg"] is None
    assert [t["bw_avg"] for t in report.values["tests"]] == [391.6, 196.1]
    assert (report.values["device"], report.values["devices"]) == (None, ["mlx5_0", "mlx5_1"])


def test_sides_that_are_mixed_line_by_line_are_one_test():
    mine, theirs = CLIENT.splitlines(keepends=True), SERVER.splitlines(keepends=True)
    mixed = "".join(a + b for a, b in zip(mine, theirs, strict=True))
    report = report_ib_write_bw(mixed)
    assert (report.values["rows"], report.values["distinct_tests"]) == (2, 1)
    assert (report.values["bw_avg"], report.verdict) == (391.6, "pass")


def test_of_two_sides_the_lower_figure_counts():
    slower = ROW.replace("391.60", "391.20")
    report = report_ib_write_bw(CLIENT + SERVER.replace(ROW, slower))
    assert report.values["bw_avg"] == 391.2
    far = ROW.replace("391.60", "191.20").replace("0.746918", "0.364685")
    report = report_ib_write_bw(CLIENT + SERVER.replace(ROW, far))
    assert "sides_differ" in ids(report)
    assert report.verdict == "unknown"


def test_a_mebibyte_is_no_megabyte():
    assert to_gbps(1.0, "MB/sec") == pytest.approx(0.008388608)
    assert to_gbps(1.0, None) is None
    assert to_gbps(None, "MB/sec") is None


def test_both_directions_are_a_sum_and_say_so():
    text = CLIENT.replace("RDMA_Write BW", "RDMA_Write Bidirectional BW")
    report = report_ib_write_bw(text)
    assert report.values["bidirectional"] is True
    assert "bidirectional_sum" in ids(report)


def test_local_and_remote_parts_of_a_sum_are_no_results():
    half = ROW.replace("391.60", "195.80").replace("0.746918", "0.373459")
    parts = "".join(
        f"\n {side} results: \n{RULER}{TABLE}{half}{RULER}" for side in ("Local", "Remote")
    )
    text = CLIENT.replace("RDMA_Write BW", "RDMA_Write Bidirectional BW") + parts
    report = report_ib_write_bw(text)
    assert (report.values["bw_avg"], report.values["rows"], report.verdict) == (391.6, 3, "pass")


def test_a_peak_that_was_not_measured_is_no_result():
    text = " WARNING: BW peak won't be measured in this run.\n" + CLIENT.replace("392.10", "0.00")
    report = report_ib_write_bw(text)
    assert "no_peak" in ids(report)
    assert (report.values["bw_avg"], report.verdict) == (391.6, "pass")


def test_a_run_that_moved_nothing_fails():
    row = " 65536      0             0.00             0.00\t\t   0.000000\n"
    report = report_ib_write_bw(CLIENT.replace(ROW, row))
    assert (report.verdict, ids(report)) == ("fail", {"no_traffic"})


def test_intervals_give_no_single_figure():
    rows = "".join(
        f" 65536      5000     0.00     {gbps:.2f}     {gbps * 1e3 / 8 / 65536:.6f}\n"
        for gbps in (390.0, 389.0, 120.0)
    )
    report = report_ib_write_bw(CLIENT.replace(ROW, rows))
    assert report.values["bw_avg"] is None
    assert "uneven" in ids(report)
    assert report.verdict == "unknown"


def test_a_sweep_has_its_plateau_and_no_single_size():
    rows = "".join(
        f" {size}      5000     {gbps:.2f}     {gbps:.2f}     {gbps * 1e3 / 8 / size:.6f}\n"
        for size, gbps in ((2, 0.11), (1024, 58.81), (4096, 380.0), (8192, 391.5))
    )
    report = report_ib_write_bw(CLIENT.replace(ROW, rows))
    assert (report.verdict, report.values["bw_avg"]) == ("pass", None)
    assert report.values["plateau_gbps"] == 391.5


def test_latency_is_read_by_its_columns():
    row = " 2       1000    1.64   3.77   1.92     \t   1.93   \t0.02  \t\t2.01   \t\t3.77\n"
    text = head("RDMA_Write Latency") + LAT_TABLE + row + RULER
    report = report_ib_write_bw(text)
    values = report.values
    assert (report.verdict, report.form, values["test"]) == (
        "pass",
        "latency",
        "RDMA_Write Latency",
    )
    assert (values["t_typical_us"], values["t_avg_us"], values["p99_us"], values["p99_9_us"]) == (
        1.92, 1.93, 2.01, 3.77,
    )  # fmt: skip
    assert values["bw_avg"] is None


@pytest.mark.parametrize(
    ("line", "columns"),
    [
        (TABLE, 5),
        (
            " #bytes    #sl      #iterations    BW peak[MB/sec]    BW average[MB/sec]   MsgRate[Mpps]",
            6,
        ),
        (TABLE.rstrip() + "    CPU_Util[%]", 6),
        (TABLE.rstrip() + "   BW Port1[Gb/sec]   MsgRate Port1[Mpps]", 7),
        (" #bytes     #iterations    BW peak[MB/sec]    BW average[MB/sec]", 4),
        ("#bytes #iterations BW_peak[Gb/sec] BW_average[Gb/sec] MsgRate[Mpps]", 5),
        (" #bytes        #iterations       t_avg[usec]    tps average", 4),
        (LAT_TABLE, 9),
    ],
)
def test_columns_are_known_by_their_names(line, columns):
    assert len(read_header(1, line).columns) == columns


@pytest.mark.parametrize(
    "line", ["", "#bytes", "#iterations #bytes x", "bytes iterations", "#" * 9999]
)
def test_other_lines_are_no_header(line):
    assert read_header(1, line) is None


@pytest.mark.parametrize(
    ("text", "kind", "error"),
    [
        ("IB device mlx5_9 not found\n", "device_missing", "device missing"),
        (" Unable to find the Infiniband/RoCE device\n", "device_missing", "device missing"),
        (" Port number 2 state is Init\n", "port_down", "port down"),
        ("Couldn't connect to 10.0.0.5:18515\n", "connect_failed", "connect failed"),
        (" Unable to open file descriptor for socket connection Unable to init the socket connection\n",
         "connect_failed", "connect failed"),
        ("ethernet_read_keys: Couldn't read remote address\n", "handshake_failed", "handshake failed"),
        (" Failed to exchange data between server and clients\n", "handshake_failed", "handshake failed"),
        ("Couldn't allocate MR\n", "memory_refused", "memory refused"),
        ("failed to create mr\n", "memory_refused", "memory refused"),
        (" Unable to create QP.\n", "queue_failed", "queue failed"),
        ("Failed to modify QP 275 to RTR\n", "queue_failed", "queue failed"),
        ("cuInit(0) returned 100\n", "gpu_memory_failed", "gpu memory failed"),
        ("cuMemAlloc error=2\n", "gpu_memory_failed", "gpu memory failed"),
        ("bash: ib_write_bw: command not found\n", "tool_missing", "tool missing"),
        (" Failed to complete run_iter_bw function successfully\n", "run_failed", "run failed"),
        ("Segmentation fault (core dumped)\n", "run_failed", "run failed"),
        (" Couldn't do what nobody thought of\n", "failed", "failed"),
    ],
)  # fmt: skip
def test_a_sentence_of_failure_fails_with_or_without_a_table(text, kind, error):
    for before in ("", CLIENT):
        report = report_ib_write_bw(before + text)
        assert (report.verdict, report.values["error"]) == ("fail", error)
        assert kind in ids(report)
        assert error not in report.values["devices"]


@pytest.mark.parametrize(
    ("line", "status", "syndrome", "meaning"),
    [
        ("Failed status 12: wr_id 0 syndrom 0x81", 12, "0x81", "transport retry counter exceeded"),
        ("Failed status 13: wr_id 0 syndrom 0x87", 13, "0x87", "RNR retry counter exceeded"),
        (" Failed status 4: wr_id 0 syndrom 0x51", 4, "0x51", "local protection error"),
        ("Failed status 12 (transport retry counter exceeded): wr_id 0 syndrom 0x81", 12, "0x81",
         "transport retry counter exceeded"),
        ("Failed status 77: wr_id 0", 77, None, None),
    ],
)  # fmt: skip
def test_a_failed_completion_says_what_its_status_means(line, status, syndrome, meaning):
    report = report_ib_write_bw(f" Completion with error at client\n{line}\nscnt=128, ccnt=0\n")
    assert report.values["error"] == {"status": status, "syndrome": syndrome, "meaning": meaning}
    assert (report.verdict, report.unread) == ("fail", ())


@pytest.mark.parametrize(
    ("text", "status"),
    [
        ("Completion with error at client\nFailed status 1", None),
        ("Completion with error at client\nFailed status 12: wr_id 0 syndrom 0x8", 12),
        ("Completion with error at server\n", None),
    ],
)
def test_a_torn_error_gives_no_torn_number(text, status):
    error = report_ib_write_bw(text).values["error"]
    assert (error["status"], error["syndrome"]) == (status, None)


def test_what_it_says_of_gpu_memory_on_its_way_is_no_failure():
    text = (
        "initializing CUDA\nListing all CUDA devices in system:\ncreating CUDA Ctx\n"
        "cuMemAlloc() of a 131072 bytes GPU buffer\nallocated GPU buffer address at 0x7f\n"
    )
    report = report_ib_write_bw(text + CLIENT + "deallocating GPU buffer 0x7f\n")
    assert (report.verdict, report.values["error"]) == ("pass", None)


def test_an_active_port_is_no_failure():
    assert report_ib_write_bw("Port number 1 state is Active\n").verdict == "unknown"


def test_a_server_that_waits_is_unknown():
    report = report_ib_write_bw(BANNER)
    assert (report.verdict, report.form) == ("unknown", "header")
    assert "waited" in report.summary


def test_a_table_without_its_settings_is_unknown():
    report = report_ib_write_bw(TABLE + ROW + RULER)
    assert (report.verdict, report.complete, report.values["bw_avg"]) == ("unknown", False, 391.6)
    assert report.values["bidirectional"] is None


def test_a_table_is_closed_by_its_own_line_only():
    torn = head() + TABLE + ROW
    assert report_ib_write_bw(torn).verdict == "unknown"
    # The line that opens the next title does not close the table before it.
    assert report_ib_write_bw(torn + SERVER).verdict == "unknown"
    assert report_ib_write_bw(torn + BANNER + SERVER).verdict == "unknown"
    assert report_ib_write_bw(CLIENT + head(local="0x03", remote="0x04")).verdict == "unknown"


@pytest.mark.parametrize(
    "row",
    [
        " 65536      5000             392.10\n",
        " 65536      5000             392.10             391.60      0.746918   7\n",
        " 65536      5000             inf             nan      0.746918\n",
        " 65536      5000             392.10             -391.60      0.746918\n",
        " 65536\n",
    ],
)
def test_a_row_that_does_not_fit_is_torn_and_gives_no_number(row):
    report = report_ib_write_bw(head() + TABLE + row + RULER)
    assert (report.values["rows"], report.values["bw_avg"], report.verdict) == (0, None, "unknown")


def test_a_row_whose_figures_do_not_belong_together_is_no_pass():
    report = report_ib_write_bw(CLIENT.replace("391.60", "39.16"))
    assert "row_disagrees" in ids(report)
    assert report.verdict == "unknown"


def test_an_unfinished_last_cell_is_torn_and_a_finished_one_is_not():
    text = head() + TABLE + ROW.rstrip("\n")
    assert report_ib_write_bw(text).values["bw_avg"] == 391.6
    for cut in range(1, 6):
        assert report_ib_write_bw(text[:-cut]).values["rows"] == 0


def test_a_cut_setting_is_not_taken():
    text = head(qps=16)
    cut = text.index(": 16") + 3
    assert parse_perftest(text[:cut]).blocks[0].settings.get("qps") is None


@pytest.mark.parametrize("whole", [CLIENT, CLIENT + BANNER + SERVER, SERVER + "user@node:~$ "])
def test_a_torn_text_never_passes_and_gives_no_other_number(whole):
    full = report_ib_write_bw(whole).values
    row = whole.index(ROW) + len(ROW)
    second = whole.find("RDMA_Write", row)
    last_row = whole.rindex(ROW) + len(ROW)
    for cut in range(len(whole)):
        report = report_ib_write_bw(whole[:cut])
        # The first side alone is a whole output until the second one begins.
        assert report.verdict == "unknown" or cut > last_row or row < cut <= second
        for name in ("bw_avg", "unit", "device", "qps", "mtu", "gid_index", "link", "size"):
            assert report.values.get(name) in (None, full[name]), (cut, name)


def test_every_cut_of_two_mixed_sides_is_unknown(corpus):
    text = corpus("ib-write-bw", "001").text
    last_row = text.rindex("0.003007")
    for cut in range(0, last_row + 60, 7):
        assert report_ib_write_bw(text[:cut]).verdict == "unknown", cut


@pytest.mark.parametrize("number", NUMBERS)
def test_the_corpus_torn_at_each_tenth_does_not_pass(corpus, number):
    text = corpus("ib-write-bw", number).text
    for tenth in range(10):
        report = report_ib_write_bw(text[: len(text) * tenth // 10])
        assert report.verdict != "pass"
        json.dumps(report.as_object(), allow_nan=False)


@pytest.mark.parametrize("number", NUMBERS)
def test_line_ends_of_windows_change_nothing(corpus, number):
    text = corpus("ib-write-bw", number).text
    assert report_ib_write_bw(text.replace("\n", "\r\n")) == report_ib_write_bw(text)


def test_a_foreign_output_between_does_not_become_rows():
    foreign = "GPU0\t X \tNV18\n0, NVIDIA H100, 41, 70.52 W\nM\ufffdnchen 12 13\n"
    report = report_ib_write_bw(CLIENT.replace(ROW, ROW + foreign))
    assert (report.values["rows"], report.values["bw_avg"]) == (1, 391.6)
    assert report_ib_write_bw(foreign).form == "none"


@pytest.mark.parametrize(
    "text",
    [CLIENT, TABLE, BANNER, "Failed status 12: wr_id 0 syndrom 0x81\n", head("Send Latency"),
     "Couldn't get context for the device\n", "bash: ib_send_bw: command not found\n"],
)  # fmt: skip
def test_it_is_recognised(text):
    assert recognise(text) == "ib-write-bw"


@pytest.mark.parametrize(
    "text",
    [
        (head() + TABLE) + " 65536 5000 1.00 1.00 0.001907\n" * 20_000,
        head() * 300,
        "".join(
            "".join(head(local=f"0x{n:x}1", remote=f"0x{n:x}2").splitlines(True)[1:12:5])
            + TABLE
            + ROW
            for n in range(8_000)
        ),
        "-" * 100_000,
        (" " * 16_000 + "x\n") * 20,
        ("ib_" * 5_000 + "\n") * 20,
        ("Failed status " * 1_000 + "\n") * 20,
        ("*" * 16_000 + "x\n") * 20,
        " #bytes #iterations" * 5_000,
        TABLE + "1 " * 8_000,
        "Completion with error at client " * 500,
        ("A" * 40 + " ") * 400 + "BW Test",
    ],
)
def test_a_large_or_odd_text_ends_in_time(text):
    assert report_ib_write_bw(text).verdict != "pass"
