"""A launch with logs, as rows: what pages, sockets and benches are tried on without a node behind."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterable
from typing import Any

from fleet.execution.log_format import Line, LineFacts
from fleet.execution.models import Lease, LogStream, Subject
from fleet.execution.watch_lease import Fence, lease_claim
from fleet.execution.watch_store import open_writer
from releases.models import Launch, LaunchPosition, Release
from tests import factories

PREFIX = "node01:4003:4107 [3] NCCL INFO"


def make_launch(nodes: int = 2, name: str = "glm52-r1", *, state: str = "ready") -> Launch:
    """A launch on `nodes` nodes with 8 ranks each, whose subjects are live."""
    hosts = [factories.make_node(f"{name}-{n:03d}") for n in range(1, nodes + 1)]
    replica = factories.make_replica(name, nodes=hosts, generation=1)
    sha = hashlib.sha256(name.encode()).hexdigest()
    release = Release.objects.create(
        pool=replica.pool, title="rehearsal", content={}, content_sha256=sha
    )
    launch = Launch.objects.create(
        replica=replica, release=release, generation=1, plan={}, plan_sha256="p" * 64, state=state
    )
    for member in replica.members.all():
        subject = Subject.objects.create(
            host=member.node.host, name=f"ln-{launch.pk}-n{member.position}", state="live"
        )
        layout = {"position": member.position, "gpus_per_node": 8, "tp": 8, "pp": nodes, "dp": 1}
        LogStream.objects.create(subject=subject, layout=layout)
        LaunchPosition.objects.create(
            launch=launch, position=member.position, node=member.node, subject=subject
        )
    return launch


def stream_of(launch: Launch, position: int) -> LogStream:
    return LogStream.objects.get(subject__launch_position__launch=launch,
                                 subject__launch_position__position=position)  # fmt: skip


def hold_lease() -> Fence:
    """Be the watch of this test."""
    Lease.objects.filter(name="watch").delete()
    fence = lease_claim("test")
    assert fence is not None
    return fence


Said = tuple[int, int | None, str, str, str]  # ms after the start, rank, level, subsystem, text


def say(stream: LogStream, said: Iterable[Said], fence: Fence, start_ms: int | None = None) -> None:
    """Append lines to a stream as the watch does; times count from `start_ms` (default: now)."""
    writer, _ = open_writer(stream.pk, fence)
    at, number, offset = (
        start_ms or time.time_ns() // 1_000_000,
        writer.position.line_count,
        writer.position.end_offset,
    )
    lines = []
    for after_ms, rank, level, subsystem, text in said:
        number, offset = number + 1, offset + len(text.encode()) + 1
        lines.append(Line(number, offset, at + after_ms, LineFacts(rank, level, subsystem), text))
    if lines:
        writer.write(lines)


def night(launch: Launch, fence: Fence) -> dict[str, Any]:
    """The log of the mock-up: two nodes talk, rank 11 stops, seven ranks report the time-out."""
    start = time.time_ns() // 1_000_000 - 20 * 60_000
    head, follower = stream_of(launch, 0), stream_of(launch, 1)
    for position, stream in ((0, head), (1, follower)):
        say(stream, list(_chatter(position)), fence, start)
    fault = 16 * 60_000
    timeout = (
        "[rank{0}]:[E1129 18:31:07.113 ProcessGroupNCCL.cpp:632] [Rank {0}] Watchdog caught collective "
        "operation timeout: WorkNCCL(SeqNum=1848213, OpType=ALLREDUCE, NumelIn=7340032, "
        "NumelOut=7340032, Timeout(ms)=30000) ran for 30011 milliseconds before timing out."
    )
    ranks = [8, 9, 10, 12, 13, 14, 15]
    lines: list[Said] = [
        (fault + 7113 + 20 * n, rank, "E", "PG", timeout.format(rank))
        for n, rank in enumerate(ranks)
    ]
    lines += [
        (
            fault + 7400,
            8,
            "W",
            "NET",
            f"{PREFIX.replace('INFO', 'WARN')} peer rank 3 made no progress",
        ),
        (fault + 8000, None, "I", "ENG", "\x1b[1mengine\x1b[0m core \x1b[31mstops\x1b[0m"),
    ]
    say(follower, lines, fence, start)
    say(head, [(fault + 7600, 0, "W", "ENG", "stage 0 waits for stage 1 output")], fence, start)
    return {"head": head, "follower": follower, "start_ms": start}


def _chatter(position: int) -> Iterable[Said]:
    for n in range(16 * 60 * 2):
        rank = position * 8 + n % 8
        at = n * 500
        if n % 7 == 0:
            yield at, rank, "I", "NET", f"{PREFIX} NET/IB: mlx5_{rank % 8}:1/IB speed 400000"
        elif position == 0 or rank != 11 or n < 16 * 110:
            count = 1848212 - (16 * 120 - n) // 8
            text = (
                f"AllReduce: opCount {count:x} sendbuff 0x7f2e count 7340032 comm 0x55d1 [nranks=8]"
            )
            yield at, rank, "I", "COLL", f"{PREFIX} {text}"
