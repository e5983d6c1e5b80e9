# ruff: noqa: E501 - lines of tools stay whole
"""Kernel logs as other tools print them: clocks of dmesg and the journal, faults, and many nodes in one text."""

import io

import pytest

from fleet.readings.kernel_log import KernelReader
from fleet.readings.kernel_log.stamps import read_stamp
from fleet.readings.kinds import read_as, recognise
from fleet.readings.report import Report

OFF_BUS = "NVRM: Xid (PCI:0000:4e:00): 79, pid=1122, name=python3, GPU has fallen off the bus."


def read(text: str, kind: str = "kernel-log") -> Report:
    return read_as(kind, io.BytesIO(text.encode()))


def ids(found: Report) -> set[str]:
    return {finding.id for finding in found.findings}


STAMPS = [
    ("[Mon Nov 30 20:26:37 2026] {}", "dmesg"),
    ("[一 11月 30 20:26:37 2026] {}", "dmesg"),
    ("[Mo Okt 30 20:26:37 2026] {}", "dmesg"),
    ("[Nov30 20:26] {}", "dmesg"),
    ("[  +0.000012] {}", "dmesg"),
    ("[   12.345678] [    T123] {}", "dmesg"),
    ("2026-11-30T20:26:37,123456+08:00 {}", "dmesg"),
    ("kern  :warn  : [   12.345678] {}", "decoded"),
    ("kern  :err   : [Mon Nov 30 20:26:37 2026] {}", "decoded"),
    ("kern  :err   : 2026-11-30T20:26:37,123456+00:00 {}", "decoded"),
    ("<4>[   12.345678] {}", "dmesg"),
    ("Nov 30 20:26:37 h100-001 kernel: {}", "journal"),
    ("11月 30 20:26:37 h100-001 kernel: {}", "journal"),
    ("Nov 30 20:26:37.123456 h100-001 kernel: {}", "journal"),
    ("Mon 2026-11-30 20:26:37 UTC h100-001 kernel: {}", "journal"),
    ("2026-11-30T20:26:37+0000 h100-001 kernel: {}", "journal"),
    ("2026-11-30T20:26:37.123456+00:00 h100-001 kernel: [   12.345678] {}", "journal"),
    ("2026-11-30 20:26:37 h100-001 kernel: {}", "journal"),
    ("1796070397.123456 h100-001 kernel: {}", "journal"),
    ("<3>Nov 30 20:26:37 h100-001 kernel: {}", "journal"),
    ("<3>1 2026-11-30T20:26:37.123456Z h100-001 kernel - - - {}", "journal"),
]


@pytest.mark.parametrize(("form", "name"), STAMPS)
def test_every_clock_of_a_kernel_line_is_taken_off(form, name):
    stamped = read_stamp(form.format("mlx5_core 0000:5e:00.0: firmware version: 28.39.1002"))
    assert (stamped.text.split(":")[0], stamped.form) == ("mlx5_core 0000", name)


@pytest.mark.parametrize(("form", "name"), STAMPS)
def test_a_quiet_log_passes_and_a_lost_card_fails_whatever_the_clock(form, name):
    quiet = "".join(form.format(f"usb 1-{n}: new device") + "\n" for n in range(3))
    assert read(quiet).verdict == "pass"
    assert read(quiet + form.format(OFF_BUS) + "\n").findings[0].lines == (4,)
    assert read(quiet + form.format(OFF_BUS) + "\n").verdict == "fail"


@pytest.mark.parametrize(
    "line", ["EDAC MC0: 1 CE memory read error on DIMM0", "mlx5_core 0000:5e:00.0: Link up"]
)
def test_a_driver_behind_an_iso_time_is_no_host(line):
    assert read_stamp(f"2026-11-30T20:26:37,123456+00:00 {line}").host is None


