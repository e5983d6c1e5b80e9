"""What a person sees when an address is unknown, a form was forged, a name is locked out, or we failed."""

from __future__ import annotations

from typing import Any

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.template.loader import render_to_string
from django.utils.translation import gettext as _

# Words that Django says of itself, in English whatever the language: of its resolver, and of get_object_or_404.
_OF_THE_FRAMEWORK = ("tried", "matches the given query")


def not_found(request: HttpRequest, exception: Exception) -> HttpResponse:
    """Answer 404 in the shell, with the sentence of whoever looked in vain."""
    told = str(exception.args[0]) if isinstance(exception, Http404) and exception.args else ""
    if not told or any(words in told for words in _OF_THE_FRAMEWORK):
        told = _("No page has this address. It may have been renamed.")
    context = {"message": told, "request_id": getattr(request, "request_id", "")}
    return render(request, "404.html", context, status=404)


def failed(request: HttpRequest) -> HttpResponse:
    """Answer 500 without the shell, whose own queries may be what failed; never says what."""
    return _bare(
        request,
        500,
        _("Something failed"),
        _(
            "The console could not answer. Nothing tells whether your change was made: look before you send it again."
        ),
    )


def forged(request: HttpRequest, reason: str = "") -> HttpResponse:
    """Answer a form without its token: it came from elsewhere, or the page was older than the session."""
    return _bare(
        request,
        403,
        _("The form could not be checked"),
        _("Nothing was changed. Go back, reload the page and send the form again."),
    )


def locked_out(request: HttpRequest, response: Any = None, credentials: Any = None) -> HttpResponse:
    """Answer a sign-in after too many failures; the same words for every name."""
    answer = _bare(
        request,
        429,
        _("Too many failures"),
        _(
            "Five failures of this name, or twenty from your address, within 15 minutes. Wait 15 minutes, then sign in."
        ),
    )
    answer["Retry-After"] = "900"
    return answer


def _bare(request: HttpRequest, status: int, title: str, message: str) -> HttpResponse:
    context = {"title": title, "message": message, "request_id": getattr(request, "request_id", "")}
    return HttpResponse(render_to_string("500.html", context), status=status)
