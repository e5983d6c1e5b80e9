"""The four layers of network acceptance of one pair, each with its own verdict. Pure.

Layer 1 is the way for IP (netreach.py), 2 RDMA of each rail, 3 a collective over both nodes with proof of its
transport, 4 the same under the load of other pairs (netload.py). Unknown is never a pass, and a fast table over sockets
is a failure (manual A 4.4).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from io import BytesIO
from typing import Any

from fleet.readings.host.counters import Counters, counter_changes
from fleet.readings.report import Report
from fleet.readings.told import sentence_of
from fleet.readings.verdicts.ib_write_bw import report_ib_write_bw
from fleet.readings.verdicts.nccl_tests import report_nccl_tests
from fleet.rules import netranks
from fleet.rules.message import foreign, say
from fleet.rules.netpairs import golden_ratio
from fleet.rules.netscripts import ONE, TWO, Part, Wiring

PASS, FAIL, UNKNOWN = "pass", "fail", "unknown"
REACH, RAILS, COLLECTIVE, TOGETHER = "reach", "rails", "collective", "together"
LAYERS = (REACH, RAILS, COLLECTIVE, TOGETHER)
# Of the golden pair; agreed in the acceptance plan, not a number of a vendor (manual A 4.4, mock NET-0031).
BAR = 0.95
# RoCE counters that grow when a packet was sent again or came in the wrong order (mlx5 hw_counters).
RETRANSMITS = (
    "out_of_sequence",
    "packet_seq_err",
    "local_ack_timeout_err",
    "implied_nak_seq_err",
    "roce_adp_retrans",
    "rnr_nak_retry_err",
)
HUNG = (124, 137)  # timeout(1): over its limit, and killed for it


@dataclass(frozen=True)
class Said:
    """One sentence of a layer and what it means: pass, fail or unknown."""

    verdict: str
    text: str


@dataclass(frozen=True)
class Layer:
    """One layer's verdict with its sentences; `values` are the numbers that are stored."""

    name: str
    verdict: str
    said: tuple[Said, ...]
    values: Mapping[str, Any] = field(default_factory=dict)

    def as_object(self) -> dict[str, Any]:
        """Return the JSON that is stored with the pair."""
        return {
            "verdict": self.verdict,
            "said": [{"verdict": one.verdict, "text": one.text} for one in self.said],
            "values": dict(self.values),
        }


@dataclass(frozen=True)
class Golden:
    """What the golden pair of the same topology measured: bus bandwidth in GB/s, rails in Gb/s by card and way.

    `load`: GB/s by the number of pairs that ran at once; empty when it was not among those of layer 4.
    """

    pair: str = ""
    busbw: float | None = None
    rails: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    load: Mapping[int, float] = field(default_factory=dict)


def layer_of(name: str, said: Iterable[Said], values: Mapping[str, Any] | None = None) -> Layer:
    """Return a layer with its verdict: that of the worst sentence; without one nothing is known."""
    rows = tuple(said)
    verdicts = {one.verdict for one in rows}
    worst = next((one for one in (FAIL, UNKNOWN) if one in verdicts), PASS if rows else UNKNOWN)
    return Layer(name, worst, rows, values or {})


def unknown_layer(name: str, why: str) -> Layer:
    """Return a layer of which nothing is known, and why."""
    return layer_of(name, [Said(UNKNOWN, why)])


def judge_rails(parts: Iterable[Part], wiring: Wiring, golden: Golden, bar: float = BAR) -> Layer:
    """Layer 2: every rail of the matrix, in one direction and in both, beside the golden pair's same rail."""
    by_name = {(part.name, part.way): part for part in parts if part.kind == "rail"}
    measured: dict[str, dict[str, float]] = {}
    rows = []
    for card in wiring.hcas:
        for way in (ONE, TWO):
            one, gbps = _rail_said(card, way, by_name.get((card, way)), golden, bar)
            rows.append(one)
            if gbps is not None:
                measured.setdefault(card, {})[way] = round(gbps, 2)
    return layer_of(RAILS, rows, {"rails": measured})


