from __future__ import annotations

from datetime import UTC, datetime

import pytest

from fleet.readings.kernel_log import KernelReader
from fleet.readings.kernel_log.classes import xid_class
from fleet.readings.kernel_log.stamps import lines_since, read_stamp
from fleet.readings.verdicts.kernel_log import report_kernel_log

VERDICTS = {
    "001": "unknown", "003": "unknown", "004": "unknown", "005": "pass", "007": "unknown",
    "008": "pass", "011": "fail", "013": "fail", "014": "fail", "015": "fail", "016": "fail",
    "018": "fail", "020": "unknown", "022": "unknown", "023": "fail", "025": "unknown", "026": "fail",
    "030": "fail", "031": "fail",
}  # fmt: skip
SPOKEN = {"verdict", "must_not", "kind", "cause"}


def report(text):
    return report_kernel_log([[line.encode() for line in text.split("\n")]])


def holds(got, want):
    """Whether each wanted row is in the rows that were read, key by key."""
    return all(any(all(g.get(k) == v for k, v in w.items()) for g in got) for w in want)


@pytest.mark.parametrize("number", VERDICTS)
def test_it_takes_the_values_of_the_corpus(corpus, number):
    sample = corpus("kernel-log", number)
    found = report(sample.text)
    for key, want in sample.expected.items():
        if key in SPOKEN:
            continue
        got = found.values[key]
        if isinstance(want, list) and want and isinstance(want[0], dict):
            assert holds(got, want), (key, got)
            assert len(got) == len(want) or number == "025", (key, got)
        else:
            assert got == want, key
    assert found.verdict == VERDICTS[number]


def test_a_burst_is_one_event(corpus):
    found = report(corpus("kernel-log", "001").text)
    assert [f.id for f in found.findings] == ["xid_13", "xid_43", "oom"]


def test_a_crash_on_purpose_is_no_bug(corpus):
    found = report(corpus("kernel-log", "007").text)
    assert found.values["kind"] == "panic record from pstore"
    assert found.values["is_deliberate"] is True
    assert "on purpose" in found.summary
    assert found.values["cause"] == "SysRq : Trigger a crash"


def test_switches_and_links_that_come_up_are_no_fault(corpus):
    for number in ("005", "008"):
        found = report(corpus("kernel-log", number).text)
        assert {f.severity for f in found.findings} <= {"info"}


def test_cards_of_different_domains_are_different_cards(corpus):
    assert report(corpus("kernel-log", "011").text).values["gpus"] == 4


def test_a_code_of_a_switch_is_not_a_code_of_a_card():
    line = "nvidia-nvswitch3: SXid (PCI:0000:05:00.0): 20034, Fatal, Link 28 LTSSM Fault Up"
    found = report(f"[1.000000] {line}")
    assert found.values["xids"] == []
    assert found.values["sxids"][0]["code"] == 20034
    assert found.verdict == "fail"


@pytest.mark.parametrize(
    ("rest", "pid", "process"),
    [
        ("43, pid=2924364, name=pt_main_thread, Ch 00000008", 2924364, "pt_main_thread"),
        ("43, pid='<unknown>', name=<unknown>, Ch 00000008", None, None),
        ("43, pid=1, name=ray::WorkerDict, Ch 1", 1, "ray::WorkerDict"),
        ("43, pid=3234, Graphics", 3234, None),
        ("43", None, None),
    ],
)
def test_pid_and_name_may_be_missing(rest, pid, process):
    reader = KernelReader()
    reader.feed([f"NVRM: Xid (PCI:0000:01:00): {rest}".encode()])
    group = reader.xids.groups[43, "0000:01:00"]
    assert (group.pid, group.process) == (pid, process)


@pytest.mark.parametrize(
    ("bus", "want"),
    [
        ("0000:9b:00", "0000:9b:00"),
        ("0008:01:00", "0008:01:00"),
        ("0000:10:1c", "0000:10:1c"),
        ("0000:01:00 GPU-I:05", "0000:01:00"),
        ("0000:01:00.0", "0000:01:00"),
    ],
)
def test_every_form_of_a_bus_is_read(bus, want):
    reader = KernelReader()
    reader.feed([f"NVRM: Xid (PCI:{bus}): 79, pid='<unknown>'".encode()])
    assert list(reader.xids.groups) == [(79, want)]


def test_a_second_code_in_a_line_is_the_reason_not_an_event():
    line = "NVRM: Xid (PCI:0000:01:00): 45, pid=1, name=a, caused by previous Xid 149"
    found = report(line)
    assert [x["code"] for x in found.values["xids"]] == [45]
    assert found.values["xids"][0]["because"] == 149


@pytest.mark.parametrize(
    "line",
    [
        "NVRM: GPU 0000:4e:00.0: GPU has fallen off the bus.",
        "NVRM: The NVIDIA GPU 0000:4e:00.0 (PCI ID: 10de:2330) installed in this system has "
        "fallen off the bus and is not responding to commands.",
        "NVRM: GPU 0000:4e:00.0: RmInitAdapter failed! (0x62:0x40:2429)",
    ],
)
def test_a_card_may_be_lost_without_a_code(line):
    assert report(line).verdict == "fail"


