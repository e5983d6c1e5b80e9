"""manage.py watch: see what nodes do, until SIGTERM. Two may run; one of them works."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.core.management.base import BaseCommand

from fleet.execution.log_format import LineFacts
from fleet.execution.watch import watch_forever
from fleet.execution.watch_capture import Classify, Redact
from fleet.execution.watch_shift import Tools
from fleet.readings.log_line import LineClassifier
from fleet.rules.redact import Redactor, ends_in_key

_LETTERS = {"debug": "D", "info": "I", "warn": "W", "error": "E"}


class Command(BaseCommand):
    help = "Follow output, exits and reachability of all nodes under the lease of the watch."

    def handle(self, *args: Any, **options: Any) -> None:
        watch_forever(tools_make())


def tools_make() -> Tools:
    """Return what the kernel borrows from the fleet: how lines are read and what is secret."""
    known = known_secrets()

    def redactor_of(last_texts: list[str]) -> Redact:
        is_in_key = bool(last_texts) and ends_in_key(last_texts[-1])
        return Redactor(known, is_in_key=is_in_key).line

    return Tools(classifier_of=classifier_of, redactor_of=redactor_of)


def classifier_of(layout: dict[str, Any]) -> Classify:
    """Return a reader of the lines of one stream, in order, for its place in the unit."""
    reader = LineClassifier(
        position=int(layout.get("position", 0)),
        gpus_per_node=int(layout.get("gpus_per_node", 8)),
        tp=int(layout.get("tp", 1)),
        pp=int(layout.get("pp", 1)),
        dp=int(layout.get("dp", 1)),
    )

    def classify(text: str) -> LineFacts:
        line = reader.read(text)
        return LineFacts(line.rank, _LETTERS[line.level], line.subsystem)

    return classify


def known_secrets() -> list[str]:
    """Return the secrets of this console; a node that prints one must not spread it."""
    addresses = (settings.DATABASE_URL, settings.REDIS_URL)
    passwords = [urlsplit(address).password or "" for address in addresses]
    return [secret for secret in (settings.SECRET_KEY, *passwords) if secret]
