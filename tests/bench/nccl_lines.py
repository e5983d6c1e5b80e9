"""Lines of a night of many ranks, as NCCL, torch's watchdog and an engine print them; the same for a seed."""

from __future__ import annotations

import random
from collections.abc import Iterator

_VIA = (
    "P2P/CUMEM/read",
    "P2P/IPC",
    "NET/IB/3/GDRDMA",
    "NET/IB/5/GDRDMA",
    "NET/IB/1",
    "NET/Socket/0",
)
_SETUP = (
    "NCCL_IB_HCA set by environment to mlx5", "Using network IB", "Connected all rings",
    "NVLS multicast support is available on dev 0",
)  # fmt: skip


def nccl_lines(count: int, seed: int = 1) -> Iterator[str]:
    """Yield `count` lines without line feeds, in the mix of facts/PERF.md: six in ten are channels or rings."""
    chance = random.Random(seed)
    for number in range(count):
        share = chance.random()
        if share < 0.80:
            yield _seat(chance) + _nccl(chance, share)
        elif share < 0.801:
            yield _watchdog(chance, number)
        elif share < 0.91:
            yield _throughput(chance)
        else:
            port = chance.randrange(30_000, 60_000)
            yield f'INFO:     10.0.1.7:{port} - "POST /v1/chat/completions HTTP/1.1" 200 OK'


def _seat(chance: random.Random) -> str:
    card = chance.randrange(8)
    return f"node{chance.randrange(48):02d}:{4000 + card}:{4100 + card * 7} [{card}] NCCL "


def _nccl(chance: random.Random, share: float) -> str:
    if share < 0.47:
        rank, channel = chance.randrange(8), chance.randrange(16)
        peer = (rank + 1) % 8
        return f"INFO Channel {channel:02d}/0 : {rank}[{rank}] -> {peer}[{peer}] via {chance.choice(_VIA)}"
    if share < 0.62:
        return f"INFO Channel {chance.randrange(16):02d}/16 :    0   1   2   3   4   5   6   7"
    if share < 0.70:
        trees = " ".join(
            f"[{n}] {chance.randrange(8)}/-1/-1->{chance.randrange(8)}->0" for n in range(8)
        )
        return f"INFO Trees {trees}"
    if share < 0.74:
        rank = chance.randrange(8)
        return (
            f"INFO comm 0x{chance.getrandbits(47):x} rank {rank} nRanks 8 nNodes 1 localRanks 8 "
            f"localRank {rank} MNNVL 0"
        )
    if share < 0.77:
        cards = " ".join(f"[{n}]mlx5_{n}:1/RoCE" for n in range(8))
        return f"INFO NET/IB : Using {cards} [RO]; OOB eth0:10.0.0.1<0>"
    if share < 0.795:
        return f"INFO {chance.choice(_SETUP)}"
    return "WARN NET/IB : Got completion from peer 10.0.0.2<48122> with status=12 opcode=0 len=0 vendor err 129"


def _watchdog(chance: random.Random, number: int) -> str:
    rank = chance.randrange(8)
    return (
        f"[rank{rank}]:[E1129 10:11:12.{number % 10**6:06d} ProcessGroupNCCL.cpp:632] [Rank {rank}] Watchdog caught "
        f"collective operation timeout: WorkNCCL(SeqNum={number}, OpType=ALLREDUCE, NumelIn=1024, NumelOut=1024, "
        "Timeout(ms)=600000) ran for 600012 milliseconds before timing out."
    )


def _throughput(chance: random.Random) -> str:
    return (
        f"INFO 11-29 10:11:12 [loggers.py:123] Engine 000: Avg prompt throughput: {chance.random() * 9000:.1f} "
        f"tokens/s, Avg generation throughput: {chance.random() * 3000:.1f} tokens/s, "
        f"Running: {chance.randrange(256)} reqs, Waiting: {chance.randrange(64)} reqs"
    )