@pytest.mark.parametrize(
    ("code", "name"),
    [
        (13, "app"), (31, "app"), (43, "app"), (45, "follow"), (48, "follow"), (63, "info"),
        (74, "reset"), (79, "hardware"), (94, "app"), (95, "reset"), (119, "reset"), (999, "ask"),
    ],
)  # fmt: skip
def test_codes_have_their_classes(code, name):
    assert xid_class(code) == name


def test_the_last_recovery_action_of_a_card_counts():
    line = "NVRM: Xid (PCI:0000:01:00): 154, GPU recovery action changed from 0x1 ({}) to 0x0 ({})"
    lines = [line.format("None", "GPU Reset Required"), line.format("GPU Reset Required", "None")]
    found = report("\n".join(lines))
    assert found.values["xids"][0]["action"] == "None"
    assert found.verdict == "pass"


@pytest.mark.parametrize(
    ("line", "form", "text"),
    [
        ("kern  :warn  : 2025-01-21T04:41:44,283302+00:00 NVRM: x", "decoded", "NVRM: x"),
        ("[171167.620236] NVRM: x", "dmesg", "NVRM: x"),
        ("[Fri Oct 14 14:56:49 2022] NVRM: x", "dmesg", "NVRM: x"),
        ("<6>[  201.650687] NVRM: x", "dmesg", "NVRM: x"),
        ("6,3964,206764307,-;NVRM: x", "kmsg", "NVRM: x"),
        ("4,1227,437812449999,c,1,-;NVRM: x", "kmsg", "NVRM: x"),
        ("2026-11-29T18:38:30+00:00 h100-028 kernel: NVRM: x", "journal", "NVRM: x"),
        ("Aug 25 19:25:12 node-a kernel: NVRM: x", "journal", "NVRM: x"),
        ("[2023-06-22 21:55:31.352446][5975153.878190] NVRM: x", "dmesg", "NVRM: x"),
        ("NVRM: x", "", "NVRM: x"),
    ],
)
def test_stamps_are_taken_off(line, form, text):
    stamped = read_stamp(line)
    assert (stamped.form, stamped.text) == (form, text)


def test_memory_stays_bounded_under_a_flood():
    reader = KernelReader()
    reader.feed(
        f"NVRM: Xid (PCI:0000:{n % 256:02x}:{n // 256:02x}): {n % 999}, pid={n}".encode()
        for n in range(20_000)
    )
    reader.feed(f"[1.0] p[{n}]: segfault at 0 ip 0 in lib{n}.so[1]".encode() for n in range(3_000))
    assert len(reader.xids.groups) <= 1024
    assert len(reader.host.segfaults) <= 512


@pytest.mark.parametrize(
    "stamp", ["2026-11-30T07:00:01,123456+00:00", "2026-11-30T08:00:01.123456+0100"]
)
def test_dmesg_with_its_offset_is_read(stamp):
    line = read_stamp(f"{stamp} NVRM: Xid (PCI:0000:18:00): 79, GPU has fallen off the bus.")
    assert (line.form, line.said_at, line.text[:5]) == ("dmesg", stamp, "NVRM:")


def test_only_lines_since_a_time_are_kept_with_what_belongs_to_them():
    log = [
        b"2026-11-30T06:59:59,000000+00:00 old",
        b"  more of the old one",
        b"2026-11-30T08:00:00,000000+01:00 new",
        b"  more of the new one",
    ]
    assert list(lines_since(log, datetime(2026, 11, 30, 7, tzinfo=UTC))) == log[2:]


def test_of_lines_that_do_not_tell_their_time_none_is_left_out():
    log = [b"[   12.345678] one", b"[Mon Nov 30 06:00:00 2026] two", b"three"]
    assert list(lines_since(log, datetime(2026, 11, 30, 7, tzinfo=UTC))) == log


@pytest.mark.parametrize(
    ("line", "form", "text"),
    [
        ("[    1.234567][  T123] NVRM: x", "dmesg", "NVRM: x"),
        ("[Jan21 04:41] NVRM: x", "dmesg", "NVRM: x"),
        ("[  +0.000123] NVRM: x", "dmesg", "NVRM: x"),
        ("[   12.345678 <    0.000001>] NVRM: x", "dmesg", "NVRM: x"),
        ("[sudo] password for ana:", "", "[sudo] password for ana:"),
        ("[0] node-a:1:1 [0] NCCL INFO x", "", "[0] node-a:1:1 [0] NCCL INFO x"),
        (
            "Aug 25 19:25:12 node-a systemd[1]: Started x.",
            "journal",
            "Aug 25 19:25:12 node-a systemd[1]: Started x.",
        ),
    ],
)
def test_only_clocks_are_stamps(line, form, text):
    stamped = read_stamp(line)
    assert (stamped.form, stamped.text) == (form, text)


