"""What a pasted `nvidia-smi topo -m` says about its node, without a golden node beside it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from fleet.readings.open_end import end_of
from fleet.readings.report import Finding, Report, Severity, lead, open_end, verdict_of
from fleet.readings.told import tell, tell_all
from fleet.readings.topo import PATH_ORDER, Topology, is_whole_line, parse_topo
from fleet.readings.verdicts.beside import KernelBeside

_LEGEND = re.compile(r"(?m)^ {1,8}(X|NV#|[A-Z]{3,4}) {1,8}= ")


def report_topo(text: str) -> Report:
    """Judge one capture; a torn matrix is unknown, never a pass."""
    end = end_of(text, is_whole_line)
    text, torn, cut = end.text, end.torn, end.cut
    topo, beside = parse_topo(text), KernelBeside(text)
    findings = (*open_end(cut), *_findings(topo), *beside.findings())
    is_whole = topo.complete and cut is None and not _is_legend_cut(text)
    is_good = is_whole and not any(f.id.startswith(("xid", "sxid")) for f in findings)
    return Report(
        kind="topo",
        form="matrix" if topo.columns else ("sentence" if topo.sentences else "none"),
        complete=is_whole,
        verdict=verdict_of(findings, known_good=is_good),
        summary=lead(findings, _summary(topo)),
        findings=findings,
        values=_values(topo) | {"xid_count": beside.xid_count},
        unread=tuple(sorted({*topo.unread, *topo.other, *([torn] if torn else [])})),
    )


def _is_legend_cut(text: str) -> bool:
    """Tell a legend without its last word; one that somebody shortened to a line is none."""
    words = _LEGEND.findall(text)
    return len(words) > 1 and "NV#" not in words


def _findings(topo: Topology) -> Iterator[Finding]:
    for sentence in topo.sentences:
        severity: Severity = "error" if sentence.kind in ("lost_gpu", "driver_mismatch") else "warn"
        yield Finding(sentence.kind, severity, sentence.text[:300], (sentence.line,))
    if topo.columns and topo.problems:
        lines = topo.unread or ((topo.header_line,) if topo.header_line else ())
        yield Finding("incomplete", "warn", tell_all(topo.problems[:6]), lines)
    if bare := _without_nvlink(topo):
        text = tell(
            "%(gpus)s: no NVLink, all other cards have it with each other", gpus=", ".join(bare)
        )
        lines = tuple(r.line for r in topo.rows if r.name in bare)
        yield Finding("nvlink_missing", "error", text, lines)
    own = [r.gpu_numa_id for r in topo.rows if r.gpu_numa_id is not None]
    if topo.has_gpu_numa_column and topo.complete and not own:
        text = tell("GPU NUMA ID is N/A for all cards: their memory is no NUMA node of the host")
        yield Finding("gpu_numa_none", "info", text)
    far = [g for g in topo.gpus if (near := topo.nearest_nics(g)) and near[0] == "SYS"]
    if far and len(far) == len(topo.gpus):
        what = tell("the only NIC") if len(topo.nics) == 1 else tell("any NIC")
        yield Finding("nic_far", "warn", tell("no GPU is closer than SYS to %(nic)s", nic=what))
    elif far:
        text = tell("%(gpus)s: no NIC closer than SYS", gpus=", ".join(far))
        yield Finding("nic_far", "warn", text)


def _without_nvlink(topo: Topology) -> list[str]:
    """Name cards without any NVLink where at least three others are all linked: behind switches that is a fault.

    Bridges between pairs of cards leave out others by design, so pairs alone say nothing.
    """
    if not topo.complete:
        return []
    pairs = topo.pairs(topo.gpus, topo.gpus)
    linked = {card for pair, word in pairs.items() if word.startswith("NV") for card in pair}
    meshed = all(w.startswith("NV") for pair, w in pairs.items() if linked.issuperset(pair))
    return [g for g in topo.gpus if g not in linked] if len(linked) >= 3 and meshed else []


def _summary(topo: Topology) -> str:
    if not topo.columns:
        return (
            topo.sentences[0].text[:300] if topo.sentences else tell("No topo matrix in this text.")
        )
    counted = tell("%(gpus)s GPU, %(nics)s NIC", gpus=len(topo.gpus), nics=len(topo.nics))
    if not topo.complete:
        return tell(
            "%(counted)s in the header, but the matrix is incomplete: %(why)s.",
            counted=counted,
            why=topo.problems[0],
        )
    words = set(topo.pairs(topo.gpus, topo.gpus).values())
    if not words:
        return tell("%(counted)s: a single card has no pair.", counted=counted)
    return tell(
        "%(counted)s; links between cards: %(words)s.",
        counted=counted,
        words=", ".join(sorted(words)),
    )


def _values(topo: Topology) -> dict[str, Any]:
    if not topo.columns:
        error = topo.sentences[0] if topo.sentences else None
        return {
            "gpu_count": None,
            "nic_count": None,
            "error": f"{error.kind} error" if error else None,
        }
    pairs = topo.pairs(topo.gpus, topo.gpus)
    gpu_rows = [r for r in topo.rows if r.name in topo.gpus]
    return {
        "gpu_count": len(topo.gpus),
        "gpu_count_header": len(topo.gpus),
        "rows_present": len(gpu_rows),
        "nic_count": len(topo.nics),
        "gpu_gpu": _all_pairs(topo, {f"{a}-{b}": word for (a, b), word in pairs.items()}),
        "gpu_nic": _with_all(_named(topo, topo.gpus)),
        "nic_nic": {f"{a}-{b}": word for (a, b), word in topo.pairs(topo.nics, topo.nics).items()},
        "nic_names": [topo.nic_name(n) for n in topo.nics],
        "nearest_nic": _nearest(topo),
        "cpu_affinity": {r.name: r.cpu_affinity for r in gpu_rows},
        "numa_affinity": _with_runs({r.name: r.numa_affinity for r in gpu_rows}),
        "gpu_numa_id": _own_numa(topo),
        **_shape(topo, set(pairs.values())),
    }


def _all_pairs(topo: Topology, pairs: dict[str, str]) -> dict[str, str]:
    """Add one word for all pairs of more than two cards when they agree: a torn matrix says less."""
    words = set(pairs.values())
    if len(pairs) < 2 or len(words) != 1:
        return pairs
    return pairs | {"all_offdiag" if topo.complete else "all present": words.pop()}


def _with_all(told: dict[str, Any]) -> dict[str, Any]:
    """Add `all` when more than one device say the same."""
    first = next(iter(told.values()), None)
    if len(told) < 2 or first is None or any(word != first for word in told.values()):
        return dict(told)
    return told | {"all": first}


def _with_runs(told: dict[str, Any]) -> dict[str, Any]:
    """Add neighbours that say the same as one, as in `GPU0-3`, or `all` when everybody does."""
    found = _with_all(told)
    if "all" in found:
        return found
    for number in range(len(told)):
        word = told.get(f"GPU{number}")
        if word is None or (number and told.get(f"GPU{number - 1}") == word):
            continue
        end = number
        while told.get(f"GPU{end + 1}") == word:
            end += 1
        if end > number:
            found[f"GPU{number}-{end}"] = word
    return found


def _own_numa(topo: Topology) -> dict[str, int | None] | str:
    if not topo.has_gpu_numa_column:
        return "column absent"
    return {r.name: r.gpu_numa_id for r in topo.rows if r.name in topo.gpus}


def _named(topo: Topology, gpus: tuple[str, ...]) -> dict[str, str]:
    return {f"{g}-{n}": w for (g, n), w in topo.pairs(gpus, topo.nics).items()}


def _nearest(topo: Topology) -> dict[str, str | list[str] | None]:
    """Name the nearest NIC of each card; a tie lists all, and SYS is no neighbour."""
    named: dict[str, str | list[str] | None] = {}
    for gpu in topo.gpus:
        near = topo.nearest_nics(gpu)
        if near is None or near[0] == "SYS":
            named[gpu] = None
            continue
        names = [topo.nic_name(n) for n in near[1]]
        named[gpu] = names[0] if len(names) == 1 else names
    return named if topo.nics else {}


def _shape(topo: Topology, words: set[str]) -> dict[str, Any]:
    nvlink = {w for w in words if w.startswith("NV")}
    uniform = len(words) == 1 and bool(nvlink) and topo.complete
    return {
        "has_nvlink": bool(nvlink) if words else None,
        "nvswitch_uniform": uniform if len(topo.gpus) > 2 and topo.complete else None,
        "nvlinks_per_pair": int(next(iter(nvlink))[2:]) if uniform else None,
        "best_tp_pair": _best_pair(topo),
    }


def _best_pair(topo: Topology) -> list[str] | None:
    """Name the one pair that is nearer than all others, when there is exactly one."""
    ranked: dict[int, list[tuple[str, str]]] = {}
    for pair, word in topo.pairs(topo.gpus, topo.gpus).items():
        near = -int(word[2:]) if word.startswith("NV") else _path_rank(word)
        ranked.setdefault(near, []).append(pair)
    if not ranked or len(topo.gpus) < 2:
        return None
    best = ranked[min(ranked)]
    return list(best[0]) if len(best) == 1 else None


def _path_rank(word: str) -> int:
    return PATH_ORDER.index(word) + 1 if word in PATH_ORDER else len(PATH_ORDER) + 1
