"""The reference fleet: names, leaves, racks, units and spares, and the cables between them.

It says which unit a node was bought for; what runs where is the console's knowledge.
"""

import json
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

LARGEST_FLEET = 48
NODES_PER_LEAF = 8
RAILS = 8
NODE_CLASS = "hgx-h100-roce"
# Members of the reference fleet's units, in node position order (LAB.md 1.5).
GLM51 = ((1, 2), (9, 10), (13, 14), (17, 18), (25, 26), (33, 34), (41, 42))
GLM52 = ((3, 4), (11, 12), (19, 20), (27, 28), (29, 30), (35, 36), (43, 44))
DSV4 = ((5,), (6,), (15,), (16,), (21,), (22,), (31,), (32,), (37,), (38,), (45,), (46,))
DSV4_LAST = ((47,), (48,))
REFERENCE = {"glm51": GLM51, "glm52": GLM52, "dsv4": DSV4 + DSV4_LAST}
# Below eight nodes the pairs serve the pool that the small flows launch first.
SMALL = {"glm52": ((1, 2),), "dsv4": ((3,),)}


@dataclass(frozen=True)
class Place:
    """One node's place in the fleet; `unit` is empty for a spare, `number` starts at 1."""

    number: int
    name: str
    address: str
    leaf: int
    rack: str
    rack_unit: int
    node_class: str
    pool: str
    unit: str
    position: int


def units_of(size: int) -> dict[str, tuple[int, ...]]:
    """Return unit name -> node numbers for a fleet of `size`, whole units only."""
    table = REFERENCE if size >= NODES_PER_LEAF else SMALL
    return {
        f"{pool}-r{index}": members
        for pool, units in table.items()
        for index, members in enumerate(units, start=1)
        if max(members) <= size
    }


def fleet_places(size: int, block: str) -> list[Place]:
    """Return the places of nodes 1..size on `block` ("127.0.13")."""
    if not 1 <= size <= LARGEST_FLEET:
        raise ValueError(f"a lab has 1 to {LARGEST_FLEET} nodes, {size} asked for")
    owner = {
        number: (unit, position)
        for unit, members in units_of(size).items()
        for position, number in enumerate(members)
    }
    node_class = "quad" if size == 4 else NODE_CLASS
    return [_place(n, block, node_class, *owner.get(n, ("", 0))) for n in range(1, size + 1)]


def _place(number: int, block: str, node_class: str, unit: str, position: int) -> Place:
    leaf = (number - 1) // NODES_PER_LEAF + 1
    # Two racks a leaf, filled in pairs, so that a two-node unit shares one rack.
    pair = (number - 1) % NODES_PER_LEAF // 2
    slot = pair // 2 * 2 + (number - 1) % 2
    return Place(
        number=number,
        name=f"h100-{number:03d}",
        address=f"{block}.{number}",
        leaf=leaf,
        rack=f"R{2 * leaf - 1 + pair % 2:02d}",
        rack_unit=13 + 8 * slot,
        node_class=node_class,
        pool=unit.rpartition("-")[0],
        unit=unit,
        position=position,
    )


def fabric_table(places: list[Place]) -> dict:
    """Return what fabric.json holds: one switch port a rail, no loss, no oversubscription."""
    leaves = sorted({place.leaf for place in places})
    return {
        "leaves": [{"leaf": leaf, "oversub": 1.0} for leaf in leaves],
        "cables": list(_cables(places)),
        "loss_ratio": {},
        "paused": [],
    }


def loss_key(node: str, device: str, peer: str = "") -> str:
    """Return the name under which fabric.json keeps the loss of one link, "h100-028/mlx5_3", or of the way from it
    to one other node, "h100-028/mlx5_3>h100-030".
    """
    return f"{node}/{device}>{peer}" if peer else f"{node}/{device}"


def read_fabric(lab: Path) -> dict:
    """Return fabric.json: what no node can see of the network, and every transfer over it meets.

    `loss_ratio`: link to the share of packets that it loses; `cables[].gbps`: what a cable really
    carries; `leaves[].oversub`: how often a leaf's uplinks are sold; `paused`: links that stand still.
    """
    return json.loads((lab / "fabric.json").read_text())


def write_fabric(lab: Path, table: dict) -> None:
    """Replace fabric.json in one step."""
    fresh = lab / "fabric.json.new"
    fresh.write_text(json.dumps(table, indent=1))
    os.rename(fresh, lab / "fabric.json")


def _cables(places: list[Place]) -> Iterator[dict]:
    for place in places:
        for rail in range(RAILS):
            port = f"leaf{place.leaf}/{(place.number - 1) % NODES_PER_LEAF * RAILS + rail + 1}"
            yield {"node": place.name, "nic": f"mlx5_{rail}", "port": port, "gbps": 400}


def place_record(place: Place) -> dict:
    """Return a place as plain data for state.json and the inventory."""
    return asdict(place)
