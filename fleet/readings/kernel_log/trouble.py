"""What else a kernel prints when its host is in trouble: machine checks, PCIe, storage, hangs.

Known by their words alone. They keep a log from being called good; what they ask for, a person says.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from fleet.readings.report import Severity

_LINES_CAP = 64

# id, severity, any of these words, what it says
_TABLE: tuple[tuple[str, Severity, tuple[str, ...], str], ...] = (
    ("pcie_fatal", "error", ("AER: Uncorrected (Fatal)", "AER: Uncorrectable (Fatal)",
     "AER: Multiple Uncorrected (Fatal)", "AER: Multiple Uncorrectable (Fatal)"),
     "a PCIe device reported a fatal error"),
    ("pcie_nonfatal", "warn", ("Uncorrected (Non-Fatal) error", "Uncorrectable (Non-Fatal) error"),
     "a PCIe device reported an error that was not corrected"),
    ("pcie_corrected", "info", ("AER: Corrected error", "AER: Correctable error",
     "AER: Multiple Corrected error", "AER: Multiple Correctable error"),
     "PCIe errors were corrected"),
    ("machine_check", "warn", ("[Hardware Error]",), "the processor or its memory reported an error"),
    ("lockup", "error", ("soft lockup - CPU", "hard LOCKUP"), "a processor hung in the kernel"),
    ("rcu_stall", "warn", ("detected stall",), "a processor stalled"),
    ("hung_task", "warn", ("blocked for more than",), "a process hung in the kernel"),
    ("storage_error", "error", ("EXT4-fs error", "Corruption", "I/O error"),
     "a disk or its file system failed"),
    ("nvme_timeout", "warn", (" timeout, aborting", " timeout, reset controller",
     "controller is down; will reset"), "an NVMe disk did not answer in time"),
    ("nfs_timeout", "warn", ("not responding, still trying", "not responding, timed out"),
     "a file server did not answer"),
    ("nic_health", "error", ("health compromised", "mlx5_error_sw_reset", "Fatal error 0x"),
     "a NIC reported a fatal state"),
    ("kernel_warning", "warn", ("WARNING: CPU",), "the kernel warned of itself"),
    ("throttled", "warn", ("clock throttled",), "a processor was too hot"),
)  # fmt: skip
# What a line must hold to be worth reading; few and short, for they are searched in every line.
TROUBLE_HINTS = (
    b"AER: ", b"rror", b"ockup", b"OCKUP", b"detected stall", b"blocked for more", b"Corruption",
    b"nvme", b"not responding", b"WARNING: CPU", b"throttled",
)  # fmt: skip


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
                trouble = self.seen.setdefault(name, Trouble(severity, words))
                trouble.count += 1
                if len(trouble.lines) < _LINES_CAP:
                    trouble.lines.append(line)
                return True
        return False
