"""Open incidents of a pool, told by the app that keeps them: this one may not import it. Until then there are none."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from fleet.models import Pool


@dataclass(frozen=True)
class OpenIncident:
    """An incident that is neither resolved nor closed. `title` is a stored sentence, `address` its page.

    Without a pool it concerns the whole fleet.
    """

    name: str
    title: str
    state: str
    pool: Pool | None
    opened_at: datetime
    address: str


Finder = Callable[[Pool | None], list[OpenIncident]]
_FINDERS: list[Finder] = []


def incidents_add(find: Finder) -> None:
    """Register who knows the open incidents of a pool; None asks for those of the whole fleet."""
    _FINDERS.append(find)


def open_incidents(pool: Pool | None = None) -> list[OpenIncident]:
    """Return the open incidents of a pool, or of the whole fleet, as their finders order them."""
    return [incident for find in _FINDERS for incident in find(pool)]