# message, verdict, finding
FAULTS = [
    ("NVRM: Xid (PCI:0000:4e:00): 31, pid=7, name=python3, Ch 00000008, intr 00000000. MMU Fault", "unknown", "xid_31"),
    ("NVRM: Xid (PCI:0000:4e:00): 45, pid=7, name=python3, Ch 00000008", "unknown", "xid_45"),
    ("NVRM: Xid (PCI:0000:4e:00): 48, pid=7, name=python3, DBE (double bit error) on GPU", "fail", "xid_48"),
    ("NVRM: Xid (PCI:0000:4e:00): 61, pid=7, 0cec(3098) 00000000 00000000", "fail", "xid_61"),
    ("NVRM: Xid (PCI:0000:4e:00): 62, pid=7, 2027(30d8) 00000000 00000000", "fail", "xid_62"),
    ("NVRM: Xid (PCI:0000:4e:00): 63, pid=7, Row Remapper: New row marked for remapping, reset gpu", "unknown", "xid_63"),
    ("NVRM: Xid (PCI:0000:4e:00): 64, pid=7, Row Remapper: Failed to remap", "fail", "xid_64"),
    ("NVRM: Xid (PCI:0000:4e:00): 74, pid='<unknown>', name=<unknown>, NVLink: fatal error detected on link 6(0x10000)", "fail", "xid_74"),
    ("NVRM: Xid (PCI:0000:4e:00): 94, pid='<unknown>', name=<unknown>, Contained: SM (0x1). RST: No, D-RST: No", "unknown", "xid_94"),
    ("NVRM: Xid (PCI:0000:4e:00): 95, pid=7, name=python3, Uncontained: LTC TAG", "fail", "xid_95"),
    ("NVRM: Xid (PCI:0000:4e:00): 109, pid=7, name=pt_main_thread, Ch 00000008, errorString CTX SWITCH TIMEOUT", "fail", "xid_109"),
    ("NVRM: Xid (PCI:0000:4e:00): 119, pid=7, name=nvidia-smi, Timeout after 6s of waiting for RPC response from GPU1 GSP!", "fail", "xid_119"),
    ("NVRM: Xid (PCI:0000:4e:00): 120, pid=7, GSP task timeout", "fail", "xid_120"),
    ("NVRM: Xid (PCI:0000:4e:00): 137, RLW_RXPIPE interrupt hit on link 11 on GPU0: PRIV Error", "unknown", "xid_137"),
    ("NVRM: Xid (PCI:0019:01:00): 149, NETIR Fatal XC0 i0 Link -1 (0x000fe406 0x00000000)", "fail", "xid_149"),
    ("NVRM: Xid (PCI:0018:01:00): 145, RLW_RXPIPE Nonfatal XC0 i0 Link 13 (0x0409a0c2 0x00000008)", "pass", "xid_145"),
    ("NVRM: Xid (0000:4e:00): 79, GPU has fallen off the bus.", "fail", "xid_79"),
    ("NVRM: Xid (PCI:0000:4e:00): ", "unknown", "xid_torn"),
    ("nvidia-nvswitch3: SXid (PCI:0000:c1:00.0): garbled, Fatal", "unknown", "xid_torn"),
    ("nvidia-nvswitch0: SXid (PCI:0000:c3:00.0): 24007, Fatal, Link 30 sourcetrack timeout error", "fail", "sxid"),
    ("nvidia-nvswitch0: SXid (PCI:0000:c3:00.0): 20009, Non-fatal, Link 28 RX Short Error Rate", "unknown", "sxid"),
    ("nvidia-uvm: uvm_global_set_fatal_error_impl(): Fatal error: NV_ERR_GPU_IS_LOST", "fail", "driver_fatal"),
    ("NVRM: nvAssertFailedNoLog: Assertion failed: status == NV_OK @ kernel_gsp.c:100", "unknown", "driver_fault"),
    ("NVRM: _kgspRpcRecvPoll: GSP RM heartbeat timed out for GPU1 (expected every 5200 ms)", "unknown", "driver_fault"),
    ("NVRM: The NVIDIA probe routine failed for 1 device(s).", "fail", "driver_failed"),
    ("NVRM: GPU 0000:4e:00.0: RmInitAdapter failed! (0x62:0x40:2477)", "fail", "init_failed"),
    ("mlx5_core 0000:5e:00.0: poll_health:801:(pid 0): device's health compromised - reached miss count", "fail", "nic_health"),
    ("mlx5_core 0000:5e:00.0: print_health_info:431:(pid 0): Health issue observed, firmware internal error, severity(3) ERROR:", "fail", "nic_health"),
    ("mlx5_core 0000:5e:00.0: wait_func_handle_exec_timeout:1128:(pid 9): cmd[0]: CREATE_CQ(0x400) No done completion", "unknown", "nic_trouble"),
    ("mlx5_core 0000:5e:00.0: cq_err_event_notifier:529:(pid 9): CQ error on CQN 0x406, syndrome 0x1", "unknown", "nic_trouble"),
    ("mlx5_core 0000:5e:00.0: Port module event[error]: module 0, Cable error, Power budget exceeded", "unknown", "nic_trouble"),
    ("infiniband mlx5_2: dump_cqe:281:(pid 0): dump error cqe", "unknown", "nic_trouble"),
    ("mlx5_core 0000:5e:00.0 ens1f0np0: Link down", "unknown", "nic_link_down"),
    ("NETDEV WATCHDOG: ens1f0np0 (mlx5_core): transmit queue 0 timed out", "unknown", "nic_queue"),
    ("Memory cgroup out of memory: Killed process 4242 (python3) total-vm:1kB", "unknown", "oom"),
    ("Out of memory: Killed process 7899 (python) total-vm:26184840kB, anon-rss:15370088kB", "unknown", "oom"),
    ("EDAC MC2: 1 UE memory scrubbing error on CPU_SrcID#0_MC#1_Chan#0_DIMM#0", "fail", "edac"),
    ("EDAC MC0: 1 UE on any memory ( page:0x0 offset:0x0 grain:8)", "fail", "edac"),
    ("EDAC sbridge MC0: UE row 0, channel-a= 0 channel-b= 1", "fail", "edac"),
    ("{1}[Hardware Error]: event severity: fatal", "fail", "machine_check_fatal"),
    ("mce: [Hardware Error]: Machine check events logged", "unknown", "machine_check"),
    ("pcieport 0000:4a:01.0: pciehp: Slot(12): Link Down", "unknown", "pcie_lost"),
    ("nvidia 0000:4e:00.0: PCIe Bus Error: severity=Uncorrected (Fatal), type=Transaction Layer", "fail", "pcie_fatal"),
    ("AMD-Vi: Event logged [IO_PAGE_FAULT domain=0x0020 address=0xb4 flags=0x0020]", "unknown", "iommu_fault"),
    ("watchdog: BUG: soft lockup - CPU#17 stuck for 23s! [python3:4242]", "fail", "lockup"),
    ("rcu: INFO: rcu_sched self-detected stall on CPU", "unknown", "rcu_stall"),
    ("kernel BUG at mm/slub.c:305!", "fail", "crash"),
    ("Unable to handle kernel NULL pointer dereference at virtual address 0000000000000008", "fail", "crash"),
    ("XFS (nvme0n1): Metadata corruption detected at xfs_agf_verify", "fail", "storage_error"),
    ("blk_update_request: critical medium error, dev nvme1n1, sector 123", "fail", "storage_error"),
    ("EXT4-fs (nvme0n1p2): Remounting filesystem read-only", "fail", "read_only"),
    ("nvme nvme2: Device not ready; aborting reset, CSTS=0x1", "fail", "nvme_lost"),
    ("LustreError: 11-0: fs-OST0001-osc: operation ost_read failed: rc = -110", "unknown", "lustre_error"),
    ("nf_conntrack: nf_conntrack: table full, dropping packet", "unknown", "table_full"),
    ("python3: page allocation failure: order:4, mode:0x40dc0", "unknown", "page_allocation"),
]  # fmt: skip


