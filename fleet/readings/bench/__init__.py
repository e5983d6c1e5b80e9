"""Readings of load generators' summaries: vLLM, sglang, vllm-omni, aiperf, guidellm; text and JSON."""

from fleet.readings.bench.reader import BenchText, read_bench

__all__ = ["BenchText", "read_bench"]
