"""Reads releases: which of them a pool may launch, the likeliest first."""

from fleet.models import Pool
from releases.models import Release
from releases.rules.release import IN_SERVICE, LAUNCHABLE, REVIEWED, SEALED, SUPERSEDED

_ORDER = (IN_SERVICE, REVIEWED, SEALED, SUPERSEDED)


def releases_to_launch(pool: Pool) -> list[Release]:
    """Return a pool's launchable releases: the newest in service first, then the oldest that never served."""
    rows = Release.objects.filter(pool=pool, state__in=LAUNCHABLE)
    return sorted(rows, key=_place)


def release_to_launch(pool: Pool) -> Release | None:
    """Return the release that a pool launches when nobody chose one."""
    return next(iter(releases_to_launch(pool)), None)


def _place(release: Release) -> tuple[int, int]:
    is_newest_first = release.state in (IN_SERVICE, SUPERSEDED)
    return _ORDER.index(release.state), -release.pk if is_newest_first else release.pk
