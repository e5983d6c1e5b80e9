"""`manage.py hands`: one worker that carries commands to nodes, until it is told to stop."""

from __future__ import annotations

import time
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from redis.exceptions import RedisError

from fleet.execution import states
from fleet.execution.faults import scaled
from fleet.execution.hands import work


class Command(BaseCommand):
    help = "Carry commands to nodes (one worker, no scheduler)."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--queues",
            default=",".join(states.QUEUES),
            help="queues in the order of their right of way (default: %(default)s)",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        names = [name for name in options["queues"].split(",") if name]
        if not names or not set(names) <= set(states.QUEUES):
            raise CommandError(f"--queues: expected some of {', '.join(states.QUEUES)}")
        while True:
            try:
                return work(names)
            except RedisError as error:
                self.stderr.write(f"hands: Redis is away, trying again: {error}")
                time.sleep(scaled(2.0))
