"""The list of incidents and the page of one."""

from __future__ import annotations

from django.http import Http404, HttpRequest, HttpResponse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_safe

from fleet.marks import mark_of
from fleet.rules.message import said
from fleet.views.parts import render_page
from runbooks.models import Incident
from runbooks.selectors.names import incident_named


@require_safe
def incident_list(request: HttpRequest) -> HttpResponse:
    """Every incident, newest first."""
    rows = Incident.objects.select_related("pool", "replica", "owner")
    context = {
        "section": "incidents",
        "topics": ["incidents"],
        "incidents": [(row, mark_of("incident", row.state), said(row.title, _)) for row in rows],
    }
    return render_page(
        request,
        "runbooks/incident_list.html",
        context,
        parts={"incidents-live": "runbooks/_incident_rows.html"},
    )


@require_safe
def incident(request: HttpRequest, name: str) -> HttpResponse:
    """One incident."""
    row = incident_or_404(name)
    context = {
        "section": "incidents",
        "topics": [row.topic],
        "incident": row,
        "title": said(row.title, _),
        "mark": mark_of("incident", row.state),
    }
    return render_page(
        request,
        "runbooks/incident.html",
        context,
        parts={"incident-live": "runbooks/_incident_live.html"},
    )


def incident_or_404(name: str) -> Incident:
    """Return the incident of this public id."""
    found = incident_named(name)
    if found is None:
        raise Http404(_("There is no incident %(name)s.") % {"name": name})
    return found
