"""Reads a pasted or chosen tool output as `manage.py read` does, and shows what it says. Keeps nothing."""

from __future__ import annotations

import io
from typing import Any

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods

from fleet.readings.kinds import read_as, readable_kinds
from fleet.rules.next_looks import TAKEN_BY
from fleet.rules.refusals import Refused, TooLarge
from fleet.views.parts import render_page
from fleet.views.reader_drawn import drawn

REFILLED_CHARS = 256 * 1024  # of a pasted text, to be read again as another kind


@require_http_methods(["GET", "HEAD", "POST"])
def reader(request: HttpRequest) -> HttpResponse:
    """Show the form; after a POST also the reading of the field `file`, or else of the field `text`."""
    context: dict[str, Any] = {
        "section": "reader",
        "kinds": readable_kinds(),
        "kind": "auto",
        "taken_by": TAKEN_BY.items(),
        "most_mib": settings.READING_MAX_BYTES >> 20,
    }
    if request.method == "POST":
        context |= _reading(request)
    status = 422 if context.get("problem") else 200
    return render_page(request, "fleet/reader.html", context, status=status)


def _reading(request: HttpRequest) -> dict[str, Any]:
    kind = request.POST.get("kind", "auto")
    if kind not in readable_kinds():
        raise Refused(
            _("Expected one of the kinds %(kinds)s, found %(kind)s. Choose one, or auto.")
            % {"kinds": ", ".join(readable_kinds()), "kind": kind[:40]}
        )
    chosen = request.FILES.get("file")
    text = request.POST.get("text", "")
    # a browser sends the line feeds of a text area as CR LF
    raw = chosen.read(settings.READING_MAX_BYTES + 1) if chosen else _bytes_of(text)
    size_demand(len(raw))
    if not raw:
        return {"kind": kind, "problem": _("Paste an output or choose a file, then read it.")}
    report = read_as(kind, io.BytesIO(raw))
    return {
        "kind": kind,
        "name": chosen.name[:120] if chosen else "",
        "pasted": "" if chosen or len(text) > REFILLED_CHARS else text.replace("\0", ""),
        **drawn(report, raw),
    }


def _bytes_of(text: str) -> bytes:
    return text.replace("\r\n", "\n").encode("utf-8", "surrogatepass")


def size_demand(found: int) -> None:
    """Raise TooLarge for an output of more bytes than the page reads."""
    most = settings.READING_MAX_BYTES
    if found > most:
        raise TooLarge(
            _(
                "An output may have up to %(most)d MiB here, found more. Cut it to the part that matters, "
                "or read the whole file with manage.py read."
            )
            % {"most": most >> 20}
        )
