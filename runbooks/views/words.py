"""Words of books in the reader's language, and how long something is out of service against its target."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from django.utils import timezone
from django.utils.translation import get_language

from fleet.marks import CRIT, RUN, WARN
from runbooks.rules.book import Text

_CLOSE = 0.8  # of the target: from here on it is attention


def in_words(text: Text) -> str:
    """Return a text of a book or of the catalogue in the reader's language."""
    return text["zh" if (get_language() or "").startswith("zh") else "en"]


@dataclass(frozen=True)
class Clock:
    """Time since something began, against a target. Seconds; without an end it is running."""

    since: datetime
    until: datetime | None
    target_s: float

    @property
    def is_running(self) -> bool:
        return self.until is None

    @property
    def spent_s(self) -> float:
        return ((self.until or timezone.now()) - self.since).total_seconds()

    @property
    def left_s(self) -> float:
        """Seconds to the target; negative when it was missed."""
        return self.target_s - self.spent_s

    @property
    def late_s(self) -> float:
        return -self.left_s

    @property
    def percent(self) -> int:
        return min(100, max(0, round(100 * self.spent_s / self.target_s))) if self.target_s else 0

    @property
    def tone(self) -> str:
        if self.left_s < 0:
            return CRIT
        return WARN if self.is_running and self.spent_s > _CLOSE * self.target_s else RUN
