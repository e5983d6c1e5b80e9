"""What a person sets for this browser: language and theme. Plain forms; nothing of the fleet changes."""

from __future__ import annotations

from django.conf import settings
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.utils import translation
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.http import require_POST

THEMES = frozenset({"dark", "light"})
YEAR_S = 365 * 24 * 3600


@require_POST
def language(request: HttpRequest) -> HttpResponse:
    """Keep the language in a cookie; an unknown one changes nothing."""
    answer = _back(request)
    wanted = request.POST.get("language", "")
    if translation.check_for_language(wanted) and wanted in dict(settings.LANGUAGES):
        _keep(answer, settings.LANGUAGE_COOKIE_NAME, wanted)
    return answer


@require_POST
def theme(request: HttpRequest) -> HttpResponse:
    """Keep the theme in a cookie; an empty or unknown one follows the system again."""
    answer = _back(request)
    wanted = request.POST.get("theme", "")
    if wanted in THEMES:
        _keep(answer, "theme", wanted)
    else:
        answer.delete_cookie("theme", samesite="Lax")
    return answer


def _keep(answer: HttpResponse, name: str, value: str) -> None:
    answer.set_cookie(
        name, value, max_age=YEAR_S, secure=settings.BEHIND_TLS, httponly=True, samesite="Lax"
    )


def _back(request: HttpRequest) -> HttpResponseRedirect:
    wanted = request.POST.get("next", "")
    is_ours = url_has_allowed_host_and_scheme(wanted, allowed_hosts={request.get_host()})
    return HttpResponseRedirect(wanted if is_ours else "/")
