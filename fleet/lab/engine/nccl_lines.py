"""NCCL's INFO block of every rank: once a process, then each communicator (LAB.md 4.5).

Forms follow NCCL 2.28.9, values are this lab's own. Written only with NCCL_DEBUG=INFO.
"""

import time
from collections.abc import Iterator
from dataclasses import dataclass

from .clock import draw, hexes
from .engine import Engine
from .plan import RankId
from .workers import Worker

CHANNELS = 24
ROCE_V2_IPV4 = 3
PP_CHANNELS = 4
BUS_IDS = ("1b000", "43000", "52000", "4e000", "9b000", "c3000", "d1000", "df000")


@dataclass(frozen=True)
class Speaker:
    """One rank's NCCL: `host:pid:tid [cudaDev] NCCL INFO text`."""

    engine: Engine
    worker: Worker
    rank: RankId

    @property
    def device(self) -> int:
        return self.rank.local

    def lines(self, texts: Iterator[str]) -> None:
        for text in texts:
            self.say(text)

    def say(self, text: str) -> None:
        thread = self.worker.pid + 200 + self.device
        host = self.engine.node["name"]
        self.engine.log.out(f"{host}:{self.worker.pid}:{thread} [{self.device}] NCCL INFO {text}")

    def draw(self, *keys: object) -> float:
        return draw(self.engine.seed, self.engine.node["name"], self.device, *keys)


@dataclass(frozen=True)
class Transport:
    """How ranks on two nodes reach each other."""

    network: str
    gdr: bool

    def via(self, rail: int) -> str:
        if self.network == "Socket":
            return "NET/Socket/0"
        return f"NET/IB/{rail}/GDRDMA" if self.gdr else f"NET/IB/{rail}"


def transport_of(engine: Engine) -> Transport:
    """Choose the transport by the environment, as NCCL does (LAB.md 4.5, transport table)."""
    env = engine.plan.env
    is_filtered = bool(engine.faults.find("nccl.socket"))
    if env.get("NCCL_IB_DISABLE", "0") == "1" or is_filtered or not rails(engine):
        return Transport("Socket", False)
    return Transport("IB", env.get("NCCL_NET_GDR_LEVEL", "") not in ("0", "LOC"))


def rails(engine: Engine) -> list[int]:
    """Return the rails that NCCL_IB_HCA leaves (prefix list, `=` exact, `^` excluded)."""
    wanted = engine.plan.env.get("NCCL_IB_HCA", "")
    everyone = list(range(8))
    if not wanted:
        return everyone
    excluded = wanted.startswith("^")
    exact = wanted.lstrip("^").startswith("=")
    names = [name.split(":")[0] for name in wanted.lstrip("^=").split(",") if name]
    hit = [
        rail
        for rail in everyone
        if any(
            f"mlx5_{rail}" == name if exact else f"mlx5_{rail}".startswith(name) for name in names
        )
    ]
    return [rail for rail in everyone if rail not in hit] if excluded else hit


def wrong_gid(engine: Engine) -> str:
    """Return the WARN of a forced GID index that is not RoCE v2 over IPv4; empty when all is well.

    Only units over several nodes use the network at start.
    """
    index = engine.plan.env.get("NCCL_IB_GID_INDEX", "")
    crosses = engine.plan.nnodes > 1 and transport_of(engine).network == "IB"
    if not crosses or index in ("", "-1", str(ROCE_V2_IPV4)):
        return ""
    worker = engine.workers.ranks()[0]
    rail = (rails(engine) or [0])[0]
    stamp = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime())
    return (
        f"[{stamp}] {engine.node['name']}:{worker.pid}:{worker.pid + 200} [0] misc/ibvwrap.cc:307"
        f" NCCL WARN Call to ibv_modify_qp failed with 22 Invalid argument, on dev mlx5_{rail}:1,"
        f" curr state INIT, next state RTR, local GID index {index}, local GID ::, remote GID ::"
    )


