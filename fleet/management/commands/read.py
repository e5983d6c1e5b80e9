"""`manage.py read KIND [FILE|-]`: what a pasted tool output says, as one JSON object."""

from __future__ import annotations

import contextlib
import json
import sys
from argparse import ArgumentParser
from collections.abc import Iterator
from typing import Any

from django.core.management.base import BaseCommand

from fleet.readings.kinds import KINDS, read_as, readable_kinds
from fleet.readings.text import Readable

_WRONG_USE = 2


class Command(BaseCommand):
    help = "Read the output of a tool and print what it says as one JSON object."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("kind", metavar="KIND", help=f"one of {', '.join((*KINDS, 'auto'))}")
        parser.add_argument("file", metavar="FILE", nargs="?", default="-", help="- is stdin")
        parser.add_argument("--json", action="store_true", help="accepted; the answer always is")

    def handle(self, *args: Any, kind: str, file: str, **options: Any) -> None:
        if kind not in readable_kinds():
            self._refuse(_why_not(kind))
        try:
            with _opened(file) as stream:
                report = read_as(kind, stream)
        except OSError as error:
            self._refuse(f"{file}: {error.strerror or error}. Give a file that can be read, or -.")
        self.stdout.write(json.dumps(report.as_object(), ensure_ascii=True, allow_nan=False))

    def _refuse(self, why: str) -> None:
        self.stderr.write(why)
        sys.exit(_WRONG_USE)


def _why_not(kind: str) -> str:
    known = ", ".join(readable_kinds())
    if kind in KINDS:
        return f"There is no reader for {kind} yet. Kinds that can be read: {known}."
    return f"Unknown kind {kind[:80]!r}. Kinds that can be read: {known}."


@contextlib.contextmanager
def _opened(file: str) -> Iterator[Readable]:
    if file == "-":
        yield sys.stdin.buffer
        return
    with open(file, "rb") as stream:
        yield stream