def _rail_said(
    card: str, way: str, part: Part | None, golden: Golden, bar: float
) -> tuple[Said, float | None]:
    rail = (
        say("%(card)s, both ways", card=card) if way == TWO else say("%(card)s, one way", card=card)
    )
    if part is None or not part.is_whole:
        return Said(UNKNOWN, say("%(rail)s: no whole output of ib_write_bw.", rail=rail)), None
    report = report_ib_write_bw(part.text)
    gbps = report.values.get("bw_avg_gbps")
    if report.verdict == FAIL or part.rc:
        why = first_line(report, part)
        return Said(FAIL, say("%(rail)s: %(why)s", rail=rail, why=sentence_of(why))), None
    if report.verdict != PASS or not isinstance(gbps, int | float):
        return Said(
            UNKNOWN, say("%(rail)s: %(why)s", rail=rail, why=sentence_of(report.summary))
        ), None
    wanted = golden.rails.get(card, {}).get(way)
    return beside_golden(rail, float(gbps), wanted, golden, bar, "Gb/s"), float(gbps)


def first_line(report: Report, part: Part) -> str:
    """Return why a part failed: the reader's own words, or the last line with the exit code."""
    if report.findings and report.verdict == FAIL:
        return report.summary
    lines = [line.strip() for line in part.text.splitlines() if line.strip()]
    return (lines[-1] if lines else "no output")[:200] + f" (rc {part.rc})"


def beside_golden(
    what: str, found: float, wanted: float | None, golden: Golden, bar: float, unit: str
) -> Said:
    """Say what was found as a share of the golden pair's; without one it is unknown, never a pass."""
    ratio = golden_ratio(found, wanted)
    if ratio is None:
        why = say(
            "%(what)s: %(found)s %(unit)s, and no golden pair of this topology to compare with. Choose one.",
            what=what,
            found=f"{found:.1f}",
            unit=unit,
        )
        return Said(UNKNOWN, why)
    text = say(
        "%(what)s: %(found)s %(unit)s, %(percent)s %% of the golden pair %(pair)s; at least %(bar)s %% expected.",
        what=what,
        found=f"{found:.1f}",
        unit=unit,
        percent=f"{100 * ratio:.1f}",
        pair=golden.pair or "?",
        bar=f"{100 * bar:.0f}",
    )
    return Said(PASS if ratio >= bar else FAIL, text)


def judge_collective(
    parts: Sequence[Part],
    names: tuple[str, str],
    golden: Golden,
    bar: float = BAR,
    wirings: tuple[Wiring, Wiring] | None = None,
) -> Layer:
    """Layer 3: the table of nccl-tests beside the golden pair, and which network its NCCL lines prove.

    `wirings`: what the network matrix says of both nodes; every rank's lines must say the same.
    """
    runs = [part for part in parts if part.kind == "loop"]
    if len(runs) != 1 or not runs[0].is_whole:
        return unknown_layer(COLLECTIVE, say("No whole output of nccl-tests."))
    part = runs[0]
    if part.rc in HUNG:
        return layer_of(
            COLLECTIVE, [Said(FAIL, say("The collective hung: it did not end in its time."))]
        )
    report = report_nccl_tests(BytesIO(part.text.encode()))
    proofs = netranks.judge_ranks(part.text, names, wirings)
    proof = judge_transport(report.values, names)
    busbw = busbw_of(report.values)
    values = _collective_values(report, busbw)
    if report.verdict == FAIL or part.rc:
        why = Said(FAIL, say("nccl-tests: %(why)s", why=sentence_of(first_line(report, part))))
        return layer_of(COLLECTIVE, [why, proof, *_said(proofs)], values)
    if busbw is None or not report.complete:
        why = Said(UNKNOWN, say("nccl-tests: %(why)s", why=sentence_of(report.summary)))
        return layer_of(COLLECTIVE, [why, proof, *_said(proofs)])
    rows = [beside_golden(say("Bus bandwidth"), busbw, golden.busbw, golden, bar, "GB/s"), proof]
    rows += _said(proofs)
    doubts = [one.text for one in report.findings if one.severity == "warn"]
    if report.verdict != PASS and proof.verdict != FAIL:
        why_not = sentence_of((doubts or [report.summary])[0])
        rows.append(Said(UNKNOWN, say("nccl-tests: %(why)s", why=why_not)))
    return layer_of(COLLECTIVE, rows, values)


def _said(proofs: Iterable[tuple[str, str]]) -> list[Said]:
    return [Said(verdict, text) for verdict, text in proofs]