@pytest.mark.parametrize(("message", "verdict", "name"), FAULTS)
@pytest.mark.parametrize("lines", [1, 200])
def test_a_fault_is_told_and_never_passes(message, verdict, name, lines):
    """Beyond the head of a log only lines with a hint are read at all."""
    quiet = "".join(f"[{n:5d}.000001] usb 1-1: new device number {n}\n" for n in range(lines))
    found = read(f"{quiet}[99999.000001] {message}\n")
    assert (found.verdict, found.complete) == (verdict, True)
    assert name in ids(found)
    assert next(f for f in found.findings if f.id == name).lines == (lines + 1,)


HEALTHY = [
    "NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64  570.195.03  Release Build",
    "nvidia-nvlink: Nvlink Core is being initialized, major device number 510",
    "mlx5_core 0000:5e:00.0: Port module event: module 0, Cable plugged",
    "mlx5_core 0000:5e:00.0: 252.048 Gb/s available PCIe bandwidth (32.0 GT/s PCIe x16 link)",
    "mlx5_core 0000:5e:00.0: mlx5_pcie_event:301:(pid 9): PCIe slot advertised sufficient power (75W).",
    "EDAC MC: Ver: 3.0.0",
    "EDAC skx MC0: Giving out device to module skx_edac",
    "ERST: Error Record Serialization Table (ERST) support is initialized.",
    "pcieport 0000:00:01.1: AER: enabled with IRQ 38",
    "RAS: Correctable Errors collector initialized.",
    "nvme nvme0: 8/0/0 default/read/poll queues",
    "EXT4-fs (nvme0n1p2): mounted filesystem with ordered data mode. Opts: errors=remount-ro",
    "perf: interrupt took too long (2509 > 2500), lowering kernel.perf_event_max_sample_rate",
]


