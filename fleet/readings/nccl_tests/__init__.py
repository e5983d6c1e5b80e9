"""Readings of nccl-tests (all_reduce_perf and siblings): runs, tables, summaries, crashes."""

from fleet.readings.nccl_tests.reader import NcclTestsReader

__all__ = ["NcclTestsReader"]
