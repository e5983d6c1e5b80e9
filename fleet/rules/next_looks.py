"""What to look at next after an output was read: commands that only read, by what was found.

A look names no node: the text may be of any. Sources: the 384-card manual, sections 4.3, 4.4 and 12; the
one-card manual's table of what to check first; the tools' own documents for flags.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from fleet.readings.report import Report
from fleet.rules.message import say

LOOKS_MOST = 5


class Look(NamedTuple):
    """One thing to look at: a stored sentence, the command, and whether a card must be free for it."""

    what: str
    command: str
    needs_idle: bool = False


_ECC = Look(say("ECC counters and remapped rows"), "nvidia-smi -q -d ECC,ROW_REMAPPER")
_XID = Look(say("Xid and driver lines of the kernel"), "dmesg -T | grep -iE 'xid|nvrm|sxid'")
_KILLED = Look(
    say("Whether the kernel killed a process"), "dmesg -T | grep -iE 'oom|killed process'"
)
_CLOCKS = Look(
    say("Throttle reasons, power and temperature"), "nvidia-smi -q -d PERFORMANCE,POWER,TEMPERATURE"
)
_NVLINK = Look(say("NVLink of every card"), "nvidia-smi nvlink --status")
_FABRIC = Look(say("The fabric manager"), "systemctl status nvidia-fabricmanager")
_PORTS = Look(say("State and rate of every RDMA port"), "ibstat")
_LINK = Look(say("Errors and width of the port's link"), "mlxlink -d DEVICE -c")
_COUNTERS = Look(
    say("Retransmits and errors, before and after"),
    "grep -H . /sys/class/infiniband/*/ports/1/hw_counters/*",
)
_GIDS = Look(say("GID table with RoCE versions"), "show_gids")
_NETS = Look(say("Interfaces and their addresses"), "ip -br addr")
_SHM = Look(say("Size of /dev/shm in the container"), "df -h /dev/shm")
_DISKS = Look(say("Disks and what is free on them"), "lsblk && df -h")
_APPS = Look(
    say("Which processes hold GPU memory"),
    "nvidia-smi --query-compute-apps=pid,name,used_memory --format=csv",
)
_RANKS = Look(say("The first error of every rank"), "grep -m1 -HnE 'ERROR|WARN|Error' rank-*.log")
_NCCL = Look(
    say("Which transports NCCL chose"), "NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,NET,ENV", True
)
_TOPO = Look(say("PCIe and NUMA paths"), "nvidia-smi topo -m")
_PAIR = Look(
    say("The same pair again, values checked"), "all_reduce_perf -b 8 -e 8G -f 2 -g 1 -c 1", True
)
_MPI = Look(say("Whether the test was built with MPI"), "ldd all_reduce_perf | grep -i libmpi")
_WIRE = Look(
    say("The same rail with RDMA alone"), "ib_write_bw -d DEVICE --report_gbits -D 10", True
)
_VERSIONS = Look(say("Image and NCCL version on every node"), "docker image ls --digests")
_METRICS = Look(say("The same counters ten seconds later"), "curl -s http://HOST:8000/metrics")
_SOCKETS = Look(say("Addresses that the engine listens on"), "ss -ltnp")
_STACKS = Look(say("Where a rank that hangs stands"), "py-spy dump --pid PID")
_MEMORY = Look(say("Memory of the host"), "free -g && numactl -H")
_PCIE = Look(say("Width and speed of the PCIe link"), "lspci -vv | grep -E 'LnkCap|LnkSta'")
_SEL = Look(say("The board's own event log"), "ipmitool sel elist")
_TIME = Look(say("Which time servers the clock follows"), "chronyc sources -v")
_AGAIN = say("The whole output again, written to a file")

# Kind and id of a finding, as expressions; every row that fits adds its looks.
_BY_FINDING: tuple[tuple[str, str, tuple[Look, ...]], ...] = (
    ("nccl-tests", r"wrong_values|crash", (_XID, _ECC, _PAIR)),
    ("nccl-tests", r"not_validated|no_summary|rows_left_out|average_differs", (_PAIR,)),
    ("nccl-tests", r"transport_unproven", (_NCCL,)),
    ("nccl-tests", r"single_rank|ranks_missing", (_MPI,)),
    ("nccl-tests", r"outlier|as_slow_as_sockets", (_COUNTERS, _CLOCKS)),
    ("nccl-(?:tests|log)", r"socket_network|no_ibverbs|no_net_plugin", (_PORTS, _NETS, _NCCL)),
    ("nccl-log", r"bad_interface|connect_.*|bootstrap.*", (_NETS, _SOCKETS)),
    ("nccl-log", r"ib_completion_error|ibv_.*|gid_.*", (_PORTS, _COUNTERS, _GIDS)),
    ("nccl-log", r"shm_full", (_SHM,)),
    ("nccl-log", r"missing_ranks|ranks_.*|peer_dead|ras_.*|watchdog.*", (_RANKS, _XID, _STACKS)),
    ("nccl-log", r"nccl_version_mismatch|external_plugin|duplicate_rank", (_VERSIONS,)),
    ("kernel-log", r"xid_(?:48|63|64|92|94|95|140)|ecc.*", (_ECC,)),
    ("kernel-log", r"xid_(?:74|149|155)|sxid|nvlink_discovery", (_NVLINK, _FABRIC)),
    ("kernel-log", r"xid_\d+|lost_gpu.*|driver_mismatch", (_ECC, _APPS)),
    ("kernel-log", r"nic", (_PORTS, _LINK)),
    ("kernel-log", r"oom|file_max|segfault", (_MEMORY,)),
    ("kernel-log", r"pcie_width", (_PCIE,)),
    ("kernel-log", r"edac|mce", (_SEL,)),
    ("nvidia-smi", r"lost_gpu|unknown_error|no_devices|err_cells|reset_required", (_XID, _PCIE)),
    ("nvidia-smi", r"nvlink_down|no_links_read", (_NVLINK, _FABRIC, _XID)),
    ("nvidia-smi", r"throttled|.*clock.*", (_CLOCKS,)),
    ("nvidia-smi", r"ecc.*|remap.*|retired.*", (_ECC, _XID)),
    ("nvidia-smi", r"fabric_not_ready", (_FABRIC, _NVLINK)),
    ("nvidia-smi", r"inforom", (_XID,)),
    ("topo", r"nvlink_missing", (_NVLINK, _FABRIC, _XID)),
    ("topo", r"nic_far|uneven|.*numa.*", (_TOPO, _PCIE)),
    ("fabric", r"port_.*|link_down|no_active_port|no_carrier|netdev_down", (_PORTS, _LINK)),
    ("fabric", r"no_nvme|disk_.*|dev_shm.*", (_DISKS,)),
    ("fabric", r".*gid.*", (_GIDS,)),
    ("host", r"clock.*", (_TIME,)),
    ("host", r"count.*", (_COUNTERS, _LINK)),
    ("host", r"fio_failed|read_failed", (_DISKS,)),
    ("host", r"node_without_memory|cpus_offline|no_numa", (_MEMORY,)),
    ("host", r"packet.*|no_answer", (_NETS, _PORTS)),
    ("ib-write-bw", r"completion_error|port_down|no_context|link.*", (_PORTS, _LINK, _COUNTERS)),
    ("ib-write-bw", r"mib_unit|below_asked.*|sides_differ|outlier", (_WIRE, _COUNTERS)),
    ("vllm-log", r"kv_.*|gpu_not_free|oom.*|cuda_oom.*", (_APPS,)),
    ("vllm-log", r"illegal_access|cublas|no_kernel_image|nccl.*", (_XID, _VERSIONS)),
    (
        "vllm-log",
        r"worker_.*|start_failed|engine_.*|error_not_shown|cancelled",
        (_RANKS, _KILLED, _XID),
    ),
    ("vllm-log", r"listens_on_loopback", (_SOCKETS,)),
    ("vllm-log", r"disk_.*|shm.*", (_DISKS, _SHM)),
    ("metrics", r"stuck_suspect|requests_unknown|torn.*|two_scrapes", (_METRICS, _STACKS)),
    ("metrics", r"ecc.*|xid.*|remap.*", (_ECC, _XID)),
    ("metrics", r"throttled|.*clock.*", (_CLOCKS,)),
    ("bench", r".*failed.*|contradiction|rate_not_reached|goodput_below", (_METRICS,)),
)
# How an output of a kind is taken whole: into a file, with both streams.
TAKEN_BY = {
    "topo": "nvidia-smi topo -m > topo.txt 2>&1",
    "nvidia-smi": "nvidia-smi -q > smi.txt 2>&1",
    "fabric": "ibstat > ibstat.txt 2>&1",
    "nccl-tests": "all_reduce_perf ... > nccl-tests.txt 2>&1",
    "ib-write-bw": "ib_write_bw ... > ib.txt 2>&1",
    "nccl-log": "docker logs CONTAINER > nccl.txt 2>&1",
    "kernel-log": "dmesg --time-format iso > dmesg.txt 2>&1",
    "vllm-log": "docker logs CONTAINER > vllm.txt 2>&1",
    "bench": "vllm bench serve ... --save-result > bench.txt 2>&1",
    "metrics": "curl -s http://HOST:8000/metrics > metrics.txt",
    "host": "chronyc tracking > host.txt 2>&1",
}


def next_looks(report: Report) -> list[Look]:
    """Return at most five looks, those of the worst findings first; none after a clean pass."""
    looks: dict[str, Look] = {}
    if not report.complete and report.kind in TAKEN_BY:
        whole = Look(_AGAIN, TAKEN_BY[report.kind])
        looks[whole.command] = whole
    order = {"error": 0, "warn": 1, "info": 2}
    for finding in sorted(report.findings, key=lambda found: order[found.severity]):
        for kind, ids, rows in _BY_FINDING:
            if re.fullmatch(kind, report.kind) and re.fullmatch(ids, finding.id):
                looks |= {look.command: look for look in rows if look.command not in looks}
    return list(looks.values())[:LOOKS_MOST]
