"""Tables of the fleet. Written only by fleet/services."""

from fleet.models.evidence import Evidence
from fleet.models.inventory import Fact, Gpu, Hold, Leaf, Node, Rack
from fleet.models.network import NetGolden, NetMatrix, NetPair, NetRun, NetSeat, NetStep
from fleet.models.people import Answered, RoleGrant
from fleet.models.pools import Member, Pool, Replica
from fleet.models.probes import NodeProbe, ProbeRun
from fleet.models.safety import Brake, KeyChange
from fleet.models.trail import Tick, TrailEntry, TrailSeal

__all__ = [
    "Answered",
    "Brake",
    "Evidence",
    "Fact",
    "Gpu",
    "Hold",
    "KeyChange",
    "Leaf",
    "Member",
    "NetGolden",
    "NetMatrix",
    "NetPair",
    "NetRun",
    "NetSeat",
    "NetStep",
    "Node",
    "NodeProbe",
    "Pool",
    "ProbeRun",
    "Rack",
    "Replica",
    "RoleGrant",
    "Tick",
    "TrailEntry",
    "TrailSeal",
]
