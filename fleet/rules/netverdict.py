"""The four layers of network acceptance of one pair, each with its own verdict. Pure.

Layer 1 is the way for IP, 2 RDMA of each rail, 3 a collective over both nodes with proof of its transport, 4 the same
under the load of other pairs. Unknown is never a pass, and a fast table over sockets is a failure (manual A 4.4).
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from io import BytesIO
from typing import Any

from fleet.readings.host.counters import Counters, counter_changes
from fleet.readings.reach import Ping, Route, parse_ping, parse_route
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
# Under the load of all pairs at once, of the same pair alone.
TOGETHER_BAR = 0.90
# The slowest turn in a hundred, against the median turn: above it the pair has outliers.
P99_OVER_MEDIAN = 1.25
TURNS_WANTED = 5
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
    """What the golden pair of the same topology measured: bus bandwidth in GB/s, rails in Gb/s by card and way."""

    pair: str = ""
    busbw: float | None = None
    rails: Mapping[str, Mapping[str, float]] = field(default_factory=dict)


def _layer(name: str, said: Iterable[Said], values: Mapping[str, Any] | None = None) -> Layer:
    rows = tuple(said)
    verdicts = {one.verdict for one in rows}
    worst = next((one for one in (FAIL, UNKNOWN) if one in verdicts), PASS if rows else UNKNOWN)
    return Layer(name, worst, rows, values or {})


def unknown_layer(name: str, why: str) -> Layer:
    """Return a layer of which nothing is known, and why."""
    return _layer(name, [Said(UNKNOWN, why)])


def judge_reach(ping: str, route: str, wiring: Wiring) -> Layer:
    """Layer 1: packets of the full MTU come back unsplit, and they go by the interface of the matrix."""
    pinged, way = parse_ping(ping), parse_route(route)
    values = {
        "loss_pct": pinged.loss_pct,
        "rtt_ms": pinged.rtt_avg_ms,
        "device": way and way.device,
    }
    return _layer(REACH, [_ping_said(pinged, wiring), _route_said(way, wiring)], values)


def _ping_said(pinged: Ping, wiring: Wiring) -> Said:
    if pinged.too_long:
        why = say(
            "A packet of MTU %(wanted)d does not pass; the way carries %(found)s. Set the same MTU on both nodes and"
            " on every switch port between them.",
            wanted=wiring.mtu,
            found=pinged.mtu or "?",
        )
        return Said(FAIL, why)
    if pinged.loss_pct is None:
        return Said(UNKNOWN, say("ping told no statistics: reachability is not known."))
    if pinged.loss_pct > 0:
        why = say(
            "%(loss)s %% of %(sent)d packets were lost; expected none.",
            loss=f"{pinged.loss_pct:g}",
            sent=pinged.sent,
        )
        return Said(FAIL, why)
    return Said(
        PASS,
        say(
            "%(sent)d of %(sent)d packets of MTU %(mtu)d came back.",
            sent=pinged.sent,
            mtu=wiring.mtu,
        ),
    )


def _route_said(way: Route | None, wiring: Wiring) -> Said:
    if way is None:
        return Said(UNKNOWN, say("ip route get named no way to the other node."))
    if way.device != wiring.interface:
        why = say(
            "The way to the other node is %(found)s; the network matrix says %(wanted)s.",
            found=foreign(way.device),
            wanted=wiring.interface,
        )
        return Said(FAIL, why)
    return Said(PASS, say("The way to the other node is %(device)s.", device=wiring.interface))


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
    return _layer(RAILS, rows, {"rails": measured})


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
        why = _first_line(report, part)
        return Said(FAIL, say("%(rail)s: %(why)s", rail=rail, why=sentence_of(why))), None
    if report.verdict != PASS or not isinstance(gbps, int | float):
        return Said(
            UNKNOWN, say("%(rail)s: %(why)s", rail=rail, why=sentence_of(report.summary))
        ), None
    wanted = golden.rails.get(card, {}).get(way)
    return _beside_golden(rail, float(gbps), wanted, golden, bar, "Gb/s"), float(gbps)


def _first_line(report: Report, part: Part) -> str:
    if report.findings and report.verdict == FAIL:
        return report.summary
    lines = [line.strip() for line in part.text.splitlines() if line.strip()]
    return (lines[-1] if lines else "no output")[:200] + f" (rc {part.rc})"


def _beside_golden(
    what: str, found: float, wanted: float | None, golden: Golden, bar: float, unit: str
) -> Said:
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
        return _layer(
            COLLECTIVE, [Said(FAIL, say("The collective hung: it did not end in its time."))]
        )
    report = report_nccl_tests(BytesIO(part.text.encode()))
    proofs = netranks.judge_ranks(part.text, names, wirings)
    proof = judge_transport(report.values, names)
    busbw = _busbw(report.values)
    values = _collective_values(report, busbw)
    if report.verdict == FAIL or part.rc:
        why = Said(FAIL, say("nccl-tests: %(why)s", why=sentence_of(_first_line(report, part))))
        return _layer(COLLECTIVE, [why, proof, *_said(proofs)], values)
    if busbw is None or not report.complete:
        why = Said(UNKNOWN, say("nccl-tests: %(why)s", why=sentence_of(report.summary)))
        return _layer(COLLECTIVE, [why, proof, *_said(proofs)])
    rows = [_beside_golden(say("Bus bandwidth"), busbw, golden.busbw, golden, bar, "GB/s"), proof]
    rows += _said(proofs)
    doubts = [one.text for one in report.findings if one.severity == "warn"]
    if report.verdict != PASS and proof.verdict != FAIL:
        why_not = sentence_of((doubts or [report.summary])[0])
        rows.append(Said(UNKNOWN, say("nccl-tests: %(why)s", why=why_not)))
    return _layer(COLLECTIVE, rows, values)


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


def _busbw(values: Mapping[str, Any]) -> float | None:
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


def judge_together(parts: Sequence[Part], alone: float | None, bar: float = TOGETHER_BAR) -> Layer:
    """Layer 4: the loop under the load of all pairs: no hang, no outlier, and the share of what it had alone."""
    turns = [part for part in parts if part.kind == "loop"]
    if not turns:
        return unknown_layer(TOGETHER, say("No turn of the loop has an output."))
    rows, times, widths = [], [], []
    for part in turns:
        if part.rc in HUNG:
            rows.append(
                Said(FAIL, say("Turn %(n)s hung: it did not end in its time.", n=part.name))
            )
            continue
        report = report_nccl_tests(BytesIO(part.text.encode()))
        busbw = _busbw(report.values)
        if report.verdict == FAIL or part.rc:
            why = sentence_of(_first_line(report, part))
            rows.append(Said(FAIL, say("Turn %(n)s: %(why)s", n=part.name, why=why)))
        elif report.verdict != PASS or busbw is None or not part.is_whole:
            rows.append(Said(UNKNOWN, say("Turn %(n)s has no whole output.", n=part.name)))
        else:
            widths.append(busbw)
            times.append(float(report.values["table"][-1]["oop"]["time_us"]))
    values: dict[str, Any] = {"turns": len(turns), "alone": alone}
    if widths:
        values["busbw"] = statistics.median(widths)
        values["p99_us"], values["median_us"] = p99(times), statistics.median(times)
        rows += [_share_said(values["busbw"], alone, bar), _p99_said(times)]
    return _layer(TOGETHER, rows, values)


def _share_said(busbw: float, alone: float | None, bar: float) -> Said:
    ratio = golden_ratio(busbw, alone)
    if ratio is None:
        return Said(
            UNKNOWN, say("%(found)s GB/s, and not measured alone before.", found=f"{busbw:.1f}")
        )
    text = say(
        "%(found)s GB/s under load, %(percent)s %% of what this pair had alone; at least %(bar)s %% expected.",
        found=f"{busbw:.1f}",
        percent=f"{100 * ratio:.1f}",
        bar=f"{100 * bar:.0f}",
    )
    return Said(PASS if ratio >= bar else FAIL, text)


def p99(times: Sequence[float]) -> float:
    """Return the nearest-rank 99th percentile: with fewer than a hundred values it is the largest."""
    ordered = sorted(times)
    return ordered[max(0, math.ceil(0.99 * len(ordered)) - 1)]


def _p99_said(times: Sequence[float]) -> Said:
    if len(times) < TURNS_WANTED:
        why = say(
            "%(n)d turns are too few for a p99; %(least)d are needed.",
            n=len(times),
            least=TURNS_WANTED,
        )
        return Said(UNKNOWN, why)
    slowest, middle = p99(times), statistics.median(times)
    text = say(
        "p99 of %(n)d turns is %(p99)s ms, the median %(median)s ms; at most %(most)s times it expected.",
        n=len(times),
        p99=f"{slowest / 1000:.2f}",
        median=f"{middle / 1000:.2f}",
        most=f"{P99_OVER_MEDIAN:g}",
    )
    return Said(PASS if slowest <= P99_OVER_MEDIAN * middle else FAIL, text)


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
    return _layer(layer.name, [*layer.said, *rows], layer.values)


def verdict_of_layers(layers: Mapping[str, Mapping[str, Any]], wanted: Iterable[str]) -> str:
    """Return the verdict of a pair: one failed layer fails it, one that is missing leaves it unknown."""
    verdicts = [str(layers.get(name, {}).get("verdict") or UNKNOWN) for name in wanted]
    return next((one for one in (FAIL, UNKNOWN) if one in verdicts), PASS if verdicts else UNKNOWN)
