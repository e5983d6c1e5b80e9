"""The jump field: a pasted id, unit or node name opens its page; anything else filters the fleet table."""

from __future__ import annotations

from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import redirect
from django.urls import reverse
from django.views.decorators.http import require_safe

from fleet.selectors.jump import page_of_name


@require_safe
def jump(request: HttpRequest) -> HttpResponse:
    """Go to the page of a name, or to the table of nodes filtered by it."""
    wanted = request.GET.get("q", "").strip()[:80]
    if not wanted:
        return redirect("fleet-map")
    if address := page_of_name(wanted):
        return HttpResponseRedirect(address)
    return HttpResponseRedirect(f"{reverse('fleet-table')}?{urlencode({'q': wanted})}")
