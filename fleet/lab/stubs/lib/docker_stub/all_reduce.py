"""`all_reduce_perf` of nccl-tests 2.17 over the cards of one node: the tool's layout, the rate of the node's state.

Rows follow from t = latency + size / rate, so that all columns of a row agree; the average is the mean of all
bus bandwidths, as the tool computes it.
"""

import os
import sys
import time

from .node import NODE_DIR, Refusal, gpus, note_unknown

TAKES_S = 12.0  # eight cards, 8M to 8G, divided by the lab's launch scale
LATENCY_US = 13.0
_SIDE_NAMES = "     time   algbw   busbw  #wrong"
_SIDE_UNITS = "     (us)  (GB/s)  (GB/s)        "
_UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
_FLAGS = {
    "-b": "low",
    "-e": "high",
    "-f": "factor",
    "-g": "gpus",
    "-n": "iters",
    "-w": "warmup",
    "-c": "check",
}


def run_all_reduce(args: list[str], argv: list[str], wanted: list[int], scale: float) -> int:
    """Print a whole run and return its exit code. `wanted`: the cards that the container has."""
    asked = {
        "low": 32 << 20,
        "high": 32 << 20,
        "factor": 0,
        "gpus": 1,
        "iters": 20,
        "warmup": 1,
        "check": 1,
    }
    words = list(args)
    while words:
        name = _FLAGS.get(words.pop(0))
        if name is None or not words:
            note_unknown(["run", *argv])
            raise Refusal("USAGE: all_reduce_perf \n\t[-t,--nthreads <num threads>] ...", code=0)
        asked[name] = _number(words.pop(0))
    if asked["gpus"] > len(wanted):
        # common.cu of nccl-tests
        _say(
            f"Invalid number of GPUs: {asked['gpus']} requested but only {len(wanted)} were found."
        )
        return 1
    rate, ready = _rates()
    pid, host = os.getpid(), os.environ.get("NODE_NAME", "localhost")
    unhealthy = [index for index, _uuid, health in gpus() if index in wanted and health != "ok"]
    if unhealthy or ready != "ready":
        why = "uncorrectable ECC error encountered" if unhealthy else "system not yet initialized"
        _say(f"{host}: Test CUDA failure common.cu:892 '{why}'")
        _say(f" .. {host} pid {pid}: Test failure common.cu:842")
        return 2
    buses = _buses()
    for line in head(asked, buses, host, pid):
        _say(line)
    rows = sizes(asked["low"], asked["high"], asked["factor"])
    found = []
    for size in rows:
        time.sleep(TAKES_S / scale / len(rows))
        cells = row(size, asked["gpus"], rate)
        found += [cells[2], cells[2]]
        _say(row_line(size, cells))
    for line in tail(found):
        _say(line)
    return 0


def table(gpus: int, low: int, high: int, factor: int, gbs: float, host: str, pid: int) -> str:
    """Return a whole run as one text whose average bus bandwidth is `gbs`, to three digits."""
    asked = {
        "low": low,
        "high": high,
        "factor": factor,
        "gpus": gpus,
        "iters": 20,
        "warmup": 1,
        "check": 1,
    }
    rows = [row(size, gpus, gbs, latency_us=0.0) for size in sizes(low, high, factor)]
    lines = [
        *head(asked, [f"{n:02x}" for n in range(gpus)], host, pid),
        *(
            row_line(size, cells)
            for size, cells in zip(sizes(low, high, factor), rows, strict=True)
        ),
        *tail([cells[2] for cells in rows for _side in (0, 1)]),
    ]
    return "\n".join(lines) + "\n"


def head(asked: dict, buses: list[str], host: str, pid: int) -> list[str]:
    """Return what stands above the rows."""
    plan = (
        f"# nThread 1 nGpus {asked['gpus']} minBytes {asked['low']} maxBytes {asked['high']} "
        f"step: {asked['factor']}(factor) warmup iters: {asked['warmup']} iters: {asked['iters']} "
        f"agg iters: 1 validation: {asked['check']} graph: 0"
    )
    devices = [
        f"#  Rank {rank:2d} Group  0 Pid {pid:6d} on {host:>10} device {rank:2d} "
        f"[0000:{buses[rank]}:00] NVIDIA H100 80GB HBM3"
        for rank in range(asked["gpus"])
    ]
    return [
        "# nccl-tests version 2.17.6 nccl-headers=22809 nccl-library=22809",
        "# Collective test starting: all_reduce_perf",
        plan,
        "#",
        "# Using devices",
        *devices,
        "#",
        f"#{'out-of-place':>74}{'in-place':>31}          ",
        f"#       size         count      type   redop    root{_SIDE_NAMES}{_SIDE_NAMES} ",
        f"#        (B)    (elements)                          {_SIDE_UNITS}{_SIDE_UNITS}  ",
    ]


def sizes(low: int, high: int, factor: int) -> list[int]:
    """Return the message sizes of a run."""
    found = [low]
    while factor > 1 and found[-1] * factor <= high:
        found.append(found[-1] * factor)
    return found


def row(
    size: int, ranks: int, gbs: float, latency_us: float = LATENCY_US
) -> tuple[float, float, float]:
    """Return time (us), algbw and busbw (GB/s) of one size; `gbs` is the bus bandwidth of large ones."""
    share = 2 * (ranks - 1) / ranks
    time_us = latency_us + size * share / (gbs * 1000)
    algbw = size / time_us / 1000
    return time_us, algbw, algbw * share


def row_line(size: int, cells: tuple[float, float, float]) -> str:
    """Return a row with equal out-of-place and in-place cells."""
    time_us, algbw, busbw = cells
    digits = 2 if time_us < 10_000 else 1 if time_us < 100_000 else 0
    side = f" {time_us:8.{digits}f} {algbw:7.2f} {busbw:7.2f}       0"
    return f"{size:12d} {size // 4:13d}     float     sum      -1{side}{side}"


def tail(busbw: list[float]) -> list[str]:
    """Return what stands below the rows."""
    average = sum(busbw) / len(busbw)
    return [
        "# Out of bounds values : 0 OK",
        f"# Avg bus bandwidth    : {average:.6g} ",
        "#",
        "# Collective test concluded: all_reduce_perf",
        "#",
    ]


def _number(text: str) -> int:
    unit = _UNITS.get(text[-1:].upper(), 1)
    return int(text[:-1] if unit > 1 else text) * unit


def _rates() -> tuple[float, str]:
    with open(os.path.join(NODE_DIR, "view", "rates"), encoding="utf-8") as file:
        allreduce, _disk, ready = file.read().split()
    return float(allreduce), ready


def _buses() -> list[str]:
    with open(os.path.join(NODE_DIR, "view", "smi.tsv"), encoding="utf-8") as file:
        names, _units, *rows = (line.rstrip("\n").split("\t") for line in file)
    place = names.index("pci.bus_id")
    return [cells[place].split(":")[1].lower() for cells in rows]


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()
