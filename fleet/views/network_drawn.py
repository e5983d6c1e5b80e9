"""How a network run is drawn: the pair matrix, the ranking, the four layers. Words and numbers, no queries."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy as _lazy
from django.utils.translation import ngettext

from fleet.marks import Mark, mark_of
from fleet.models import NetPair, Node
from fleet.rules import netpairs, netrun, netverdict
from fleet.rules.message import said
from fleet.selectors.network import RunSeen, measured

LAYER_WORDS = {
    netverdict.REACH: _lazy("1 Ping, MTU, route"),
    netverdict.RAILS: _lazy("2 ib_write_bw, each rail"),
    netverdict.COLLECTIVE: _lazy("3 nccl-tests, pairs of 16 GPUs"),
    netverdict.TOGETHER: _lazy("4 All pairs at once"),
}
KIND_WORDS = {
    netrun.FIRST: _lazy("first"),
    netrun.REPAIR: _lazy("with a known-good partner"),
    netrun.RUNG: _lazy("curve under load"),
    netrun.TOGETHER: _lazy("all at once"),
}
RATED_TITLE = _lazy("Bus bandwidth of each pair")
# Of the golden pair: the steps of the colour, above the run's own bar (mock NET-0031).
STRONG, GOOD, BAD = 0.996, 0.983, 0.90
CELL, GAP, LEAF_GAP = 11, 1, 5
MARGIN = 42
# A few nodes are drawn larger than many, and never as wide as the panel for its own sake; px.
WIDEST, MOST_TIMES = 640, 1.6
# Nodes up to which every one is named, and what of a name fits into the margin.
NAMES_ALL, NAME_LETTERS = 16, 5
_LAST_DIGITS = re.compile(r"\d{1,5}$")


def percent(ratio: float | None) -> str:
    """A ratio as percent with one digit; an en dash when there is none."""
    return "–" if ratio is None else f"{100 * ratio:.1f}"


def verdict_of(pair: NetPair, layer: str = "") -> str:
    """Return the verdict of a pair, or of one layer of it; empty while that is not judged."""
    return (pair.layers.get(layer) or {}).get("verdict", "") if layer else pair.verdict


def pair_mark(pair: NetPair, layer: str = "") -> Mark:
    """How a pair, or one layer of it, is drawn: its verdict, or that it waits or is at work."""
    state = verdict_of(pair, layer)
    if pair.step != netrun.DONE and not (layer and state):
        state = "" if pair.step == netrun.WAITING else "running"
    return mark_of("netpair", state)


def pairs_of_layer(pairs: Sequence[NetPair], layer: str, layers: Sequence[str]) -> list[NetPair]:
    """Return the pairs that a layer judges; all of them when none is chosen."""
    return [pair for pair in pairs if not layer or layer in netrun.layers_of(pair.kind, layers)]


def matrix_drawn(seen: RunSeen, layer: str = "") -> dict[str, Any]:
    """Return the square of all pairs: a cell a measured pair and side, blocks a leaf, names at the edge.

    Without a chosen layer, and in that of the collectives, a cell tells the bus bandwidth; else the verdict alone.
    """
    places, blocks, size = _places(seen.nodes)
    newest = _newest(pairs_of_layer(seen.pairs, layer, seen.run.layers), layer)
    is_rated = is_rated_by(layer)
    cells = []
    for pair in newest:
        look = _look(pair, seen.run.bar) if is_rated else _judged_look(pair, layer)
        for one, other in ((pair.a, pair.b), (pair.b, pair.a)):
            cells.append({**look, "x": places[other.name], "y": places[one.name]})
    return {
        "cells": cells,
        "blocks": blocks,
        "names": _names(seen, places),
        "size": size,
        "box": f"-{MARGIN} -16 {size + MARGIN} {size + 16}",
        "width": min(WIDEST, int(MOST_TIMES * (size + MARGIN))),
        "is_wide": len(seen.nodes) > NAMES_ALL,
        "finding": _finding(newest, seen.run.bar) if is_rated else _judged(newest, layer),
        "title": RATED_TITLE if is_rated else LAYER_WORDS[layer],
        "is_rated": is_rated,
    }


def _names(seen: RunSeen, places: Mapping[str, int]) -> list[dict[str, Any]]:
    """Return the names at the edge: of a few nodes all, of many the first of each leaf and the blamed ones.

    A row is as high as its letters, so that more of them would not be read.
    """
    blamed = {name for suspect in seen.run.suspects for name in suspect["nodes"]}
    names, leaf = [], None
    for node in seen.nodes:
        is_first, leaf = node.rack.leaf.number != leaf, node.rack.leaf.number
        if is_first or node.name in blamed or len(seen.nodes) <= NAMES_ALL:
            digits = _LAST_DIGITS.search(node.name)
            short = digits[0] if digits else node.name[-NAME_LETTERS:]
            is_blamed = node.name in blamed
            names.append({"name": short, "y": places[node.name] + 9, "is_blamed": is_blamed})
    return names


def is_rated_by(layer: str) -> bool:
    """Tell whether the cells of this layer show how fast a pair is, not only whether it passed."""
    return layer in ("", netverdict.COLLECTIVE)


def _places(nodes: Sequence[Node]) -> tuple[dict[str, int], list[dict[str, Any]], int]:
    places: dict[str, int] = {}
    starts: dict[int, int] = {}
    at, last = 0, None
    for node in nodes:
        leaf = node.rack.leaf.number
        if last is not None and leaf != last:
            at += LEAF_GAP
        starts.setdefault(leaf, at)
        places[node.name], last = at, leaf
        at += CELL
    counts = Counter(node.rack.leaf.number for node in nodes)
    spans = [(leaf, start, counts[leaf] * CELL) for leaf, start in starts.items()]
    blocks = [
        {
            "x": x,
            "y": y,
            "width": width,
            "height": height,
            "leaf": leaf if not y else None,
            "middle": x + width // 2,
        }
        for leaf, x, width in spans
        for _other, y, height in spans
    ]
    return places, blocks, at


def _shown(pairs: Sequence[NetPair]) -> list[NetPair]:
    """The pairs without the rungs, which stand in the curve of the loop that they lead to."""
    return [pair for pair in pairs if pair.kind != netrun.RUNG]


def _newest(pairs: Sequence[NetPair], layer: str = "") -> list[NetPair]:
    """Each pair once, as it was measured last: before the load of all pairs, unless its layer is chosen."""
    found: dict[frozenset[str], NetPair] = {}
    for pair in _shown(pairs):
        if pair.kind != netrun.TOGETHER or layer == netverdict.TOGETHER:
            found[frozenset((pair.a.name, pair.b.name))] = pair
    return list(found.values())


def _look(pair: NetPair, bar: float) -> dict[str, Any]:
    """Colour, sign and words of one cell. A failure has its cross, what is not known its question mark."""
    look, sign = "wait", ""
    if pair.step == netrun.DONE:
        if pair.verdict == netverdict.FAIL:
            is_near = pair.ratio is not None and BAD <= pair.ratio < bar
            look, sign = ("warn", "×") if is_near else ("crit", "×")
        elif pair.ratio is None:
            look, sign = "unk", "?"
        else:
            steps = ((STRONG, "m3"), (GOOD, "m2"))
            look = next((name for least, name in steps if pair.ratio >= least), "m1")
            sign = "?" if pair.verdict == netverdict.UNKNOWN else ""
    title = f"{pair}: {percent(pair.ratio)} %, {pair_mark(pair).word}"
    return {"look": look, "sign": sign, "href": _address(pair), "title": title}


def _judged_look(pair: NetPair, layer: str) -> dict[str, Any]:
    """Colour, sign and words of one cell by the verdict of one layer."""
    looks = {
        netverdict.PASS: ("m3", ""),
        netverdict.FAIL: ("crit", "×"),
        netverdict.UNKNOWN: ("unk", "?"),
    }
    look, sign = looks.get(verdict_of(pair, layer), ("wait", ""))
    title = f"{pair}: {pair_mark(pair, layer).word}"
    return {"look": look, "sign": sign, "href": f"{_address(pair)}#{layer}", "title": title}


def _address(pair: NetPair) -> str:
    return reverse("network-pair", args=[pair.run.public_id, pair.pk])


def _judged(pairs: Sequence[NetPair], layer: str) -> str:
    told = Counter(verdict_of(pair, layer) for pair in pairs)
    return _("%(done)d of %(all)d pairs judged, %(failed)d failed, %(unknown)d unknown") % {
        "done": len(pairs) - told[""],
        "all": len(pairs),
        "failed": told[netverdict.FAIL],
        "unknown": told[netverdict.UNKNOWN],
    }


def _finding(pairs: Sequence[NetPair], bar: float) -> str:
    done = [pair for pair in pairs if pair.step == netrun.DONE]
    failed = sum(pair.verdict == netverdict.FAIL for pair in done)
    return _(
        "%(done)d of %(all)d pairs measured, %(failed)d failed; at least %(bar)s %% of the golden pair expected"
    ) % {
        "done": len(done),
        "all": len(pairs),
        "failed": failed,
        "bar": f"{100 * bar:.0f}",
    }


def ranking_drawn(seen: RunSeen) -> list[dict[str, Any]]:
    """Return the nodes worst first, with what the suspects say of each."""
    blamed = {name: suspect["kind"] for suspect in seen.run.suspects for name in suspect["nodes"]}
    rows = netpairs.rank_nodes((node.name for node in seen.nodes), measured(seen.pairs))
    return [
        {
            "rank": at,
            "row": row,
            "median": percent(row.median),
            "worst": percent(row.worst),
            "is_slow": row.worst is not None and row.worst < seen.run.bar,
            "mark": _rank_mark(row, blamed.get(row.name, "")),
            "word": _rank_word(row, blamed.get(row.name, "")),
        }
        for at, row in enumerate(rows, start=1)
    ]


def _rank_mark(row: netpairs.Rank, kind: str) -> Mark:
    if kind == netpairs.NODE:
        return mark_of("netpair", netverdict.FAIL)
    if kind:
        return mark_of("gpu", "attention")
    return mark_of("netpair", netverdict.UNKNOWN if row.median is None else netverdict.PASS)


def _rank_word(row: netpairs.Rank, kind: str) -> str:
    words = {
        netpairs.NODE: _("slow node"),
        netpairs.PATH: _("slow path"),
        netpairs.OPEN: _("undecided"),
    }
    return words.get(kind) or (_("not measured") if row.median is None else _("no finding"))


def suspects_drawn(seen: RunSeen) -> list[dict[str, Any]]:
    """Return the suspects with their sentence, and the tests with known-good partners that told node from path."""
    words = {
        netpairs.NODE: _("Node"),
        netpairs.PATH: _("Path"),
        netpairs.OPEN: _("Not decided"),
    }
    return [
        {
            "mark": mark_of("netpair", "unknown" if one["kind"] == netpairs.OPEN else "fail"),
            "word": words.get(one["kind"], one["kind"]),
            "names": " + ".join(one["nodes"]),
            "why": said(one["why"], _),
            "passes": [
                pair_row(pair)
                for pair in seen.pairs
                if pair.kind == netrun.REPAIR and {pair.a.name, pair.b.name} & set(one["nodes"])
            ],
        }
        for one in seen.run.suspects
    ]


def strip_drawn(seen: RunSeen, layer: str = "") -> list[dict[str, Any]]:
    """Return the four layers of a run, each with how many of its pairs passed."""
    strip, shown = [], _shown(seen.pairs)
    for name in seen.run.layers:
        pairs = pairs_of_layer(shown, name, seen.run.layers)
        verdicts = Counter(
            verdict_of(pair, name) or netverdict.UNKNOWN
            for pair in pairs
            if pair.step == netrun.DONE
        )
        done = sum(verdicts.values())
        strip.append(
            {
                "name": name,
                "is_chosen": name == layer,
                "word": LAYER_WORDS[name],
                "mark": _layer_mark(verdicts, done, len(pairs), seen.run.state in netrun.OPEN),
                "text": _counted(verdicts, done, len(pairs)),
            }
        )
    return strip


def _layer_mark(verdicts: Mapping[str, int], done: int, of: int, is_open: bool) -> Mark:
    if verdicts.get(netverdict.FAIL):
        return mark_of("netpair", netverdict.FAIL)
    if done < of or not of:
        return mark_of("netpair", "running" if is_open and done else "")
    return mark_of(
        "netpair", netverdict.UNKNOWN if verdicts.get(netverdict.UNKNOWN) else netverdict.PASS
    )


def _counted(verdicts: Mapping[str, int], done: int, of: int) -> str:
    if not of:
        return _("not begun")
    parts = [
        ngettext("%(done)d of %(n)d pair", "%(done)d of %(n)d pairs", of) % {"done": done, "n": of}
    ]
    if failed := verdicts.get(netverdict.FAIL):
        parts.append(ngettext("%(n)d failed", "%(n)d failed", failed) % {"n": failed})
    if unknown := verdicts.get(netverdict.UNKNOWN):
        parts.append(ngettext("%(n)d unknown", "%(n)d unknown", unknown) % {"n": unknown})
    return ", ".join(parts)


def pair_rows(seen: RunSeen, layer: str = "") -> list[dict[str, Any]]:
    """Return the pairs, or those that a layer judges, as a table: failed first, then what is not known."""
    order = {netverdict.FAIL: 0, netverdict.UNKNOWN: 1, "": 2, netverdict.PASS: 3}
    rows = sorted(
        pairs_of_layer(_shown(seen.pairs), layer, seen.run.layers),
        key=lambda p: (order.get(verdict_of(p, layer), 2), p.ratio or 0.0, p.round, p.pk),
    )
    return [pair_row(pair, layer) for pair in rows]


def pair_row(pair: NetPair, layer: str = "") -> dict[str, Any]:
    """Return one pair's numbers as words with units in the head of the table."""
    return {
        "pair": pair,
        "mark": pair_mark(pair, layer),
        "is_failed": verdict_of(pair, layer) == netverdict.FAIL,
        "ratio": percent(pair.ratio),
        "busbw": _one_digit(pair.busbw_gbs),
        "loaded": _one_digit(pair.loaded_gbs),
        "p99": _one_digit(pair.p99_us and pair.p99_us / 1000),
        "kind": KIND_WORDS.get(pair.kind, pair.kind),
        "topology": topology_word(pair.topology),
    }


