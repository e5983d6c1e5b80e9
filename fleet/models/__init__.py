"""Tables of the fleet. Written only by fleet/services."""

from fleet.models.evidence import Evidence
from fleet.models.history import FactChange, GpuRecord, GpuSeat, LastFact
from fleet.models.imports import InventoryImport, NodeMiss
from fleet.models.inventory import Fact, Gpu, Hold, Leaf, Node, Rack
from fleet.models.people import Answered, RoleGrant
from fleet.models.pools import Member, Pool, Replica
from fleet.models.probes import NodeProbe, ProbeRun
from fleet.models.safety import Brake, KeyChange
from fleet.models.schedule import ProbeSchedule
from fleet.models.trail import Tick, TrailEntry, TrailSeal

__all__ = [
    "Answered",
    "Brake",
    "Evidence",
    "Fact",
    "FactChange",
    "Gpu",
    "GpuRecord",
    "GpuSeat",
    "Hold",
    "InventoryImport",
    "KeyChange",
    "LastFact",
    "Leaf",
    "Member",
    "Node",
    "NodeMiss",
    "NodeProbe",
    "Pool",
    "ProbeRun",
    "ProbeSchedule",
    "Rack",
    "Replica",
    "RoleGrant",
    "Tick",
    "TrailEntry",
    "TrailSeal",
]