def write_block(engine: Engine, seconds: float) -> None:
    """Write the block of every rank of this node; `seconds` is what the init really takes."""
    transport = transport_of(engine)
    speakers = [
        Speaker(engine, worker, worker.rank) for worker in engine.workers.ranks() if worker.rank
    ]
    plan = engine.plan
    for speaker in speakers:
        speaker.lines(process_lines(speaker, transport))
    groups = []
    if plan.tp > 1:
        groups.append(("tp", plan.tp, lambda rank: rank.tp))
    if plan.dp > 1:
        # One communicator over all data parallel ranks carries DP and EP traffic.
        groups.append(("dp", plan.dp, lambda rank: rank.dp))
    for name, size, place in groups:
        for speaker in speakers:
            speaker.lines(local_lines(speaker, name, size, place(speaker.rank), seconds))
    if plan.pp > 1:
        for speaker in speakers:
            speaker.lines(pipeline_lines(speaker, transport, seconds))


def process_lines(speaker: Speaker, transport: Transport) -> Iterator[str]:
    """Yield the lines that NCCL logs once a process, in their order."""
    engine = speaker.engine
    env = engine.plan.env
    interface = env.get("NCCL_SOCKET_IFNAME", "").lstrip("=^") or "bond0"
    address = engine.node["addr"]
    yield "cudaDriverVersion 12080"
    if env.get("NCCL_SOCKET_IFNAME"):
        yield f"NCCL_SOCKET_IFNAME set by environment to {env['NCCL_SOCKET_IFNAME']}"
    yield f"Bootstrap: Using {interface}:{address}<0>"
    if speaker.rank.world_rank == 0:
        version = str(engine.config.get("nccl") or "2.28.9").split("+")[0]
        yield f"NCCL version {version}+cuda12.9"
    yield "NET/Plugin: Could not find: libnccl-net.so"
    if env.get("NCCL_IB_HCA"):
        yield f"NCCL_IB_HCA set to {env['NCCL_IB_HCA']}"
    if transport.network == "IB":
        cards = " ".join(f"[{index}]mlx5_{rail}:1/RoCE" for index, rail in enumerate(rails(engine)))
        yield f"NET/IB : Using {cards} [RO]; OOB {interface}:{address}<0>"
        if "NET" in env.get("NCCL_DEBUG_SUBSYS", "").upper():
            rail = speaker.device
            yield f"NET/IB : GPU Direct RDMA Enabled for HCA {rail} 'mlx5_{rail}'"
    else:
        if env.get("NCCL_IB_DISABLE", "0") == "1":
            yield "NCCL_IB_DISABLE set by environment to 1."
        yield "NET/IB : No device found."
        yield f"NET/Socket : Using [0]{interface}:{address}<0>"
    yield f"Using network {transport.network}"


def _comm(speaker: Speaker, name: str, group: object, place: int, size: int) -> tuple[str, str]:
    """Return (comm head, commId) of one rank in one communicator."""
    seed = speaker.engine.seed
    ident = hexes(16, seed, speaker.engine.unit_key, name, group)
    pointer = hexes(11, seed, speaker.engine.node["name"], speaker.device, name)
    head = (
        f"comm 0x5{pointer} rank {place} nranks {size} cudaDev {speaker.device} nvmlDev"
        f" {speaker.device} busId {BUS_IDS[speaker.device % 8]} commId 0x{ident}"
    )
    return head, f"comm 0x5{pointer}"


