"""`manage.py inventory_import FILE`: bring real nodes, pools and units in. Contacts no node.

A host key is accepted on the node's page unless the file names it. Exit codes: 0 done, 1 something was refused,
2 wrong use, 3 the database does not run. stdout is data: a line a change, or one object with --json.
"""

from __future__ import annotations

import json
import sys
from argparse import ArgumentParser
from dataclasses import asdict
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.db import OperationalError

from fleet.rules.inventory import BadRow
from fleet.rules.inventory_file import BYTES_MAX, Inventory, read_inventory
from fleet.rules.message import said
from fleet.services.inventory import ADDED, CHANGED, EQUAL, HELD, REFUSED, Change, Imported
from fleet.services.placement import fleet_import
from fleet.services.trail import command_actor

REFUSED_SOME, WRONG_USE, NOT_RUNNING = 1, 2, 3
EXPECTED = "YAML or JSON: a list of nodes, or an object with nodes, pools and units"
_WORDS = {"node": "node", "pool": "pool", "replica": "unit"}


class Command(BaseCommand):
    help = (
        "Add what an inventory file names, or change what it says of known nodes, pools and units."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("file", help=f"{EXPECTED}; - is stdin")
        parser.add_argument("--dry-run", action="store_true", help="say what would change, only")
        parser.add_argument("--json", action="store_true", dest="as_json", help="one object")

    def handle(self, *args: Any, file: str, dry_run: bool, as_json: bool, **options: Any) -> None:
        inventory = _read(file)
        try:
            done = fleet_import(inventory, actor=command_actor("inventory_import"), is_dry=dry_run)
        except OperationalError as error:
            raise CommandError(
                f"expected a database that answers: {error}", returncode=NOT_RUNNING
            ) from None
        for change in done.changes:
            if change.outcome == REFUSED:
                self.stderr.write(f"! {_WORDS[change.kind]} {change.name}: {said(change.why)}")
            elif not as_json and change.outcome != EQUAL:
                self.stdout.write(_line(change))
        self.stdout.write(_object(done, dry_run) if as_json else _summary(done, dry_run))
        if done.refused:
            raise CommandError(
                "some rows were refused; mend them and import the file again",
                returncode=REFUSED_SOME,
            )


def _read(file: str) -> Inventory:
    try:
        raw = sys.stdin.buffer.read(BYTES_MAX + 1) if file == "-" else _bytes(Path(file))
        return read_inventory(raw.decode())
    except (BadRow, OSError, UnicodeDecodeError) as error:
        raise CommandError(
            f"expected {EXPECTED} in {file}: {error}", returncode=WRONG_USE
        ) from None


def _bytes(path: Path) -> bytes:
    with path.open("rb") as stream:
        return stream.read(BYTES_MAX + 1)


def _line(change: Change) -> str:
    sign = {ADDED: "+", HELD: "="}.get(change.outcome, "~")
    head = f"{sign} {_WORDS[change.kind]} {change.name}"
    if change.outcome == HELD:
        return f"{head}: {said(change.why)}"
    if change.outcome == ADDED:
        return f"{head}: " + ", ".join(
            f"{name} {_text(value)}" for name, value in change.after.items()
        )
    return f"{head}: " + ", ".join(
        f"{name} {_text(change.before.get(name))} -> {_text(value)}"
        for name, value in change.after.items()
    )


def _text(value: Any) -> str:
    text = " + ".join(value) if isinstance(value, list) else str(value)
    return text or "none"


def _summary(done: Imported, is_dry: bool) -> str:
    lines = []
    for kind, word in _WORDS.items():
        mine = [change.outcome for change in done.changes if change.kind == kind]
        wanted = [ADDED, CHANGED, EQUAL, *([HELD] if HELD in mine else []), REFUSED]
        counts = (f"{mine.count(outcome)} {outcome}" for outcome in wanted)
        if mine or kind == "node":
            lines.append(f"{word}s: {', '.join(counts)}")
    return "\n".join([*lines, *(["dry run: nothing was written"] if is_dry else [])])


def _object(done: Imported, is_dry: bool) -> str:
    changes = [
        asdict(change) | {"kind": _WORDS[change.kind], "why": said(change.why)}
        for change in done.changes
    ]
    return json.dumps({"is_dry": is_dry, "changes": changes}, ensure_ascii=False)
