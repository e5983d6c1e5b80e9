"""Why a service says no, by whose problem it is. A page shows the sentence; nothing was changed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fleet.execution.message import SentenceError, say_all


class Refused(Exception):
    """A request that is not carried out. The message says what was expected, found, and what to do next."""

    status = 422


class Unreadable(Refused):
    """A request with bytes that stand for no text."""

    status = 400


class NeedsReason(Refused):
    """The action needs words of the person who takes it."""


class NotAllowed(Refused):
    """The person lacks the role for this object."""

    status = 403


class NoPage(Refused):
    """A form's address that was opened as a page, or a page that was posted to."""

    status = 405


class Conflict(Refused):
    """The object is not in a state in which this can be done, or somebody else was faster."""

    status = 409


class Stale(Conflict):
    """The page was older than the object. Carries both versions so that nothing typed is lost."""

    def __init__(self, message: str, *, subject: Any, posted: int, found: int) -> None:
        super().__init__(message)
        self.subject, self.posted, self.found = subject, posted, found


class TooLarge(Refused):
    """A request with more bytes than its address reads."""

    status = 413


class TooMany(Refused):
    """More starts than a person may ask for in a minute."""

    status = 429


class RefusedFor(SentenceError):
    """A refusal with several reasons, each a stored sentence for the person who asked."""

    def __init__(self, reasons: Sequence[str]) -> None:
        super().__init__(say_all(reasons))
        self.reasons = list(reasons)
