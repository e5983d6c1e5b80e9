"""The proof that the person is still there: their password, asked for again when the last one is minutes old.

Wrong ones count against the lock-out like those of a sign-in, so the caller must answer, not raise: what is
raised would undo the count.
"""

from __future__ import annotations

import time

from django.contrib.auth import authenticate
from django.http import HttpRequest

FRESH_S = 300.0
_KEY = "proved_at"


def is_proved(request: HttpRequest) -> bool:
    """Whether the session's sign-in, or its newest proof, is at most five minutes old."""
    session = request.session
    newest = max(session.get(_KEY, 0.0), session.get("started_at", 0.0))
    return time.time() - newest <= FRESH_S


def prove(request: HttpRequest) -> bool:
    """Check the posted `password` of the person who is signed in; True when it, or an earlier one, will do."""
    if is_proved(request):
        return True
    password = request.POST.get("password", "")
    if not password:
        return False
    name = request.user.get_username()
    found = authenticate(request=request, username=name, password=password)
    if found is None or found.pk != request.user.pk:
        return False
    request.session[_KEY] = time.time()
    return True
