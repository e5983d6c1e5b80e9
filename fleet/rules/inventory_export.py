"""Writes an inventory as text that an import reads back without a difference: YAML, or CSV of the nodes. Pure."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping
from typing import Any

import yaml

from fleet.rules.inventory_csv import COLUMNS
from fleet.rules.inventory_file import Inventory

_WIDE = 1_000_000  # a row is one line, so that two exports compare line by line


def write_yaml(inventory: Inventory) -> str:
    """Return the whole inventory, a line for each node and pool; the same fleet is the same text."""
    sections = {
        "nodes": [_without_empty(row) for row in inventory.nodes],
        "pools": [_without_empty(row) for row in inventory.pools],
        "units": [dict(row) for row in inventory.units],
    }
    return yaml.safe_dump(
        {name: rows for name, rows in sections.items() if rows or name == "nodes"},
        sort_keys=False,
        allow_unicode=True,
        default_flow_style=None,
        width=_WIDE,
    )


def write_csv(nodes: Iterable[Mapping[str, Any]]) -> str:
    """Return the nodes, a line each under the names of their fields. Pools and units need YAML."""
    out = io.StringIO()
    writer = csv.DictWriter(out, COLUMNS, lineterminator="\n")
    writer.writeheader()
    for row in nodes:
        writer.writerow({name: row.get(name, "") for name in COLUMNS})
    return out.getvalue()


def _without_empty(row: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if value not in ("", None)}
