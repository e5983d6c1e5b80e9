"""Round trip: what the engine prints is read by the console's own readings, whole and right."""

import pytest

from fleet.readings.nccl_log import NcclReader
from fleet.readings.vllm_log import PHASES, PhaseReader
from tests.lab_engine.units import FASTER, Container, Units


def read(container: Container) -> PhaseReader:
    reader = PhaseReader()
    for line in container.log.split("\n"):
        reader.feed(line)
    return reader


def test_the_heads_start_opens_every_phase(head: Container) -> None:
    reader = read(head)
    assert [opened.phase for opened in reader.transitions] == list(PHASES)
    assert reader.failures == ()
    assert reader.unread == []


def test_the_followers_start_ends_in_warm_up(follower: Container) -> None:
    reader = read(follower)
    assert reader.phase == "warmup"
    assert reader.failures == ()
    assert reader.unread == []


def test_the_nccl_block_is_read_as_infiniband_with_gdr(head: Container) -> None:
    reader = NcclReader()
    reader.feed(line.encode() for line in head.log.split("\n"))
    reader.finish()
    counts = reader.table.transport_counts()
    assert sum(count for name, count in counts.items() if "GDRDMA" in name) == 64, counts


@pytest.mark.parametrize(
    ("flags", "config", "kind", "stage"),
    [
        ("--max-model-len 1048576", {}, "kv", "kv"),
        ("", {"env": {"VLLM_HOST_IP": "127.0.64.9"}}, "", "rendezvous"),
    ],
)
def test_a_failed_start_is_placed_in_its_phase(
    units: Units, flags: str, config: dict, kind: str, stage: str
) -> None:
    head, _ = units.glm_pair(*flags.split(), scales=FASTER, **config)
    assert head.wait_for_exit() == 1
    reader = read(head)
    assert reader.cause is not None
    assert reader.cause.stage == stage
    assert kind in reader.cause.kind