def topology_word(topology: str) -> str:
    """The way between two nodes in words."""
    return _("same leaf") if topology == netpairs.SAME_LEAF else _("across leaves")


def _one_digit(value: float | None) -> str:
    return "–" if value is None else f"{value:.1f}"


def layers_drawn(pair: NetPair, wanted: Sequence[str]) -> list[dict[str, Any]]:
    """Return one pair's layers with every sentence."""
    return [
        {
            "name": name,
            "word": LAYER_WORDS[name],
            "mark": mark_of("netpair", verdict_of(pair, name)),
            "said": [
                {"mark": mark_of("netpair", one["verdict"]), "text": said(one["text"], _)}
                for one in (pair.layers.get(name) or {}).get("said", [])
            ],
        }
        for name in netrun.layers_of(pair.kind, wanted)
    ]


def rails_drawn(pair: NetPair) -> list[dict[str, str]]:
    """Return what each rail carried, one way and both."""
    return [
        {"card": card, "one": _one_digit(ways.get("one")), "two": _one_digit(ways.get("two"))}
        for card, ways in sorted(pair.rails.items())
    ]


def curve_drawn(pair: NetPair) -> list[dict[str, str]]:
    """Return the curve, largest message first."""
    return [
        {"size": _size(int(size)), "busbw": f"{busbw:.2f}", "ms": f"{micros / 1000:.3f}"}
        for size, busbw, micros in reversed(pair.curve)
    ]


