"""`manage.py trail_verify`: prove that no row of the trail was edited, deleted, swapped or cut off."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError

from fleet.services.trail_chain import trail_verify


class Command(BaseCommand):
    help = "Recompute the chain of the trail; exit 1 and name the first bad row when it is broken."

    def handle(self, *args: Any, **options: Any) -> None:
        found = trail_verify()
        if not found.is_whole:
            raise CommandError(f"the trail is broken at {found.problem}")
        self.stdout.write(
            f"whole: {found.position} rows sealed, {found.unsealed} newer rows wait for the sealer"
        )
