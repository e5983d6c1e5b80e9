"""How a launch ended on each node: every rank is proved gone, or it is said that it is not."""

from __future__ import annotations

from dataclasses import dataclass

from django.utils.translation import gettext as _

from fleet.execution import states
from fleet.marks import IDLE, OK, RUN, WARN, Mark
from fleet.rules.message import said
from releases.models import LaunchPosition
from releases.selectors.launch_page import LaunchSeen


@dataclass(frozen=True)
class End:
    node: str
    mark: Mark
    words: str
    detail: str = ""


def launch_ends(seen: LaunchSeen) -> list[End]:
    """Return one row a node: proved gone, being ended, or not confirmed and why."""
    return [_end(place.place) for place in seen.places]


def _end(place: LaunchPosition) -> End:
    node, stop = place.node.name, place.stop
    if place.subject is None:
        return End(node, Mark(IDLE, "skip", _("Never started")), _("never started"))
    if stop is None:
        return End(node, Mark(IDLE, "idle", _("Not yet")), _("not asked to end yet"))
    if stop.state == states.SUCCEEDED:
        return End(node, Mark(OK, "ok", _("Done")), _("ended and proved gone"))
    if not stop.is_settled:
        return End(node, Mark(RUN, "run", _("Running")), _("being ended"))
    detail = said(stop.explanation, _)
    return End(node, Mark(WARN, "unk", _("Unconfirmed")), _("not confirmed, asked again"), detail)
