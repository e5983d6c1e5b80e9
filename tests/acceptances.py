"""Nodes that answer the steps of an acceptance, and facts that make them as gold: no SSH, rows only."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import zstandard
from django.utils import timezone

from fleet.execution import states
from fleet.execution.models import Command, LogChunk, Subject
from fleet.execution.output import Section, sections_pack
from fleet.lab.stubs.lib.docker_stub import all_reduce
from fleet.models import Node
from fleet.rules.acceptance import Pins
from fleet.rules.acceptance_stand import FIRST, rank_of
from fleet.rules.gather import commands_of
from fleet.rules.probe_reading import read_probe
from fleet.selectors.acceptance import stands_of
from fleet.services.acceptances import acceptances_advance
from fleet.services.probes import probe_settle
from tests.golden_profiles import NVLINK, make_facts, make_golden
from tests.rules.test_probe import sections as good_sections

IMAGE = f"registry.internal/vllm@sha256:{'7' * 64}"
PINS = Pins("REL-0001", IMAGE, "570.172.08", "96.00.89.00.01")
GIB = 1 << 30
PORTS = [
    {"device": f"mlx5_{n}", "port": 1, "state": "Active", "physical": "LinkUp", "rate_gbps": 400}
    for n in range(8)
]
# What the probe of the samples does not read.
MORE_FACTS = {
    "vbios": "96.00.89.00.01",
    "nvlink_matrix": NVLINK,
    "gpu_numa": [0, 0, 0, 0, 1, 1, 1, 1],
    "xids": [],
    "sxids": [],
    "remap_pending": False,
    "remap_failure": False,
    "rdma_ports": PORTS,
}
BUSBW_GBS, READ_GBS = 470.0, 12.0


def _read() -> dict[str, Any]:
    """What the probe of a good node says, over the facts that its samples do not hold."""
    reading = read_probe(good_sections(), commands_of("/models"))
    return MORE_FACTS | {fact.key: fact.value for fact in reading.facts if fact.value is not None}


def make_gold(**changed: Any) -> Any:
    """A current profile of the factories' node class, which answering nodes meet."""
    equal = {
        key: (value, "equal")
        for key, value in _read().items()
        if key.startswith(("nv", "gpu", "rdma"))
    }
    rates = {
        "allreduce_busbw_gbs": (BUSBW_GBS, "ratio", {"ratio": 0.9}),
        "disk_read_gbs": (READ_GBS, "ratio", {"ratio": 0.9}),
        "model_disk_total": (_read()["model_disk_total"], "ratio", {"ratio": 0.9}),
    }
    return make_golden({**equal, **rates, **changed})


def accepted_now(node_ids: Iterable[int]) -> set[int]:
    """Those of these nodes (keys) that placement takes for accepted ones."""
    return {pk for pk, stand in stands_of(node_ids).items() if rank_of(stand) == FIRST}


def settle(command: Command, state: str, **fields: object) -> None:
    Command.objects.filter(pk=command.pk).update(state=state, settled_at=timezone.now(), **fields)


def answer_probes(**changed: bytes) -> None:
    """Let every node that is being probed answer like a good one, but for the named sections."""
    for command in Command.objects.filter(state=states.QUEUED, purpose__startswith="probe:"):
        packed = [
            Section(
                name=name, rc=seen.rc, ms=3, body=changed.get(name.replace("-", "_"), seen.body)
            )
            for name, seen in good_sections().items()
        ]
        sections_pack(command.pk, packed).save()
        settle(command, states.SUCCEEDED, answer={"answer": "PROBE", "boot_id": "b-1"})
    probe_settle()


def answer_looks(*, image_rc: int = 0, memlock: str = "unlimited") -> None:
    """Let docker on every node tell of the image and of a container's limit."""
    inspect = json.dumps([{"RepoDigests": [IMAGE]}]).encode() if not image_rc else b"No such image"
    for command in Command.objects.filter(state=states.QUEUED, purpose__endswith="/look"):
        packed = [
            Section("image-0", rc=image_rc, ms=3, body=inspect),
            Section("memlock", rc=0, ms=3, body=f"{memlock}\n".encode()),
        ]
        sections_pack(command.pk, packed).save()
        settle(command, states.SUCCEEDED, answer={"answer": "PROBE"})


def nccl_table(busbw: float = BUSBW_GBS) -> str:
    """The output of all_reduce_perf on eight cards, as the lab's stand-in prints it."""
    return all_reduce.table(
        gpus=8, low=8 << 20, high=8 << 30, factor=2, gbs=busbw, host="h100-001", pid=7
    )


def dd_text(gbs: float = READ_GBS) -> str:
    size = 16 << 30
    return f"reading /models/a\n{size} bytes (17 GB, 16 GiB) copied, {size / gbs / 1e9:.6f} s, {gbs} GB/s\n"


def end_test(subject: Subject, text: str, rc: int = 0) -> None:
    """Let a test that was started end with this output, stored as the watch stores it."""
    start = subject.commands.get(verb="start")
    settle(start, states.SUCCEEDED)
    rows = "".join(f"0\t-\tI\t\t{line}\n" for line in text.splitlines())
    now = timezone.now()
    LogChunk.objects.create(
        stream=subject.stream, epoch=1, offset=0, end_offset=len(text), first_line=1,
        line_count=len(text.splitlines()), started_at=now, ended_at=now,
        body=zstandard.compress(rows.encode()),
    )  # fmt: skip
    subject.stream.__class__.objects.filter(pk=subject.stream.pk).update(is_complete=True)
    Subject.objects.filter(pk=subject.pk).update(state=states.SUBJECT_DONE, rc=rc, ended_at=now)


def end_tests(*, busbw: dict[str, float] | None = None) -> None:
    """Let every test end well; `busbw`: node name -> another bandwidth."""
    for subject in Subject.objects.filter(state=states.SUBJECT_NEW).order_by("name"):
        if subject.name.endswith("-nccl"):
            gbs = (busbw or {}).get(subject.host.name, BUSBW_GBS)
            end_test(subject, nccl_table(gbs))
        else:
            end_test(subject, dd_text())


def make_good(*nodes: Node) -> None:
    for node in nodes:
        make_facts(node, **MORE_FACTS)


def answer_all(*, busbw: dict[str, float] | None = None, **probe: bytes) -> None:
    """Carry every open acceptance to its verdict, as good nodes answer it."""
    answer_probes(**probe)
    acceptances_advance()
    answer_looks()
    end_tests(busbw=busbw)
    acceptances_advance()
