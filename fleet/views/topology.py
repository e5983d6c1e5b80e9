"""Turns a parsed `nvidia-smi topo -m` into the cells of the matrix. A word that is no link is shown as it is."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from fleet.rules.golden import Difference

_NVLINK = re.compile(r"NV\d+")
_LOOKS = {"X": "x", "PIX": "pix", "PXB": "pix", "PHB": "nod", "NODE": "nod", "SYS": "sys"}

# (fact, path of a part such as "3.5") -> what gold has there.
Differing = Mapping[tuple[str, str], str]


def differing(differences: Iterable[Difference]) -> Differing:
    """Return the parts of any fact that are not as gold, for `matrix`."""
    return {(one.key, one.path): str(one.expected) for one in differences if one.path}


def matrix(value: dict[str, Any] | None, gold: Differing | None = None) -> dict[str, Any] | None:
    """Return head and rows of the matrix, cards first, then NICs; None without a matrix.

    A cell of nvlink_matrix or nic_matrix, and a row of gpu_numa or gpu_cpus, that `gold` names is marked with what
    gold has there.
    """
    if not value:
        return None
    columns = [str(name) for name in value.get("columns", [])]
    gpus = [n for n, name in enumerate(columns) if name.startswith("GPU")]
    nics = [n for n, name in enumerate(columns) if not name.startswith("GPU")]
    cards = [row for row in value["rows"] if str(row.get("name", "")).startswith("GPU")]
    rows = [_row(place, row, gpus, nics, gold or {}) for place, row in enumerate(cards)]
    return {
        "gpus": [_short(columns[n]) for n in gpus],
        "nics": [_short(columns[n]) for n in nics],
        "rows": rows,
        "differs": sum("gold" in cell for row in rows for cell in [*row["gpus"], *row["nics"]]),
        "legend": sorted((value.get("nics") or {}).items()),
    }


def _row(
    place: int, row: dict[str, Any], gpus: list[int], nics: list[int], gold: Differing
) -> dict[str, Any]:
    links = row.get("links", [])
    parts = {"nvlink_matrix": gpus, "nic_matrix": nics}
    cells = {
        key: [_cell(links, at, gold.get((key, f"{place}.{n}"))) for n, at in enumerate(columns)]
        for key, columns in parts.items()
    }
    return {
        "name": row["name"],
        "gpus": cells["nvlink_matrix"],
        "nics": cells["nic_matrix"],
        "numa": row.get("numa"),
        "cpu": row.get("cpus"),
        "numa_gold": gold.get(("gpu_numa", str(place))),
        "cpu_gold": gold.get(("gpu_cpus", str(place))),
    }


def _cell(links: list[str], at: int, gold: str | None) -> dict[str, Any]:
    word = str(links[at]) if at < len(links) else ""
    look = "nv" if _NVLINK.fullmatch(word) else _LOOKS.get(word, "bad" if word else "x")
    if gold is None:
        return {"text": word or "–", "look": look}
    return {"text": word or "–", "look": f"{look} off", "gold": gold}


def _short(name: str) -> str:
    return re.sub(
        r"^(GPU|NIC|mlx5_)", lambda found: found[1][0].upper() if found[1] != "mlx5_" else "N", name
    )