def test_a_healthy_start_passes():
    found = read("".join(f"[{n:5d}.000001] {line}\n" for n, line in enumerate(HEALTHY)))
    assert found.verdict == "pass"
    assert {finding.severity for finding in found.findings} == {"info"}


def test_a_link_that_came_back_is_no_fault():
    up, down = (
        "[1.000001] mlx5_core 0000:5e:00.0 ens1: Link up\n",
        "[2.000001] mlx5_core 0000:5e:00.0 ens1: Link down\n",
    )
    assert read(up + down + up).verdict == "pass"
    assert read(up + down).verdict == "unknown"


def test_a_port_that_was_never_up_since_the_driver_loaded_is_not_used():
    load = "[1.000001] mlx5_core 0000:5e:00.0: firmware version: 28.39.1002\n"
    assert read(load + "[2.000001] mlx5_core 0000:5e:00.0 ens1: Link down\n").verdict == "pass"


def test_the_lines_of_one_fault_of_a_switch_are_one_finding():
    head = "[1.000001] nvidia-nvswitch3: SXid (PCI:0000:04:00.0): 22013, "
    rest = [
        "Non-fatal, Link 44 Minion Link DLREQ interrupt",
        "Severity 0 Engine instance 44",
        "Data {0x2b, 0x2b}",
    ]
    found = read("".join(f"{head}{words}\n" for words in rest))
    assert [f.lines for f in found.findings if f.id == "sxid"] == [(1, 2, 3)]
    assert len(found.values["sxids"]) == 3


# -- many nodes in one text

QUIET = "".join(f"[{n:5d}.000001] usb 1-1: new device number {n}\n" for n in range(100))
LOST = QUIET + f"[  999.000001] {OFF_BUS}\n"


def woven(**texts: str) -> str:
    """Print lines of nodes in turn, as pdsh does."""
    rows = {name.replace("_", "-"): text.splitlines() for name, text in texts.items()}
    longest = max(map(len, rows.values()))
    return "".join(
        f"{name}: {row}\n"
        for n in range(longest)
        for name, lines in rows.items()
        for row in lines[n : n + 1]
    )


def block(names: str, text: str, rule: str = "-" * 16) -> str:
    return f"{rule}\n{names}\n{rule}\n{text}"


def test_each_node_of_woven_lines_is_judged_for_itself():
    text = woven(h100_001=QUIET, h100_002=LOST, h100_003=QUIET)
    assert recognise(text) == "kernel-log"
    found = read(text)
    assert found.verdict == "fail"
    assert found.values["verdicts"] == {"h100-001": "pass", "h100-002": "fail", "h100-003": "pass"}
    assert found.values["nodes"]["h100-002"]["xids"][0]["code"] == 79
    assert found.values["nodes"]["h100-001"]["xids"] == []
    line = found.findings[0].lines[0]
    assert "h100-002: Xid 79" in found.findings[0].text
    assert OFF_BUS in text.split("\n")[line - 1]


