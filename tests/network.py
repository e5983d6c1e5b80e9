"""What two nodes answer in a network test, as text of the real tools' shape, and a console that is answered so."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from django.utils import timezone

from fleet.execution import states
from fleet.execution.models import Command, Subject
from fleet.execution.output import Section, sections_pack
from fleet.models import Leaf, NetMatrix, NetRun, Node, Rack
from tests.factories import make_node, make_person

HCAS = ["mlx5_0", "mlx5_1"]
GOLD_GBS, GOLD_GBITS = 388.0, 391.6
_HEAD = """\
# nThread 1 nGpus 1 minBytes {size} maxBytes {size} step: 1048576(bytes) warmup iters: 1 iters: 20 agg iters: 1 \
validation: 1 graph: 0
#
# Using devices
{devices}#
#                                                              out-of-place                       in-place
#       size         count      type   redop    root     time   algbw   busbw  #wrong     time   algbw   busbw  #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)             (us)  (GB/s)  (GB/s)
"""
SIZE = 8 << 30


def curve_text(
    a: str,
    b: str,
    busbw: float = GOLD_GBS,
    via: str = "NET/IB/0/GDRDMA",
    *,
    odd: Mapping[int, tuple[str, str]] = MappingProxyType({}),
) -> str:
    """One all_reduce_perf over both nodes; `via` empty: no NCCL lines at all.

    `odd`: what a rank says otherwise, as (words, other words) put into its lines.
    """
    ranks = [(rank, (a, b)[rank // 8], rank % 8) for rank in range(16)]
    devices = "".join(
        f"#  Rank {rank:>2} Group  0 Pid {100 + rank:>6} on {node:>10} device {card:>2} [0000:1a:00] NVIDIA H100\n"
        for rank, node, card in ranks
    )
    lines = ""
    for rank, node, card in ranks if via else ():
        head = f"{node}:{100 + rank}:{300 + rank} [{card}] NCCL INFO "
        comm = f"comm 0x5{rank:011x} rank {rank} nranks 16 cudaDev {card} nvmlDev {card} busId 1a000 commId 0xaa"
        network = via.split("/")[1]
        other = (rank + 8) % 16
        cards = " ".join(f"[{at}]{name}:1/RoCE" for at, name in enumerate(HCAS))
        mine = f"{head}Bootstrap: Using bond0:10.0.0.{rank + 1}<0>\n"
        mine += f"{head}NCCL_IB_GID_INDEX set by environment to 3.\n"
        if network == "IB":
            mine += f"{head}NET/IB : Using {cards} [RO]; OOB bond0:10.0.0.{rank + 1}<0>\n"
        mine += f"{head}Using network {network}\n{head}ncclCommInitRank {comm} - Init START\n"
        mine += f"{head}Channel 00/0 : {rank}[{card}] -> {other}[{card}] [send] via {via}\n"
        mine += f"{head}ncclCommInitRank {comm} - Init COMPLETE\n"
        lines += mine.replace(*odd[rank]) if rank in odd else mine
    algbw = busbw / 1.875
    cell = f"{SIZE / algbw / 1e3:>9.1f} {algbw:>7.2f} {busbw:>7.2f}       0"
    row = f"{SIZE:>12}  {SIZE // 4:>12}     float     sum      -1 {cell} {cell}\n"
    end = f"# Out of bounds values : 0 OK\n# Avg bus bandwidth    : {busbw:g} \n#\n"
    return _HEAD.format(size=SIZE, devices=devices) + lines + row + end


def rail_text(gbits: float = GOLD_GBITS, *, both_ways: bool = False, device: str = "mlx5_0") -> str:
    """What the client of ib_write_bw prints."""
    ruler = "-" * 87
    title = "RDMA_Write Bidirectional BW Test" if both_ways else "RDMA_Write BW Test"
    return (
        f"{ruler}\n                    {title}\n Dual-port       : OFF\t\tDevice         : {device}\n"
        " Number of qps   : 1\t\tTransport type : IB\n Link type       : Ethernet\n"
        f"{ruler}\n local address: LID 0000 QPN 0x0001 PSN 0x000001 RKey 0x01 VAddr 0x01\n"
        f" remote address: LID 0000 QPN 0x0002 PSN 0x000002 RKey 0x02 VAddr 0x02\n{ruler}\n"
        " #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]\n"
        f" 65536      1493835          0.00               {gbits:.2f}\t\t     {gbits * 1e3 / 8 / 65536:.6f}\n{ruler}"
    )


def marked(kind: str, name: str, way: str, rc: int, text: str) -> str:
    """One part as the scripts of a pair print it."""
    text = text.rstrip("\n")
    return f"== flotilla {kind} {name} {way} rc {rc} bytes {len(text)}\n{text}\n"


def rails_text(gbits: float = GOLD_GBITS, hcas: list[str] = HCAS) -> str:
    """The whole output of the client over all rails."""
    return "".join(
        marked(
            "rail",
            card,
            way,
            0,
            rail_text(gbits * (2 if way == "two" else 1), both_ways=way == "two", device=card),
        )
        for card in hcas
        for way in ("one", "two")
    )


def ping_text(address: str = "127.0.64.2", lost: int = 0) -> str:
    return (
        f"PING {address} ({address}) 8972(9000) bytes of data.\n\n--- {address} ping statistics ---\n"
        f"5 packets transmitted, {5 - lost} received, {20 * lost}% packet loss, time 800ms\n"
        "rtt min/avg/max/mdev = 0.060/0.066/0.070/0.004 ms\n"
    )


def gids_text(node: int = 1, hcas: list[str] = HCAS, index: int = 3) -> str:
    """The table of `show_gids`: each card with the IPv4 address of its rail."""
    head = "DEV\tPORT\tINDEX\tGID\t\t\t\t\tIPv4  \t\tVER\tDEV\n"
    head += "---\t----\t-----\t---\t\t\t\t\t------------  \t---\t---\n"
    rows = "".join(
        f"{card}\t1\t{index}\t0000:0000:0000:0000:0000:ffff:0a29:{rail:02x}{node:02x}"
        f"\t10.41.{rail}.{node}  \tv2\trail{rail}np0\n"
        for rail, card in enumerate(hcas)
    )
    return f"{head}{rows}n_gids_found={len(hcas)}\n"


def reached_text(words: list[str], lost: Mapping[str, int] = MappingProxyType({})) -> str:
    """What the script of the rails prints for its words: card, interface, own and peer's address of each rail."""
    text = ""
    for card, netdev, own, other in zip(*[iter(words)] * 4, strict=True):
        text += marked("ping", card, "out", 0, ping_text(other, lost.get(card, 0)))
        text += marked(
            "route", card, "out", 0, f"{other} from {own} dev {netdev} uid 0 \n    cache "
        )
    return text


