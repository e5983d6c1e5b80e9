"""`manage.py up`: the whole console on this machine, in the foreground. `make up` runs the same program directly."""

import os
import sys

from django.conf import settings
from django.core.management.base import BaseCommand


class Command(BaseCommand):
    help = "Run database, cache, lab, web, conductors, hands and the watch on this machine."
    requires_system_checks = ()

    def handle(self, *args: object, **options: object) -> None:
        # Becomes the supervisor instead of calling it: that one must have no thread and no connection.
        os.environ["STATE_DIR"] = str(settings.STATE_DIR)
        os.chdir(settings.BASE_DIR)
        os.execv(sys.executable, [sys.executable, "-m", "console.embedded.run_all"])
