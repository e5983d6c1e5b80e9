"""`manage.py books check [PATH]`: every fault of the books of a directory, or of one file, at its line."""

from __future__ import annotations

import json
import sys
from argparse import ArgumentParser
from dataclasses import asdict
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand

from runbooks.services.library import BOOKS, Checked, books_check

_NO, _WRONG_USE = 1, 2


class Command(BaseCommand):
    help = "Check books: faults as FILE:LINE: step: text, then what was counted."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("what", choices=["check"])
        parser.add_argument(
            "path", metavar="PATH", nargs="?", default=BOOKS, type=Path,
            help="a book or a directory of books; the shipped ones without it",
        )  # fmt: skip
        parser.add_argument("--json", action="store_true", help="print one object instead")

    def handle(self, *args: Any, path: Path, **options: Any) -> None:
        try:
            checked = books_check(path)
        except OSError as error:
            self._refuse(f"{path}: {error.strerror or error}. Give a book or a directory of books.")
        if not checked.books and not checked.faults:
            self._refuse(f"{path}: no book in it. Books are files of the name ID.toml.")
        self.stdout.write(_as_json(checked) if options["json"] else _as_lines(checked))
        if checked.faults:
            sys.exit(_NO)

    def _refuse(self, why: str) -> None:
        self.stderr.write(why)
        sys.exit(_WRONG_USE)


def _as_json(checked: Checked) -> str:
    return json.dumps(asdict(checked), ensure_ascii=True)


def _as_lines(checked: Checked) -> str:
    counted = f"{checked.books} books, {checked.steps} steps, {len(checked.faults)} faults"
    return "\n".join([*map(str, checked.faults), counted])
