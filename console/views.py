"""What the shell of every page asks for by itself: how much waits, and whether anything is decided any more."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe


@require_safe
def counts(request: HttpRequest) -> HttpResponse:
    """Return the counts beside the entries of the navigation."""
    return render(request, "components/_counts.html")


@require_safe
def frozen(request: HttpRequest) -> HttpResponse:
    """Return the warning of the status bar that nothing is decided, or its empty place."""
    return render(request, "components/_frozen.html")
