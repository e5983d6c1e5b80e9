"""Two people on one object: a write says which version it was based on, and an older one changes nothing."""

from __future__ import annotations

from typing import Any

from django.utils.translation import gettext as _

from fleet.rules.refusals import Refused, Stale


class NoBase(Refused):
    """The form does not say which version of the object it was based on."""

    status = 400


def version_check(subject: Any, posted: str | None) -> None:
    """Compare a posted base version with the object, whose row the caller holds locked.

    Raises NoBase without a whole number, Stale when the object moved on.
    """
    if posted is None or not posted.isascii() or not posted.isdigit() or len(posted) > 9:
        raise NoBase(
            _(
                "The form does not carry the version it was based on. Reload the page and send again."
            )
        )
    if int(posted) != subject.version:
        raise Stale(
            _("%(name)s was changed after your page was drawn.") % {"name": subject},
            subject=subject,
            posted=int(posted),
            found=subject.version,
        )
