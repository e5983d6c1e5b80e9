"""Finds what tells that a metrics text is torn in its middle, or holds two scrapes.

A text that is cut between two lines looks whole; only what belongs together can show it. Two scrapes whose names
differ and that stand one behind the other are two whole texts: both are read, and nothing shows that they were two.
"""

from __future__ import annotations

import re
from dataclasses import replace

from fleet.readings.metrics.exposition import Exposition, Sample

_BUCKET = "_bucket"
_SUFFIXES = frozenset(("_bucket", "_sum", "_count", "_total", "_created", "_info"))
_SAMPLE_NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]{0,255}")
_TYPE = re.compile(r"^# TYPE (\S{1,200}) \w", re.MULTILINE)


def without_conflicts(exposition: Exposition) -> tuple[Exposition, tuple[str, ...]]:
    """Drop each name of which one series stands twice with different values; return those names.

    Two scrapes in one text would otherwise be summed. The whole name goes: a sum over the rest
    would be a number that nobody measured.
    """
    seen: dict[tuple[str, frozenset[tuple[str, str]]], float] = {}
    kept: list[Sample] = []
    names: dict[str, None] = {}
    for sample in exposition.samples:
        key = (sample.series.name, frozenset(sample.series.labels.items()))
        if key not in seen:
            seen[key] = sample.value
            kept.append(sample)
        elif seen[key] != sample.value and not (sample.value != sample.value != seen[key]):
            names[sample.series.name] = None
    samples = tuple(s for s in kept if s.series.name not in names) if names else tuple(kept)
    return replace(exposition, samples=samples), tuple(names)


def announced_twice(text: str) -> tuple[str, ...]:
    """Return families with two `# TYPE` lines. An endpoint announces each once: these are two scrapes.

    Source: Prometheus' text format, "Only one TYPE line may exist for a given metric name".
    """
    seen: set[str] = set()
    twice: dict[str, None] = {}
    for name in _TYPE.findall(text):
        if name in seen:
            twice[name] = None
        seen.add(name)
    return tuple(twice)


def woven_families(text: str) -> tuple[str, ...]:
    """Return families that go on behind the announcement of another one: two scrapes line by line.

    Source: Prometheus' text format, "All lines for a given metric must be provided as one single group". What no
    `# TYPE` line announced is left out: some exporters print such names anywhere.
    """
    known: set[str] = set()
    current = ""
    woven: dict[str, None] = {}
    for line in text.split("\n"):
        if line.startswith("#"):
            words = line.split(None, 3)
            if len(words) == 4 and words[1] == "TYPE":
                current = words[2]
                known.add(current)
            continue
        if current and not line.startswith(current):
            family = _family_of(line, known)
            if family is not None and family != current:
                woven[family] = None
    return tuple(woven)


def _family_of(line: str, known: set[str]) -> str | None:
    found = _SAMPLE_NAME.match(line)
    if found is None:
        return None
    name = found[0]
    if name in known:
        return name
    base = name.rpartition("_")[0]
    return base if name.removeprefix(base) in _SUFFIXES and base in known else None


def broken_histograms(exposition: Exposition) -> tuple[str, ...]:
    """Return histograms that lack their last bucket or their count for some labels."""
    last: dict[tuple[str, frozenset[tuple[str, str]]], bool] = {}
    counts: set[tuple[str, frozenset[tuple[str, str]]]] = set()
    for sample in exposition.samples:
        name, labels = sample.series
        if name.endswith(_BUCKET) and "le" in labels:
            rest = frozenset((k, v) for k, v in labels.items() if k != "le")
            key = (name.removesuffix(_BUCKET), rest)
            last[key] = last.get(key, False) or labels["le"] in ("+Inf", "inf", "+inf")
        elif name.endswith("_count"):
            counts.add((name.removesuffix("_count"), frozenset(labels.items())))
    return tuple(
        dict.fromkeys(k[0] for k, is_whole in last.items() if not is_whole or k not in counts)
    )