def _collective_values(report: Report, busbw: float | None) -> dict[str, Any]:
    """What is stored of a table, also of one that failed for its transport: it is evidence, not a pass."""
    if busbw is None:
        return {}
    return {
        "busbw": busbw,
        "curve": [
            [row["size"], row["oop"]["busbw"], row["oop"]["time_us"]]
            for row in report.values.get("table", ())
            if row.get("oop")
        ],
        "transports": dict(report.values.get("transport_counts") or {}),
        "hcas": list(report.values.get("hcas") or []),
    }


def busbw_of(values: Mapping[str, Any]) -> float | None:
    """The out-of-place bus bandwidth at the largest size, GB/s."""
    found = (values.get("busbw_at_max") or {}).get("oop")
    return float(found) if isinstance(found, int | float) else None


def judge_transport(values: Mapping[str, Any], names: tuple[str, str]) -> Said:
    """Say which network the NCCL lines prove. No line proves nothing; one socket channel is a failure."""
    counts = {str(k): v for k, v in (values.get("transport_counts") or {}).items()}
    networks = {str(one) for one in values.get("networks") or ()}
    sockets = [name for name in counts if name.startswith("NET/Socket")]
    if sockets or "Socket" in networks:
        why = say(
            "NCCL went over sockets (%(found)s) though the table is whole: RDMA was not used. Look for"
            ' "NET/IB : No device found" and the HCA list of the network matrix.',
            found=foreign(sockets[0] if sockets else "Using network Socket"),
        )
        return Said(FAIL, why)
    between = {name: count for name, count in counts.items() if name.startswith("NET/IB")}
    if not between:
        return Said(UNKNOWN, say("No NCCL line names the transport between the nodes: not proven."))
    hosts = set(map(str, values.get("hosts") or ()))
    if hosts and not set(names) <= hosts:
        why = say(
            "The lines are of %(found)s, not of %(wanted)s.",
            found=foreign(", ".join(sorted(hosts))[:200]),
            wanted=" + ".join(names),
        )
        return Said(UNKNOWN, why)
    if plain := sorted(name for name in between if not name.endswith("GDRDMA")):
        why = say(
            "%(found)s without GPU direct: data goes through host memory. Look at nvidia_peermem and the PCIe path.",
            found=foreign(plain[0]),
        )
        return Said(FAIL, why)
    text = say(
        "%(count)d channels between the nodes, all by NET/IB with GPU direct.",
        count=sum(between.values()),
    )
    return Said(PASS, text)


def judge_retransmits(node: str, before: Counters | None, after: Counters | None) -> Said:
    """Say whether packets were sent again: only counters read before and after can tell."""
    if before is None or after is None:
        return Said(
            UNKNOWN,
            say(
                "%(node)s: retransmits cannot be judged, counters were not read before and after.",
                node=node,
            ),
        )
    changes = counter_changes(before, after).by_name
    watched = {
        name: grew for name, grew in changes.items() if name.rpartition("/")[2] in RETRANSMITS
    }
    if not watched:
        return Said(
            UNKNOWN,
            say(
                "%(node)s: retransmits cannot be judged, its cards have no such counter.", node=node
            ),
        )
    grown = sorted((name, grew) for name, grew in watched.items() if grew)
    if grown:
        name, grew = grown[0]
        why = say(
            "%(node)s: %(counter)s grew by %(n)d during the test; expected 0.",
            node=node,
            counter=foreign(name),
            n=grew,
        )
        return Said(FAIL, why)
    if None in watched.values():
        return Said(
            UNKNOWN,
            say(
                "%(node)s: retransmits cannot be judged, a counter was reset or is missing.",
                node=node,
            ),
        )
    return Said(PASS, say("%(node)s: no packet was sent again.", node=node))


def with_said(layer: Layer, rows: Iterable[Said]) -> Layer:
    """Return a layer with further sentences, judged again."""
    return layer_of(layer.name, [*layer.said, *rows], layer.values)


def verdict_of_layers(layers: Mapping[str, Mapping[str, Any]], wanted: Iterable[str]) -> str:
    """Return the verdict of a pair: one failed layer fails it, one that is missing leaves it unknown."""
    verdicts = [str(layers.get(name, {}).get("verdict") or UNKNOWN) for name in wanted]
    return next((one for one in (FAIL, UNKNOWN) if one in verdicts), PASS if verdicts else UNKNOWN)
