"""Reads an inventory file, YAML, JSON or CSV, into plain lists and dicts. Pure; what the rows mean is judged elsewhere.

A file is hostile until read: no tags, no aliases, no key twice, limited in size and depth. Every scalar of YAML
stays the text that was written, so that `NO` is no truth and `010` no eight.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import yaml

from fleet.rules.inventory import BadRow
from fleet.rules.inventory_csv import is_csv, read_csv
from fleet.rules.inventory_rows import Row, expand_rows

BYTES_MAX = 2 * 1024 * 1024
ROWS_MAX = 5000
_DEPTH_MAX = 8
_SECTIONS = ("nodes", "pools", "units")
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@dataclass(frozen=True)
class Inventory:
    """The rows of one file, not yet checked one by one."""

    nodes: list[Mapping[str, Any]] = field(default_factory=list)
    pools: list[Mapping[str, Any]] = field(default_factory=list)
    units: list[Mapping[str, Any]] = field(default_factory=list)


def read_inventory(text: str, *, numbered: bool = False) -> Inventory:
    """Read a list of nodes, or an object with `nodes`, `pools` and `units`, each a list; or nodes as CSV.

    `numbered` keeps the line of each row where it can be told, also of JSON, which then takes longer to read.
    Raises BadRow.
    """
    if len(text.encode(errors="surrogatepass")) > BYTES_MAX:
        raise BadRow(f"expected at most {BYTES_MAX} bytes; split the inventory")
    text = text.removeprefix("\ufeff")
    if is_csv(text):
        return Inventory(nodes=_expanded(_rows("nodes", read_csv(text))))
    found = _parse(text, numbered)
    sections = {"nodes": found} if isinstance(found, list) else found
    if not isinstance(sections, dict) or not sections:
        raise BadRow(f"expected a list of nodes, or {', '.join(_SECTIONS)} with a list each")
    if strange := sorted(set(sections) - set(_SECTIONS)):
        raise BadRow(f"expected {', '.join(_SECTIONS)}, found {strange[0][:40]!r}")
    read = {name: _rows(name, rows) for name, rows in sections.items()}
    return Inventory(**{**read, "nodes": _expanded(read.get("nodes", []))})


def _expanded(rows: list[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Take rows of many nodes apart; what they come to is limited like what is written out."""
    return _rows("nodes", expand_rows(rows))


def _rows(name: str, rows: Any) -> list[Mapping[str, Any]]:
    if rows in (None, ""):
        return []
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise BadRow(f"{name}: expected a list of objects, one for each of the {name}")
    if len(rows) > ROWS_MAX:
        raise BadRow(f"{name}: expected at most {ROWS_MAX}, found {len(rows)}; split the inventory")
    return rows


def _parse(text: str, numbered: bool = False) -> Any:
    if numbered:
        with suppress(BadRow):  # JSON with tabs is no YAML; it is read without its lines
            return _parse_yaml(text)
    if text.lstrip()[:1] in {"[", "{"}:
        try:  # JSON is most of the time meant, and read faster; YAML's own short forms begin alike
            return json.loads(text, object_pairs_hook=_unique)
        except RecursionError:
            raise BadRow("expected lists and objects of a few levels, found too many") from None
        except ValueError as error:
            if isinstance(error, BadRow):
                raise
    return _parse_yaml(text)


def _parse_yaml(text: str) -> Any:
    try:
        return _document(yaml.parse(text, Loader=_LOADER))
    except (yaml.YAMLError, UnicodeEncodeError) as error:
        mark = getattr(error, "problem_mark", None)
        where = f"line {mark.line + 1}: " if mark else ""
        what = getattr(error, "problem", None) or str(error).splitlines()[0]
        raise BadRow(f"{where}expected YAML or JSON, found something else: {what}") from None


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise BadRow(f"expected each key once, found one twice beside {pairs[0][0][:40]!r}")
    return found


def _document(events: Iterator[Any]) -> Any:
    for event in events:
        if not isinstance(event, yaml.StreamStartEvent | yaml.DocumentStartEvent):
            break
    if isinstance(event, yaml.StreamEndEvent):
        raise BadRow("expected an inventory, found an empty file")
    found = _value(event, events, _DEPTH_MAX)
    if any(isinstance(event, yaml.DocumentStartEvent) for event in events):
        raise BadRow("expected one document, found more after ---")
    return found


def _value(event: Any, events: Iterator[Any], depth: int) -> Any:
    line = event.start_mark.line + 1
    if isinstance(event, yaml.AliasEvent):
        raise BadRow(f"line {line}: expected plain values, found an alias (*{event.anchor[:40]})")
    if event.tag is not None:
        raise BadRow(f"line {line}: expected plain values, found a tag ({event.tag[:40]})")
    if isinstance(event, yaml.ScalarEvent):
        return None if event.value in {"", "~", "null"} and event.implicit[0] else event.value
    if depth == 0:
        raise BadRow(f"line {line}: expected at most {_DEPTH_MAX} levels of lists and objects")
    if isinstance(event, yaml.SequenceStartEvent):
        return _list(events, depth - 1)
    return _mapping(events, depth - 1, line)


def _list(events: Iterator[Any], depth: int) -> list[Any]:
    rows = []
    while not isinstance(event := next(events), yaml.SequenceEndEvent):
        rows.append(_value(event, events, depth))
    return rows


def _mapping(events: Iterator[Any], depth: int, begins: int) -> Row:
    found = Row(line=begins)
    while not isinstance(event := next(events), yaml.MappingEndEvent):
        line = event.start_mark.line + 1
        if not isinstance(event, yaml.ScalarEvent) or event.tag is not None:
            raise BadRow(f"line {line}: expected a plain word as a key")
        if (key := event.value) in found:
            raise BadRow(f"line {line}: expected each key once, found {key[:40]!r} again")
        found.lines[key] = line
        found[key] = _value(next(events), events, depth)
    return found
