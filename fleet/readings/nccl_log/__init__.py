"""Readings of NCCL and torch process-group lines: transports, set-up, errors, watchdog, RAS."""

from fleet.readings.nccl_log.reader import NcclReader

__all__ = ["NcclReader"]