def local_lines(
    speaker: Speaker, name: str, size: int, place: int, seconds: float
) -> Iterator[str]:
    """One communicator whose ranks are all on this node (NVLink)."""
    head, comm = _comm(speaker, name, speaker.rank.pp, place, size)
    device = speaker.device
    yield f"ncclCommInitRank {head} - Init START"
    yield f"NVLS multicast support is available on dev {device} (NVLS_NCHANNELS 16)"
    yield f"{comm} rank {place} nRanks {size} nNodes 1 localRanks {size} localRank {place} MNNVL 0"
    if place == 0:
        order = "".join(f"{rank:4d}" for rank in range(size))
        for channel in range(CHANNELS):
            yield f"Channel {channel:02d}/{CHANNELS} :{order}"
    following = (place + 1) % size
    child = following if following else -1
    parent = place - 1
    yield f"Trees [0] {child}/-1/-1->{place}->{parent} [1] {child}/-1/-1->{place}->{parent}"
    yield "P2P Chunksize set to 524288"
    peer_device = device - place + following if size <= 8 else following
    for channel in range(CHANNELS):
        yield f"Channel {channel:02d}/0 : {place}[{device}] -> {following}[{peer_device}] via P2P/CUMEM"
    yield "Connected all rings, use ring PXN 0 GDR 1"
    yield "Connected all trees"
    yield from _tail(speaker, head, place, size, seconds, channels=CHANNELS, nvls=16)


def pipeline_lines(speaker: Speaker, transport: Transport, seconds: float) -> Iterator[str]:
    """The pipeline communicator: one GPU of each stage, across the nodes when they differ."""
    plan, rank = speaker.engine.plan, speaker.rank
    size, place, device = plan.pp, rank.pp, speaker.device
    head, comm = _comm(speaker, "pp", rank.tp, place, size)
    per_node = max(1, plan.pp // plan.nnodes)
    yield f"ncclCommInitRank {head} - Init START"
    yield (
        f"{comm} rank {place} nRanks {size} nNodes {plan.nnodes} localRanks {per_node}"
        f" localRank {place % per_node} MNNVL 0"
    )
    if place == 0:
        order = "".join(f"{stage:4d}" for stage in range(size))
        for channel in range(PP_CHANNELS):
            yield f"Channel {channel:02d}/{PP_CHANNELS:02d} :{order}"
    yield "P2P Chunksize set to 131072"
    after, before = (place + 1) % size, (place - 1) % size
    for channel in range(PP_CHANNELS):
        yield (
            f"Channel {channel:02d}/0 : {before}[{device}] -> {place}[{device}] [receive] via "
            + _way(speaker, transport, before)
        )
    for channel in range(PP_CHANNELS):
        yield (
            f"Channel {channel:02d}/0 : {place}[{device}] -> {after}[{device}] [send] via "
            + _way(speaker, transport, after)
        )
    yield f"Connected all rings, use ring PXN 0 GDR {int(transport.gdr)}"
    yield "Connected all trees"
    yield from _tail(speaker, head, place, size, seconds, channels=PP_CHANNELS, nvls=0)


def _way(speaker: Speaker, transport: Transport, stage: int) -> str:
    """Between stages of one node NVLink, between nodes the rail of the GPU."""
    plan = speaker.engine.plan
    if stage * plan.nnodes // plan.pp == speaker.rank.pp * plan.nnodes // plan.pp:
        return "P2P/CUMEM"
    usable = rails(speaker.engine)
    rail = speaker.device if speaker.device in usable else (usable or [0])[0]
    return transport.via(rail)


def _tail(
    speaker: Speaker, head: str, place: int, size: int, seconds: float, channels: int, nvls: int
) -> Iterator[str]:
    yield "threadThresholds 8/8/64 | 64/8/64 | 512 | 512"
    yield (
        f"{channels} coll channels, {channels} collnet channels, {nvls} nvls channels,"
        f" {32 if nvls else channels} p2p channels, {32 if nvls else 2} p2p channels per peer"
    )
    yield f"ncclCommInitRank {head} - Init COMPLETE"
    total = seconds * (0.4 + 0.1 * speaker.draw("init", size))
    shares = {
        "kernels": 0.12, "alloc": 0.26, "bootstrap": 0.08, "allgathers": 0.05, "topo": 0.21,
        "graphs": 0.09, "connections": 0.16, "rest": 0.03,
    }  # fmt: skip
    parts = ", ".join(f"{name} {total * share:.2f}" for name, share in shares.items())
    yield f"Init timings - ncclCommInitRank: rank {place} nranks {size} total {total:.2f} ({parts})"
