"""What else a kernel prints when its host is in trouble: machine checks, PCIe, storage, hangs.

Known by their words alone. They keep a log from being called good; what they ask for, a person says.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from fleet.readings.report import Severity
from fleet.readings.told import tell

_LINES_CAP = 64

# id, severity, any of these words, what it says
_TABLE: tuple[tuple[str, Severity, tuple[str, ...], str], ...] = (
    ("pcie_fatal", "error", ("AER: Uncorrected (Fatal)", "AER: Uncorrectable (Fatal)",
     "AER: Multiple Uncorrected (Fatal)", "AER: Multiple Uncorrectable (Fatal)",
     "severity=Uncorrected (Fatal)", "severity=Uncorrectable (Fatal)"),
     tell("a PCIe device reported a fatal error")),
    ("pcie_nonfatal", "warn", ("Uncorrected (Non-Fatal) error", "Uncorrectable (Non-Fatal) error",
     "severity=Uncorrected (Non-Fatal)", "severity=Uncorrectable (Non-Fatal)"),
     tell("a PCIe device reported an error that was not corrected")),
    ("pcie_corrected", "info", ("AER: Corrected error", "AER: Correctable error",
     "AER: Multiple Corrected error", "AER: Multiple Correctable error", "severity=Corrected",
     "severity=Correctable"),
     tell("PCIe errors were corrected")),
    ("pcie_lost", "warn", ("): Link Down", "): Card not present", "is inaccessible", "device inaccessible"),
     tell("a PCIe device went away")),
    ("iommu_fault", "warn", ("IO_PAGE_FAULT", "DMAR: [DMA", "DMAR:[DMA"),
     tell("a device reached for memory that is not its own")),
    ("machine_check_fatal", "error", ("event severity: fatal", "Uncorrected hardware memory error",
     "Fatal Machine check", "Machine check: Processor context corrupt"),
     tell("the processor or its memory reported an error that was not corrected")),
    ("machine_check", "warn", ("[Hardware Error]",), tell("the processor or its memory reported an error")),
    ("lockup", "error", ("soft lockup - CPU", "hard LOCKUP"), tell("a processor hung in the kernel")),
    ("rcu_stall", "warn", ("detected stall",), tell("a processor stalled")),
    ("hung_task", "warn", ("blocked for more than",), tell("a process hung in the kernel")),
    ("storage_error", "error", ("EXT4-fs error", "Corruption", "orruption detected", "I/O error",
     "critical medium error", "critical target error", "Unrecovered read error", "Disk failure on"),
     tell("a disk or its file system failed")),
    ("nvme_timeout", "warn", (" timeout, aborting", " timeout, reset controller",
     "controller is down; will reset"), tell("an NVMe disk did not answer in time")),
    ("read_only", "error", ("emounting filesystem read-only", "emounted read-only"),
     tell("a file system was made read-only")),
    ("nvme_lost", "error", ("Removing after probe failure", "Device not ready; aborting",
     "Disabling device after reset failure"), tell("an NVMe disk was lost")),
    ("lustre_error", "warn", ("LustreError: ",), tell("a Lustre file system reported an error")),
    ("nfs_timeout", "warn", ("not responding, still trying", "not responding, timed out"),
     tell("a file server did not answer")),
    ("nic_health", "error", ("health compromised", "mlx5_error_sw_reset", "Fatal error 0x",
     "Health issue observed, firmware internal error", "health recovery flow aborted"),
     tell("a NIC reported a fatal state")),
    ("nic_queue", "warn", ("NETDEV WATCHDOG",), tell("a queue of a network card hung")),
    ("bond_down", "warn", ("link status definitely down",), tell("a link of a bond went down")),
    ("table_full", "warn", ("table full, dropping packet", "table overflow"), tell("a table of the network was full")),
    ("page_allocation", "warn", ("page allocation failure",), tell("the kernel found no memory in one piece")),
    ("memory_failure", "warn", ("Memory failure: 0x",), tell("a page of memory was taken out of use")),
    ("driver_failed", "error", ("probe routine failed", "None of the NVIDIA devices were",
     "No NVIDIA GPU found", "No NVIDIA graphics adapter found", "rm_init_adapter failed",
     "assigned to your NVIDIA device is invalid"), tell("the NVIDIA driver could not use a card")),
    ("driver_fatal", "error", ("uvm encountered global fatal error", "uvm_global_set_fatal_error",
     "NV_ERR_GPU_IS_LOST"), tell("the NVIDIA driver met a fatal error")),
    ("driver_fault", "warn", ("nvAssert", "GSP RM heartbeat timed out", "RM unhandled interrupt threshold"),
     tell("the NVIDIA driver reported a fault of its own")),
    ("kernel_warning", "warn", ("WARNING: CPU",), tell("the kernel warned of itself")),
    ("throttled", "warn", ("clock throttled",), tell("a processor was too hot")),
)  # fmt: skip
# What a line must hold to be worth reading; few and short, for they are searched in every line.
TROUBLE_HINTS = (
    b"AER: ", b"rror", b"ockup", b"OCKUP", b"detected stall", b"blocked for more",
    b"nvme", b"not responding", b"WARNING: CPU", b"throttled", b"pciehp", b"inaccessible", b"IO_PAGE_FAULT",
    b"DMAR:", b"orruption", b"read-only", b"NETDEV WATCHDOG", b"definitely down", b"able full", b"table overflow",
    b" failure",
)  # fmt: skip
# What else a NIC's driver says when something went wrong; its words change with each release.
_NIC_TROUBLE = re.compile(
    r"\bmlx5.{0,400}(?:[Ee]rror|fail|timed? ?out|abort|[Rr]ecovered \d{1,6} EQEs|syndrome)"
)


_NIC_WORDS = tell("the driver of a NIC reported an error")


@dataclass
class Trouble:
    """One kind of trouble, all its lines counted and the first ones kept."""

    severity: Severity
    text: str
    count: int = 0
    lines: list[int] = field(default_factory=list)


class TroubleLog:
    """Collects trouble by kind; the number of kinds is fixed."""

    def __init__(self) -> None:
        self.seen: dict[str, Trouble] = {}

    def take(self, text: str, line: int) -> bool:
        """Take one message; return whether it told of trouble."""
        for name, severity, needles, words in _TABLE:
            if any(needle in text for needle in needles):
                return self._note(name, severity, words, line)
        if _NIC_TROUBLE.search(text):
            return self._note("nic_trouble", "warn", _NIC_WORDS, line)
        return False

    def _note(self, name: str, severity: Severity, words: str, line: int) -> bool:
        trouble = self.seen.setdefault(name, Trouble(severity, words))
        trouble.count += 1
        if len(trouble.lines) < _LINES_CAP:
            trouble.lines.append(line)
        return True
