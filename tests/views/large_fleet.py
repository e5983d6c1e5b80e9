"""A fleet of any size, written with a few statements, for tests of queries and weight."""

from __future__ import annotations

from django.utils import timezone

from fleet.execution.models import Host
from fleet.models import Gpu, Leaf, Member, Node, Pool, Rack, Replica

NODES_A_LEAF, NODES_A_RACK = 16, 4


def grow_fleet(count: int) -> None:
    """Make `count` probed nodes with 8 cards each; three of four serve in one-node units, the rest are spares."""
    now = timezone.now()
    pool = Pool.objects.create(slug="dsv4", name="DeepSeek-V4-Flash", tone="pds", shape="DP8 + EP")
    Pool.objects.create(slug="spare", name="Spare", tone="psp", is_spare=True, position=1)
    hosts = Host.objects.bulk_create(
        Host(
            name=f"gpu{n:04d}",
            address=f"10.40.{n // 250}.{n % 250 + 1}",
            user="fleet",
            key_state="pinned",
            reach="ok",
        )
        for n in range(count)
    )
    leaves = Leaf.objects.bulk_create(
        Leaf(number=n + 1) for n in range((count - 1) // NODES_A_LEAF + 1)
    )
    racks = Rack.objects.bulk_create(
        Rack(name=f"R{n + 1:03d}", leaf=leaves[n * NODES_A_RACK // NODES_A_LEAF])
        for n in range((count - 1) // NODES_A_RACK + 1)
    )
    nodes = Node.objects.bulk_create(
        Node(
            host=host,
            rack=racks[n // NODES_A_RACK],
            node_class="h100",
            state="ready",
            probed_at=now,
        )
        for n, host in enumerate(hosts)
    )
    Gpu.objects.bulk_create(
        (
            Gpu(
                node=node,
                index=index,
                health="ok",
                memory_total_mib=81559,
                memory_used_mib=70000,
                sm_clock_mhz=1980,
                observed_at=now,
            )
            for node in nodes
            for index in range(8)
        ),
        batch_size=4000,
    )
    serving = [node for n, node in enumerate(nodes) if n % 4]
    units = Replica.objects.bulk_create(
        Replica(pool=pool, name=f"dsv4-r{n + 1}", state="ready") for n in range(len(serving))
    )
    Member.objects.bulk_create(
        Member(replica=unit, node=node, position=0)
        for unit, node in zip(units, serving, strict=True)
    )
