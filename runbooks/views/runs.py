"""The page of one run of a book."""

from __future__ import annotations

from django.http import Http404, HttpRequest, HttpResponse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_safe

from fleet.marks import mark_of
from fleet.views.parts import render_page
from runbooks.models import Run
from runbooks.selectors.names import run_named


@require_safe
def run(request: HttpRequest, name: str) -> HttpResponse:
    """One run."""
    row = run_or_404(name)
    context = {
        "section": "incidents",
        "topics": [row.topic],
        "run": row,
        "mark": mark_of("run", row.state),
    }
    return render_page(
        request, "runbooks/run.html", context, parts={"run-live": "runbooks/_run_live.html"}
    )


def run_or_404(name: str) -> Run:
    """Return the run of this public id."""
    found = run_named(name)
    if found is None:
        raise Http404(_("There is no run %(name)s.") % {"name": name})
    return found
