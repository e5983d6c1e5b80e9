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
from fleet.rules.message import foreign, say

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
        raise BadRow(say("expected at most %(most)s bytes; split the inventory", most=BYTES_MAX))
    text = text.removeprefix("\ufeff")
    if is_csv(text):
        return Inventory(nodes=_expanded(_rows("nodes", read_csv(text))))
    found = _parse(text, numbered)
    sections = {"nodes": found} if isinstance(found, list) else found
    if not isinstance(sections, dict) or not sections:
        raise BadRow(
            say(
                "expected a list of nodes, or %(sections)s with a list each",
                sections=", ".join(_SECTIONS),
            )
        )
    if strange := sorted(set(sections) - set(_SECTIONS)):
        raise BadRow(
            say(
                "expected %(sections)s, found %(found)s",
                sections=", ".join(_SECTIONS),
                found=repr(strange[0][:40]),
            )
        )
    read = {name: _rows(name, rows) for name, rows in sections.items()}
    return Inventory(**{**read, "nodes": _expanded(read.get("nodes", []))})


def _expanded(rows: list[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Take rows of many nodes apart; what they come to is limited like what is written out."""
    return _rows("nodes", expand_rows(rows))


def _rows(name: str, rows: Any) -> list[Mapping[str, Any]]:
    if rows in (None, ""):
        return []
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise BadRow(
            say("%(field)s: expected a list of objects, one for each of the %(field)s", field=name)
        )
    if len(rows) > ROWS_MAX:
        raise BadRow(
            say(
                "%(field)s: expected at most %(most)s, found %(found)s; split the inventory",
                field=name,
                most=ROWS_MAX,
                found=len(rows),
            )
        )
    return rows


def _parse(text: str, numbered: bool = False) -> Any:
    if numbered:
        with suppress(BadRow):  # JSON with tabs is no YAML; it is read without its lines
            return _parse_yaml(text)
    if text.lstrip()[:1] in {"[", "{"}:
        try:  # JSON is most of the time meant, and read faster; YAML's own short forms begin alike
            return json.loads(text, object_pairs_hook=_unique)
        except RecursionError:
            raise BadRow(
                say("expected lists and objects of a few levels, found too many")
            ) from None
        except ValueError as error:
            if isinstance(error, BadRow):
                raise
    return _parse_yaml(text)


def _parse_yaml(text: str) -> Any:
    try:
        return _document(yaml.parse(text, Loader=_LOADER))
    except (yaml.YAMLError, UnicodeEncodeError) as error:
        mark = getattr(error, "problem_mark", None)
        what = foreign(getattr(error, "problem", None) or str(error).splitlines()[0])
        if mark is None:
            why = say("expected YAML or JSON, found something else: %(found)s", found=what)
        else:
            why = say(
                "line %(line)s: expected YAML or JSON, found something else: %(found)s",
                line=mark.line + 1,
                found=what,
            )
        raise BadRow(why) from None


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise BadRow(
            say(
                "expected each key once, found one twice beside %(key)s",
                key=repr(pairs[0][0][:40]),
            )
        )
    return found


def _document(events: Iterator[Any]) -> Any:
    for event in events:
        if not isinstance(event, yaml.StreamStartEvent | yaml.DocumentStartEvent):
            break
    if isinstance(event, yaml.StreamEndEvent):
        raise BadRow(say("expected an inventory, found an empty file"))
    found = _value(event, events, _DEPTH_MAX)
    if any(isinstance(event, yaml.DocumentStartEvent) for event in events):
        raise BadRow(say("expected one document, found more after ---"))
    return found


def _value(event: Any, events: Iterator[Any], depth: int) -> Any:
    line = event.start_mark.line + 1
    if isinstance(event, yaml.AliasEvent):
        raise BadRow(
            say(
                "line %(line)s: expected plain values, found an alias (*%(name)s)",
                line=line,
                name=foreign(event.anchor[:40]),
            )
        )
    if event.tag is not None:
        raise BadRow(
            say(
                "line %(line)s: expected plain values, found a tag (%(name)s)",
                line=line,
                name=foreign(event.tag[:40]),
            )
        )
    if isinstance(event, yaml.ScalarEvent):
        return None if event.value in {"", "~", "null"} and event.implicit[0] else event.value
    if depth == 0:
        raise BadRow(
            say(
                "line %(line)s: expected at most %(most)s levels of lists and objects",
                line=line,
                most=_DEPTH_MAX,
            )
        )
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
            raise BadRow(say("line %(line)s: expected a plain word as a key", line=line))
        if (key := event.value) in found:
            raise BadRow(
                say(
                    "line %(line)s: expected each key once, found %(key)s again",
                    line=line,
                    key=repr(key[:40]),
                )
            )
        found.lines[key] = line
        found[key] = _value(next(events), events, depth)
    return found
