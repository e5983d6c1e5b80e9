"""Counts failed sign-ins: five of one name from one address, twenty of one address under any names, in 15 minutes.

Counted in Postgres, so that emptying Redis frees nobody. Not in charge of checking a password.
"""

from __future__ import annotations

from typing import Any

from axes.attempts import get_cool_off_threshold
from axes.conf import settings
from axes.handlers.database import AxesDatabaseHandler
from axes.models import AccessAttempt
from django.db.models import Sum
from django.http import HttpRequest

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


def _failures_from(request: HttpRequest) -> int:
    recent = AccessAttempt.objects.filter(
        ip_address=request.axes_ip_address, attempt_time__gte=get_cool_off_threshold(request)
    )
    return recent.aggregate(total=Sum("failures_since_start"))["total"] or 0
