"""Turns a parsed `nvidia-smi topo -m` into the cells of the matrix. A word that is no link is shown as it is."""

from __future__ import annotations

import re
from typing import Any

_NVLINK = re.compile(r"NV\d+")
_LOOKS = {"X": "x", "PIX": "pix", "PXB": "pix", "PHB": "nod", "NODE": "nod", "SYS": "sys"}


def matrix(value: dict[str, Any] | None) -> dict[str, Any] | None:
    """Return head and rows of the matrix, cards first, then NICs; None without a matrix."""
    if not value:
        return None
    columns = [str(name) for name in value.get("columns", [])]
    gpus = [n for n, name in enumerate(columns) if name.startswith("GPU")]
    nics = [n for n, name in enumerate(columns) if not name.startswith("GPU")]
    rows = [
        _row(row, gpus, nics) for row in value["rows"] if str(row.get("name", "")).startswith("GPU")
    ]
    return {
        "gpus": [_short(columns[n]) for n in gpus],
        "nics": [_short(columns[n]) for n in nics],
        "rows": rows,
        "legend": sorted((value.get("nics") or {}).items()),
    }


def _row(row: dict[str, Any], gpus: list[int], nics: list[int]) -> dict[str, Any]:
    links = row.get("links", [])
    return {
        "name": row["name"],
        "gpus": [_cell(links, n) for n in gpus],
        "nics": [_cell(links, n) for n in nics],
        "numa": row.get("numa"),
        "cpu": row.get("cpus"),
    }


def _cell(links: list[str], at: int) -> dict[str, str]:
    word = str(links[at]) if at < len(links) else ""
    if _NVLINK.fullmatch(word):
        return {"text": word, "look": "nv"}
    return {"text": word or "–", "look": _LOOKS.get(word, "bad" if word else "x")}


def _short(name: str) -> str:
    return re.sub(
        r"^(GPU|NIC|mlx5_)", lambda found: found[1][0].upper() if found[1] != "mlx5_" else "N", name
    )