LOAD_BOX = (320, 60)


def load_drawn(
    curve: Sequence[Sequence[float]], golden: Mapping[int, float], links: Mapping[int, str]
) -> dict[str, Any] | None:
    """Return the curve under load: a row a number of pairs, each with its share of alone and of gold, and a line.

    `links`: pairs at once to the page of the rung that measured it. The line's foot is zero, so that a small loss
    looks small.
    """
    if not curve:
        return None
    alone = next((width for count, width in curve if count == 1), None)
    rows = [
        {
            "count": int(count),
            "busbw": f"{width:.1f}",
            "of_alone": percent(netpairs.golden_ratio(width, alone)),
            "of_gold": percent(netpairs.golden_ratio(width, golden.get(int(count)))),
            "href": links.get(int(count), ""),
        }
        for count, width in curve
    ]
    width, height = LOAD_BOX
    top, last = max(value for _count, value in curve), max(1, len(curve) - 1)
    points = [
        (round(4 + at * (width - 8) / last), round(height - 4 - (height - 8) * value / top))
        for at, (_count, value) in enumerate(curve)
    ]
    finding = ", ".join(f"{row['count']}: {row['busbw']}" for row in rows)
    return {
        "rows": rows,
        "box": f"0 0 {width} {height}",
        "line": " ".join(f"{x},{y}" for x, y in points),
        "dots": points,
        "foot": height - 4,
        "finding": _("GB/s by pairs at once: %(points)s") % {"points": finding},
    }


def _size(size: int) -> str:
    for unit, step in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if size >= step:
            return f"{size / step:g} {unit}"
    return f"{size} B"
