"""Turns a parsed `nvidia-smi topo -m` into the cells of the matrix. A word that is no link is shown as it is."""

from __future__ import annotations

import re
from typing import Any

_NVLINK = re.compile(r"NV\d+")
_LOOKS = {"X": "x", "PIX": "pix", "PXB": "pix", "PHB": "nod", "NODE": "nod", "SYS": "sys"}


def matrix(
    value: dict[str, Any] | None, differing: frozenset[str] = frozenset()
) -> dict[str, Any] | None:
    """Return head and rows of the matrix, cards first, then NICs; None without a matrix.

    `differing`: the places that are not as gold, "3.5" for row 3, column 5 (rules/golden_folds.paths_of).
    """
    if not value:
        return None
    columns = [str(name) for name in value.get("columns", [])]
    gpus = [n for n, name in enumerate(columns) if name.startswith("GPU")]
    nics = [n for n, name in enumerate(columns) if not name.startswith("GPU")]
    rows = [
        _row(row, gpus, nics, _cells_of(differing, at))
        for at, row in enumerate(value["rows"])
        if str(row.get("name", "")).startswith("GPU")
    ]
    return {
        "gpus": [_short(columns[n]) for n in gpus],
        "nics": [_short(columns[n]) for n in nics],
        "rows": rows,
        "differs": sum(cell["differs"] for row in rows for cell in [*row["gpus"], *row["nics"]]),
        "legend": sorted((value.get("nics") or {}).items()),
    }


def _cells_of(differing: frozenset[str], row: int) -> frozenset[str]:
    """The columns that differ in one row."""
    head = f"{row}."
    return frozenset(path.removeprefix(head) for path in differing if path.startswith(head))


def _row(
    row: dict[str, Any], gpus: list[int], nics: list[int], differing: frozenset[str]
) -> dict[str, Any]:
    links = row.get("links", [])
    return {
        "name": row["name"],
        "gpus": [_cell(links, n, differing) for n in gpus],
        "nics": [_cell(links, n, differing) for n in nics],
        "numa": row.get("numa"),
        "cpu": row.get("cpus"),
        "numa_differs": "numa" in differing,
        "cpu_differs": "cpus" in differing,
    }


def _cell(links: list[str], at: int, differing: frozenset[str]) -> dict[str, Any]:
    word = str(links[at]) if at < len(links) else ""
    look = "nv" if _NVLINK.fullmatch(word) else _LOOKS.get(word, "bad" if word else "x")
    differs = str(at) in differing
    return {"text": word or "–", "look": f"{look} off" if differs else look, "differs": differs}


def _short(name: str) -> str:
    return re.sub(
        r"^(GPU|NIC|mlx5_)", lambda found: found[1][0].upper() if found[1] != "mlx5_" else "N", name
    )
