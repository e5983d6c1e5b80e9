"""One effect and one answer for each idempotency key of a person.

The answer is stored in the transaction of the effect: a killed web process leaves neither, a second request
with the same key waits for the first and gets its answer.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from django.db import OperationalError, connection, transaction
from django.db.models.functions import Now
from django.http import HttpResponse
from django.utils.translation import gettext as _

from fleet.models import Answered
from fleet.rules.refusals import Conflict, Refused

WAIT_S = 8
KEPT = timedelta(hours=24)
_NOT_KEPT = frozenset({"set-cookie", "content-length", "date"})


class NoKey(Refused):
    """The request carries no idempotency key, or not a UUID."""

    status = 400


class Busy(Conflict):
    """The first request with this key, or another change of the same rows, is still running."""


def key_read(posted: str | None) -> uuid.UUID:
    """Return the posted key. Raises NoKey."""
    try:
        return uuid.UUID(posted or "")
    except ValueError:
        raise NoKey(
            _("The request carries no idempotency key (a UUID). Reload the page and send again.")
        ) from None


def answer_once(
    *,
    user: Any,
    key: uuid.UUID,
    path: str,
    make: Callable[[], HttpResponse],
    refuse: Callable[[Refused], HttpResponse],
) -> HttpResponse:
    """Run `make` for a key that was never answered, else return the stored answer.

    A Refused undoes what `make` did and is answered (and stored) by `refuse`; a server error stores nothing.
    """
    try:
        with transaction.atomic():
            _limit_waiting()
            if not _claim(user, key, path):
                return _stored(user, key, path)
            response = _make(make, refuse)
            if response.status_code >= 500:
                transaction.set_rollback(True)
            else:
                _store(user, key, response)
            return response
    except OperationalError as error:
        # Postgres ends one of two that wait for each other; nothing of it was done, as after a wait that was too long
        if not any(words in str(error) for words in ("lock timeout", "deadlock detected")):
            raise
        raise Busy(
            _("The same rows are being changed by another request. Send again in a moment.")
        ) from error


def answers_forget() -> int:
    """Delete answers that nobody can ask for any more; return how many."""
    return Answered.objects.filter(at__lt=Now() - KEPT).delete()[0]


def _limit_waiting() -> None:
    with connection.cursor() as cursor:
        cursor.execute(f"SET LOCAL lock_timeout = '{WAIT_S}s'")


def _claim(user: Any, key: uuid.UUID, path: str) -> bool:
    with connection.cursor() as cursor:
        # waits for a running first request; DO NOTHING when that one committed
        cursor.execute(
            "INSERT INTO fleet_answered (user_id, key, path, headers, body, at) "
            "VALUES (%s, %s, %s, '{}', '', clock_timestamp()) ON CONFLICT DO NOTHING",
            [user.pk, key, path[:300]],
        )
        return cursor.rowcount == 1


def _make(
    make: Callable[[], HttpResponse], refuse: Callable[[Refused], HttpResponse]
) -> HttpResponse:
    try:
        with transaction.atomic():
            response = make()
            if hasattr(response, "is_rendered") and not response.is_rendered:
                response = response.render()
            return response
    except Refused as refusal:
        return refuse(refusal)


def _store(user: Any, key: uuid.UUID, response: HttpResponse) -> None:
    headers = {name: value for name, value in response.items() if name.lower() not in _NOT_KEPT}
    if response.cookies:
        headers["Set-Cookie"] = response.cookies.output(header="", sep="\n")
    Answered.objects.filter(user=user, key=key).update(
        status=response.status_code, headers=headers, body=response.content
    )


def _stored(user: Any, key: uuid.UUID, path: str) -> HttpResponse:
    row = Answered.objects.get(user=user, key=key)
    if row.path != path[:300]:
        raise Conflict(
            _("This idempotency key was used for another address. Reload the page and send again.")
        )
    headers = dict(row.headers)
    cookies = headers.pop("Set-Cookie", "")
    response = HttpResponse(bytes(row.body), status=row.status, headers=headers)
    for line in cookies.splitlines():
        response.cookies.load(line.strip())
    response["Idempotency-Replayed"] = "true"
    return response
