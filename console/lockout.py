"""Counts failed sign-ins: five of one name from one address, twenty of one address under any names, in 15 minutes.

Counted in Postgres, so that emptying Redis frees nobody. A lock ends by itself; who lifts one before is told in
the trail. Not in charge of checking a password.
"""

from __future__ import annotations

import os
import pwd
from typing import Any

from axes.attempts import get_cool_off_threshold
from axes.conf import settings
from axes.handlers.database import AxesDatabaseHandler
from axes.models import AccessAttempt
from django.db import transaction
from django.db.models import Sum
from django.http import HttpRequest

from fleet.services.trail import Actor, trail_add

ADDRESS_FAILURES = 20


class SignInHandler(AxesDatabaseHandler):
    """Closes a name at an address after five failures, and the address after twenty."""

    def get_failures(self, request: HttpRequest, credentials: dict[str, Any] | None = None) -> int:
        """Return the failures of the name at the address; at least the limit when the address is closed.

        A success forgives only its own name at its own address, so that an account of one's own
        does not buy further guesses at others.
        """
        own = super().get_failures(request, credentials)
        if _failures_from(request) >= ADDRESS_FAILURES:
            return max(own, settings.AXES_FAILURE_LIMIT)
        return own

    def reset_attempts(
        self,
        *,
        ip_address: str | None = None,
        username: str | None = None,
        ip_or_username: bool = False,
    ) -> int:
        """Forget failures before their time, which lifts the locks they made; return how many counts went.

        All `manage.py axes_reset*` commands come through here; nothing of a request or of time does.
        """
        with transaction.atomic():
            count = super().reset_attempts(
                ip_address=ip_address, username=username, ip_or_username=ip_or_username
            )
            if count:
                trail_add(
                    actor=_shell_actor(),
                    verb="sign_in.unlock",
                    object_kind="person" if username else "address",
                    object_id=username or ip_address or "all",
                    after={"name": username, "address": ip_address, "counts": count},
                )
        return count


def _failures_from(request: HttpRequest) -> int:
    recent = AccessAttempt.objects.filter(
        ip_address=request.axes_ip_address, attempt_time__gte=get_cool_off_threshold(request)
    )
    return recent.aggregate(total=Sum("failures_since_start"))["total"] or 0


def _shell_actor() -> Actor:
    """The account that runs the command; under sudo, the one that called it."""
    uid = int(os.environ.get("SUDO_UID") or os.getuid())
    try:
        name = pwd.getpwuid(uid).pw_name
    except KeyError:  # a container may run under a number that has no name
        name = str(uid)
    return Actor(name=f"shell:{name}", source="command")
