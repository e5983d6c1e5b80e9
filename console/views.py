"""What the shell of every page asks for by itself: how much waits, told anew when it changes."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe


@require_safe
def counts(request: HttpRequest) -> HttpResponse:
    """Return the counts beside the entries of the navigation."""
    return render(request, "components/_counts.html")