def test_quiet_nodes_pass_and_one_that_did_not_answer_keeps_them_from_it():
    text = woven(h100_001=QUIET, h100_002=QUIET)
    assert (read(text).verdict, read(text).complete) == ("pass", True)
    failed = read(text + "pdsh@mgmt: h100-003: ssh exited with exit code 255\n")
    assert (failed.verdict, failed.complete) == ("unknown", False)
    assert failed.findings[0].id == "node_failed"


def test_a_line_that_names_no_node_is_not_a_pass():
    found = read(woven(h100_001=QUIET) + "and then something else\n")
    assert (found.verdict, found.complete, found.unread) == ("unknown", False, (101,))


@pytest.mark.parametrize(("rule", "count"), [("-" * 16, ""), ("-" * 15, " (3)")])
def test_folded_blocks_stand_for_each_node_of_them(rule, count):
    """What dshbak -c and clush -b print: equal outputs once, with the nodes that gave them."""
    text = block(f"h100-[001-003]{count}", QUIET, rule) + block("h100-004", LOST, rule)
    assert recognise(text) == "kernel-log"
    found = read(text)
    assert found.values["node_count"] == 4
    assert found.values["verdicts"]["h100-003"] == "pass"
    assert found.values["verdicts"]["h100-004"] == "fail"
    assert found.findings[0].lines == (len(text.splitlines()),)


def test_a_node_with_an_empty_block_is_unknown():
    found = read(
        block("h100-001", QUIET) + block("h100-002", "") + block("h100-003,h100-004", QUIET)
    )
    assert found.verdict == "unknown"
    assert found.values["verdicts"] == {
        "h100-001": "pass", "h100-002": "unknown", "h100-003": "pass", "h100-004": "pass",
    }  # fmt: skip


def test_a_node_in_two_blocks_is_judged_by_both():
    """Two captures in one text fold their nodes as their outputs differ."""
    text = block("h100-[001-002]", QUIET) + block("h100-001", LOST) + block("h100-002", QUIET)
    found = read(text)
    assert found.verdict == "fail"
    assert found.values["verdicts"] == {
        "h100-001": "pass", "h100-002": "pass", "h100-001 #2": "fail", "h100-002 #2": "pass",
    }  # fmt: skip
    assert found.findings[0].text.startswith("h100-001 #2: Xid 79")


def test_more_nodes_than_are_told_are_no_pass():
    found = read(block("h100-[0001-1000],x[0001-0100]", QUIET))
    assert (found.verdict, found.complete) == ("unknown", False)
    assert "76 more nodes" in next(f.text for f in found.findings if f.id == "nodes_left_out")


def test_a_switch_names_itself_and_no_node():
    """Lines without stamps (dmesg -t) begin with a device's name, which is no node's."""
    line = "nvidia-nvswitch0: SXid (PCI:0000:c3:00.0): 24007, Fatal, Link 30 sourcetrack timeout\n"
    found = read(line * 3)
    assert "nodes" not in found.values
    assert found.verdict == "fail"


def test_lines_of_a_node_keep_their_numbers_over_batches():
    reader = KernelReader()
    reader.feed([b"[1.000001] a"] * 70, range(1, 141, 2))
    reader.feed([f"[2.000001] {OFF_BUS}".encode()], [999])
    assert reader.xids.groups[79, "0000:4e:00"].first_line == 999
    assert reader.lines == 71


@pytest.mark.parametrize(
    "form", [form for form, _name in STAMPS if "kernel:" in form or "2026] " in form]
)
def test_a_quiet_log_is_known_by_its_stamps(form):
    text = "".join(form.format(f"usb 1-{n}: new device") + "\n" for n in range(3))
    assert recognise(text) == "kernel-log"


@pytest.mark.parametrize("indent", ["\t", "    "])
def test_a_log_that_was_pasted_with_an_indent_is_one(indent):
    assert read("".join(f"{indent}{line}\n" for line in QUIET.splitlines())).verdict == "pass"
    assert read("".join(f"{indent}{line}\n" for line in LOST.splitlines())).verdict == "fail"
