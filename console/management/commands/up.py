"""`manage.py up`: the whole console on this machine, in the foreground. `make up` calls the same program directly."""

import os
import sys

from django.core.management.base import BaseCommand


class Command(BaseCommand):
    help = "Run database, cache, lab, web, conductors, hands and the watch on this machine."
    requires_system_checks = ()

    def handle(self, *args: object, **options: object) -> None:
        # Becomes the supervisor instead of calling it: that one needs no Django and stays small.
        os.execv(sys.executable, [sys.executable, "-m", "console.embedded.run_all"])
