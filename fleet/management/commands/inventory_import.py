"""`manage.py inventory_import FILE`: bring real nodes in. Contacts no node; a host key is accepted on its page."""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from fleet.rules.inventory import BadRow, read_rows
from fleet.services.inventory import inventory_import
from fleet.services.trail import command_actor

EXPECTED = (
    "a JSON list of objects with name, address, ssh_port, user, leaf, rack, model_root, node_class"
)


class Command(BaseCommand):
    help = "Add the nodes of an inventory file, or change what it says of known ones."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("file", type=Path, help=EXPECTED)

    def handle(self, *args: Any, file: Path, **options: Any) -> None:
        done = inventory_import(_rows(file), origin="real", actor=command_actor("inventory_import"))
        for name, why in done.refused:
            self.stderr.write(f"{name}: {why}")
        self.stdout.write(
            f"nodes: {len(done.added)} added, {len(done.changed)} changed, "
            f"{len(done.equal)} equal, {len(done.refused)} refused"
        )
        if done.refused:
            raise CommandError("some rows were refused; mend them and import the file again")


def _rows(file: Path) -> Sequence[Mapping[str, Any]]:
    try:
        return read_rows(file.read_text())
    except (BadRow, OSError, UnicodeDecodeError) as error:
        raise CommandError(f"expected {EXPECTED} in {file}: {error}") from None