@pytest.mark.parametrize(
    "line",
    [
        "[sudo] password for ana:",
        "dmesg: read kernel buffer failed: Operation not permitted",
        "GPU0\tX\tNV18",
    ],
)
@pytest.mark.parametrize("before", [0, 200])
def test_a_line_that_is_no_kernels_is_kept_and_takes_the_pass_away(line, before):
    stamped = [f"[{n:12.6f}] usb 1-1: new device" for n in range(before)]
    found = report("\n".join([*stamped, line, *stamped]))
    if line.startswith("[") and before:
        # Far into a log, what begins as its lines do is taken for one of them.
        return
    assert found.verdict == "unknown"
    assert found.unread == (before + 1,)


def test_a_journal_holds_lines_of_programs_too():
    found = report(
        "-- Logs begin at Tue 2026-11-24. --\n"
        "Nov 30 10:00:00 n1 kernel: usb 1-1: new device\n"
        "Nov 30 10:00:01 n1 systemd[1]: Started x.\n"
        "-- Reboot --\n"
    )
    assert (found.verdict, found.unread, found.values["host"]) == ("pass", (), "n1")


def test_lines_far_into_a_log_keep_their_numbers():
    lines = [f"[{n:12.6f}] usb 1-1: new device" for n in range(3000)]
    lines[2500] = "[ 2500.000000] NVRM: Xid (PCI:0000:01:00): 79, GPU has fallen off the bus."
    lines[2700] = (
        "[ 2700.000000] mlx5_core 0000:5c:00.0: Port module event: module 0, Cable plugged"
    )
    reader = KernelReader()
    for start in range(0, 3000, 700):
        reader.feed(line.encode() for line in lines[start : start + 700])
    assert reader.xids.groups[79, "0000:01:00"].first_line == 2501
    assert reader.host.nic_lines["0000:5c:00.0", "Cable plugged"] == [2701]
    assert reader.lines == 3000


def test_codes_stand_together_in_the_order_in_which_they_were_first_seen():
    rows = [(149, "0009"), (154, "0009"), (149, "0008"), (154, "0008")]
    found = report("\n".join(f"NVRM: Xid (PCI:{bus}:01:00): {code}, x" for code, bus in rows))
    assert [(x["code"], x["bus"][:4]) for x in found.values["xids"]] == [
        (149, "0009"), (149, "0008"), (154, "0009"), (154, "0008"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    "what", ["general protection fault ip:7f1c", "trap invalid opcode ip:7f1c"]
)
def test_a_trap_of_a_program_is_no_crash_of_the_kernel(what):
    found = report(f"[ 1.000000] traps: python3[77] {what} sp:7ffd error:0 in libcuda.so.1[7f+1]")
    assert [(f.id, f.severity) for f in found.findings] == [("segfault", "warn")]
    assert found.values["segfaults"][0]["library"] == "libcuda.so.1"


def test_a_crash_that_nobody_asked_for_is_a_failure():
    found = report("<1>[  201.654822] BUG: unable to handle kernel NULL pointer dereference at 0")
    assert [(f.id, f.severity) for f in found.findings] == [("crash", "error")]


@pytest.mark.parametrize(
    ("line", "name", "verdict"),
    [
        ("pcieport 0000:00:01.0: AER: Uncorrected (Fatal) error received", "pcie_fatal", "fail"),
        ("pcieport 0000:00:01.0: AER: Corrected error received", "pcie_corrected", "pass"),
        ("mce: [Hardware Error]: Machine check events logged", "machine_check", "unknown"),
        ("watchdog: BUG: soft lockup - CPU#3 stuck for 22s! [python:1]", "lockup", "fail"),
        ("rcu: INFO: rcu_sched self-detected stall on CPU", "rcu_stall", "unknown"),
        ("INFO: task python:123 blocked for more than 120 seconds.", "hung_task", "unknown"),
        ("EXT4-fs error (device nvme0n1p2): ext4_find_entry", "storage_error", "fail"),
        ("nvme nvme0: I/O 12 QID 3 timeout, aborting", "nvme_timeout", "unknown"),
        ("nfs: server n1 not responding, still trying", "nfs_timeout", "unknown"),
        ("mlx5_core 0000:01:00.0: device's health compromised", "nic_health", "fail"),
    ],
)
@pytest.mark.parametrize("before", [0, 100])
def test_trouble_of_the_host_takes_the_pass_away(line, name, verdict, before):
    stamped = [f"[{n:12.6f}] usb 1-1: new device" for n in range(before)]
    found = report("\n".join([*stamped, f"[  900.000000] {line}"]))
    assert [f.id for f in found.findings] == [name]
    assert found.verdict == verdict
    assert found.findings[0].lines == (before + 1,)


def test_the_card_of_a_message_over_three_lines_is_named():
    found = report(
        "[1.000001] NVRM: The NVIDIA GPU 0000:b3:00.0\n"
        "[1.000001] NVRM: (PCI ID: 10de:20b0) installed in this system has\n"
        "[1.000001] NVRM: fallen off the bus and is not responding to commands."
    )
    assert found.values["lost_gpus"] == ["0000:b3:00.0"]
    assert found.summary == "GPU 0000:b3:00.0 has fallen off the bus"
