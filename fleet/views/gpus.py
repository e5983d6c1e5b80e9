"""The page of one card by its UUID: what it is, where it sits, and where it sat before."""

from __future__ import annotations

from django.http import Http404, HttpRequest, HttpResponse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_safe

from fleet.marks import mark_of
from fleet.selectors.history import card_now, gpu_record, seats_of
from fleet.views.parts import render_page

SECTION = "gpu-query"  # of a probe's output, where the UUIDs stand (rules/gather.py)


@require_safe
def gpu(request: HttpRequest, uuid: str) -> HttpResponse:
    """A card's record and its seats over time, whatever nodes it was in."""
    record = gpu_record(uuid)
    if record is None:
        raise Http404(_("No probe ever found a card %(uuid)s.") % {"uuid": uuid})
    seats = seats_of(record)
    now = card_now(seats[0] if seats else None)
    context = {
        "section": "fleet",
        "topics": ["fleet"],
        "record": record,
        "source": SECTION,
        "seats": seats,
        "seat": seats[0] if seats and seats[0].ended_at is None else None,
        "mark": mark_of("gpu", now.health if now else "unknown"),
        "now": now,
    }
    return render_page(
        request, "fleet/gpu.html", context, parts={"gpu-live": "fleet/_gpu_live.html"}
    )