def counters_text(again: int = 0, device: str = "mlx5_0") -> str:
    head = f"/sys/class/infiniband/{device}/ports/1/hw_counters"
    return f"{head}/out_of_sequence:{again}\n{head}/packet_seq_err:0\n"


def make_matrix(**fields: Any) -> NetMatrix:
    """A row for all H100 nodes of the factories, written by Ana."""
    defaults = {
        "node_class": "hgx-h100-roce", "version": 1, "hcas": HCAS, "interface": "bond0", "mtu": 9000,
        "gid_index": 3, "written_by": make_person("ana"),
    }  # fmt: skip
    return NetMatrix.objects.create(**{**defaults, **fields})


def make_leaves(*sizes: int) -> list[Node]:
    """Nodes on leaves of these sizes."""
    nodes, number = [], 0
    for at, size in enumerate(sizes, start=1):
        leaf, _ = Leaf.objects.get_or_create(number=at)
        rack, _ = Rack.objects.get_or_create(name=f"R{at:02d}", defaults={"leaf": leaf})
        for _ in range(size):
            number += 1
            nodes.append(make_node(f"h100-{number:03d}", rack=rack))
    return nodes


class Answers:
    """Nodes that answer at once: `busbw` says what two nodes measure, `again` what their counters show at the end."""

    def __init__(self, busbw: Callable[[str, str], float] = lambda a, b: GOLD_GBS) -> None:
        self.busbw = busbw
        self.via = "NET/IB/0/GDRDMA"
        self.again = 0
        self.silent: set[str] = set()
        self.shared: Callable[[int], float] = lambda pairs: 1.0  # what pairs at once leave to each
        self.lost: dict[str, int] = {}  # card to how many of five packets its rail loses
        self.gids = gids_text

    def all(self) -> int:
        """Answer every open command once; return how many."""
        rows = Command.objects.filter(purpose__startswith="network:").exclude(
            state__in=states.TERMINAL
        )
        rows = [
            row
            for row in rows.select_related("host", "subject")
            if row.host.name not in self.silent
        ]
        for command in rows:
            self._answer(command)
        return len(rows)

    def _answer(self, command: Command) -> None:
        if command.verb == "probe":
            sections_pack(command.pk, self._probed(command)).save()
        elif command.verb in ("start", "stop"):
            Subject.objects.filter(pk=command.subject_id).update(
                state="done", rc=0, ended_at=timezone.now()
            )
        elif command.verb == "collect":
            sections_pack(command.pk, [Section("out", body=self._printed(command).encode())]).save()
        settle(command, states.SUCCEEDED)

    def _probed(self, command: Command) -> list[Section]:
        is_after = "/after/" in command.purpose
        asked = {s["name"]: s["argv"] for s in command.payload["sections"]}
        number = int(command.host.name.rpartition("-")[2])
        texts = {
            "gids": self.gids(number),
            "rails": reached_text(asked.get("rails", [])[6:], self.lost),
            "ping": ping_text(),
            "route": "127.0.64.2 dev bond0 src 127.0.64.1 uid 0\n    cache\n",
            "counters": counters_text(self.again if is_after else 0),
        }
        return [
            Section(s["name"], rc=0, ms=1, body=texts[s["name"]].encode())
            for s in command.payload["sections"]
        ]

    def _printed(self, command: Command) -> str:
        from fleet.models import NetStep

        pair = (
            NetStep.objects.select_related("pair__a__host", "pair__b__host")
            .get(collect=command)
            .pair
        )
        a, b = pair.a.name, pair.b.name
        width = self.busbw(a, b)
        if "/rails/" in command.purpose:
            return rails_text(GOLD_GBITS * width / GOLD_GBS) if command.purpose.count("/a/") else ""
        turns = 6 if "/loop/" in command.purpose else 1
        if turns > 1:
            width *= self.shared(pair.run.pairs.filter(round=pair.round).count())
        return "".join(
            marked("loop", str(n), "run", 0, curve_text(a, b, width, self.via))
            for n in range(1, turns + 1)
        )


def settle(command: Command, state: str) -> None:
    Command.objects.filter(pk=command.pk).update(state=state, settled_at=timezone.now())


def run_to_end(run: NetRun, answers: Answers, most: int = 400) -> NetRun:
    """Tick and answer until the run has ended."""
    from fleet.rules import netrun
    from fleet.services.network import net_runs_advance

    for _ in range(most):
        net_runs_advance()
        answers.all()
        run.refresh_from_db()
        if run.state not in netrun.OPEN:
            return run
    raise AssertionError(f"{run} is still {run.state}: {run.explanation}")
