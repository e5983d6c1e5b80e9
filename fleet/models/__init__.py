"""Tables of the fleet. Written only by fleet/services."""

from fleet.models.acceptance import AcceptanceRun, NodeAcceptance
from fleet.models.artefacts import Distribution, Holding, WeightsArtefact
from fleet.models.evidence import Evidence
from fleet.models.golden import GoldenKey, GoldenProfile
from fleet.models.history import FactChange, GpuRecord, GpuSeat, LastFact
from fleet.models.images import Image, ImageHolding
from fleet.models.imports import InventoryImport, NodeMiss
from fleet.models.inventory import Fact, Gpu, Hold, Leaf, Node, Rack
from fleet.models.network import NetGolden, NetMatrix, NetPair, NetRun, NetSeat, NetStep
from fleet.models.people import Answered, RoleGrant
from fleet.models.pools import Member, Pool, Replica
from fleet.models.probes import NodeProbe, ProbeRun
from fleet.models.safety import Brake, KeyChange
from fleet.models.samples import CardSample
from fleet.models.schedule import ProbeSchedule
from fleet.models.trail import Tick, TrailEntry, TrailSeal

__all__ = [
    "AcceptanceRun",
    "Answered",
    "Brake",
    "CardSample",
    "Distribution",
    "Evidence",
    "Fact",
    "FactChange",
    "GoldenKey",
    "GoldenProfile",
    "Gpu",
    "GpuRecord",
    "GpuSeat",
    "Hold",
    "Holding",
    "Image",
    "ImageHolding",
    "InventoryImport",
    "KeyChange",
    "LastFact",
    "Leaf",
    "Member",
    "NetGolden",
    "NetMatrix",
    "NetPair",
    "NetRun",
    "NetSeat",
    "NetStep",
    "Node",
    "NodeAcceptance",
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
    "WeightsArtefact",
]
