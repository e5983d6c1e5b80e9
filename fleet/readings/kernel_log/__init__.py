"""Readings of the kernel's log: GPU errors, host memory, NICs, crashes."""

from fleet.readings.kernel_log.reader import KernelReader

__all__ = ["KernelReader"]
