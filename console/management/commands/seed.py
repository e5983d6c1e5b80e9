"""`manage.py seed`: fill the console from the running lab's inventory. Does nothing without a lab."""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from fleet.lab.node import Lab
from fleet.lab.place import lab_directory
from fleet.rules.inventory import BadRow, read_rows
from fleet.rules.message import said
from fleet.rules.refusals import Conflict
from fleet.services.seed import fleet_seed, matrix_seed, people_seed
from fleet.services.trail import command_actor
from releases.services.gateway_seed import gateway_seed
from releases.services.seed import releases_seed


class Command(BaseCommand):
    help = "Seed nodes, pools, units, releases, a gateway and the lab's accounts; safe to repeat."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--inventory", help="the lab's inventory.json (default: STATE_DIR's lab)"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        if not settings.IS_REHEARSAL:
            self.stdout.write("no lab (LAB=0): nothing to seed")
            return
        try:
            rows = _rows(options["inventory"])
        except FileNotFoundError as error:
            raise CommandError(f"expected the lab's inventory, found no {error.filename}") from None
        except (BadRow, UnicodeDecodeError, OSError) as error:
            raise CommandError(f"the inventory cannot be read: {error}") from None
        actor = command_actor("seed")
        done = fleet_seed(rows, actor=actor)
        for name, why in done.refused:
            self.stderr.write(f"{name}: {said(why)}")
        sealed = releases_seed()
        self.stdout.write(
            f"nodes: {len(done.added)} added, {len(done.changed)} changed, "
            f"{len(done.equal)} equal, {len(done.refused)} refused; {sealed} releases sealed"
        )
        if not options["inventory"]:
            self._gateway(actor)
        self._people(actor)

    def _gateway(self, actor: Any) -> None:
        try:
            row = Lab(lab_directory(settings.STATE_DIR)).gateway_row()
            gateway = gateway_seed(row, actor=actor)
        except (FileNotFoundError, Conflict) as problem:
            self.stderr.write(f"no gateway: {problem}")
            return
        if gateway is None:
            self.stderr.write("no gateway: HAProxy is not installed (apt-get install haproxy)")
        else:
            self.stdout.write(f"gateway: {gateway} at {row['address']}:{gateway.port}")

    def _people(self, actor: Any) -> None:
        if not settings.IS_LOOPBACK:
            self.stderr.write(
                f"accounts not seeded: their password is public and HOST is {settings.HOST}"
            )
            return
        if names := people_seed(actor=actor):
            self.stdout.write(f"accounts: {', '.join(names)}")
        if classes := matrix_seed(actor=actor):
            self.stdout.write(f"network matrix: {', '.join(classes)}")


def _rows(inventory: str | None) -> Sequence[Mapping[str, Any]]:
    if inventory:
        return read_rows(Path(inventory).read_text())
    return Lab(lab_directory(settings.STATE_DIR)).inventory()
