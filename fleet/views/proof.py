"""The proof that the person is still there: their password, asked for again when the last one is too old.

Wrong ones count against the lock-out like those of a sign-in, so the caller must answer, not raise: what is
raised would undo the count.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from django.contrib.auth import authenticate
from django.http import HttpRequest
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

_KEY = "proved_at"


@dataclass(frozen=True)
class Freshness:
    """How old the newest proof may be, in seconds, with the words that ask for another one."""

    within_s: float
    label: Any
    refusal: Any


# Source of both ages: NUMBERS.md (step-up sign-in), SECURITY.md S4.
FOR_DESTRUCTION = Freshness(
    300.0,
    gettext_lazy("Your password, because your last sign-in is older than five minutes"),
    gettext_lazy("Your last sign-in is older than five minutes: give your password again."),
)
FOR_SIGNATURE = Freshness(
    3600.0,
    gettext_lazy("Your password, because your last sign-in is older than an hour"),
    gettext_lazy("Your last sign-in is older than an hour: give your password again."),
)


def password_label(request: HttpRequest, wanted: Freshness) -> str:
    """Name the field in which the password must be given again, or nothing while the newest proof will do."""
    return "" if _is_proved(request, wanted) else str(wanted.label)


def proof_refusal(request: HttpRequest, wanted: Freshness) -> str:
    """Say why the posted `password` is no proof, or nothing when it, or an earlier one, will do."""
    if _is_proved(request, wanted) or _prove(request):
        return ""
    if request.POST.get("password"):
        return _("The password is wrong. After five failures the name waits 15 minutes.")
    return str(wanted.refusal)


def _is_proved(request: HttpRequest, wanted: Freshness) -> bool:
    session = request.session
    newest = max(session.get(_KEY, 0.0), session.get("started_at", 0.0))
    return time.time() - newest <= wanted.within_s


def _prove(request: HttpRequest) -> bool:
    password = request.POST.get("password", "")
    if not password:
        return False
    name = request.user.get_username()
    found = authenticate(request=request, username=name, password=password)
    if found is None or found.pk != request.user.pk:
        return False
    request.session[_KEY] = time.time()
    return True
