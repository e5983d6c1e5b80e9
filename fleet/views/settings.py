"""What a person sets for this browser: language and theme; and what an admin sets for the fleet: its probe interval."""

from __future__ import annotations

from django.conf import settings
from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import redirect
from django.utils import translation
from django.utils.http import url_has_allowed_host_and_scheme
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_POST

from fleet.marks import mark_of
from fleet.rules.message import said
from fleet.rules.policy import may
from fleet.rules.refusals import Refused
from fleet.rules.schedule import EVERY_S, LONGEST_S
from fleet.selectors.schedule import nodes_left_out
from fleet.services.schedule import schedule_change, schedule_now
from fleet.services.trail import actor_of
from fleet.views.parts import render_page

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


@require_http_methods(["GET", "HEAD", "POST"])
def fleet_settings(request: HttpRequest) -> HttpResponse:
    """How often the fleet is probed by itself, and which nodes that leaves out."""
    if request.method == "POST":
        row = schedule_change(
            every_s=_minutes(request.POST.get("minutes", "")),
            version=request.POST.get("base_version"),
            actor=actor_of(request),
            user=request.user,
        )
        messages.info(request, _("The probe interval is %(n)g min now.") % {"n": row.every_s / 60})
        return redirect("fleet-settings")
    row = schedule_now()
    asked, left_out = nodes_left_out()
    context = {
        "section": "fleet",
        "topics": ["fleet"],
        "schedule": row,
        "minutes": f"{row.every_s / 60:g}",
        "default_minutes": f"{EVERY_S / 60:g}",
        "most_minutes": LONGEST_S // 60,
        "asked": asked,
        "left_out": [
            {"why": said(why, _), "names": names, "mark": mark_of("row", "kept")}
            for why, names in left_out
        ],
        "kept_days": settings.PROBES_KEPT_DAYS,
        "may_set": may(request.user, "fleet-settings", is_write=True),
    }
    return render_page(
        request,
        "fleet/settings.html",
        context,
        parts={"settings-live": "fleet/_settings_live.html"},
    )


def _minutes(text: str) -> int:
    """Return a posted number of minutes in seconds. Raises Refused for what is no number."""
    try:
        return round(min(max(float(text), -1.0), 1e6) * 60)
    except (ValueError, OverflowError):
        raise Refused(
            _("Interval: expected a number of minutes, found %(found)s. Nothing was changed.")
            % {"found": text[:20] or "–"}
        ) from None


def _keep(answer: HttpResponse, name: str, value: str) -> None:
    answer.set_cookie(
        name, value, max_age=YEAR_S, secure=settings.BEHIND_TLS, httponly=True, samesite="Lax"
    )


def _back(request: HttpRequest) -> HttpResponseRedirect:
    wanted = request.POST.get("next", "")
    is_ours = url_has_allowed_host_and_scheme(wanted, allowed_hosts={request.get_host()})
    return HttpResponseRedirect(wanted if is_ours else "/")
