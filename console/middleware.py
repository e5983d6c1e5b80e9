"""What every request passes: its id, its person, the permission table, and one effect for each key."""

from __future__ import annotations

import logging
import time
import uuid
import zoneinfo
from collections.abc import Callable
from typing import Any

from django.conf import settings
from django.contrib.auth import logout
from django.contrib.auth.views import redirect_to_login
from django.db import connection, transaction
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _

from console.refusal_pages import refusal_page
from fleet.rules import policy
from fleet.rules.message import said, say
from fleet.rules.refusals import NoPage, NotAllowed, Refused, TooLarge, Unreadable
from fleet.selectors.scope import name_in, scope_object, scope_pool
from fleet.services.answers import answer_once, key_read
from fleet.services.limits import starts_demand
from fleet.services.permits import roles_say
from fleet.services.trail import actor_of, trail_add
from fleet.services.versions import version_check
from fleet.services.words import fields_demand

log = logging.getLogger(__name__)

SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
IDLE_NOTE_S = 60  # how exactly idleness is kept: one session write a minute at most
_BASE_LOCK_CLASS = 7402

Handler = Callable[[HttpRequest], HttpResponse]


class _PassOn:
    """What every middleware is besides its own work."""

    def __init__(self, get_response: Handler) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        return self.get_response(request)


class RequestIdMiddleware(_PassOn):
    """Give every request an id that pages, the trail and the log show. A sent one is not believed."""

    def __call__(self, request: HttpRequest) -> HttpResponse:
        request.request_id = uuid.uuid4().hex[:20]
        response = self.get_response(request)
        response["X-Request-ID"] = request.request_id
        return response


class PersonMiddleware(_PassOn):
    """End a session that is old or idle, and show times in the person's zone."""

    def __call__(self, request: HttpRequest) -> HttpResponse:
        if request.user.is_authenticated:
            self._keep_or_end(request)
        with timezone.override(_zone(request.COOKIES.get("zone"))):
            return self.get_response(request)

    def _keep_or_end(self, request: HttpRequest) -> None:
        now, session = time.time(), request.session
        started, seen = session.get("started_at", now), session.get("seen_at", now)
        if now - started > settings.SESSION_COOKIE_AGE or now - seen > settings.SESSION_IDLE_S:
            logout(request)
            return
        session.setdefault("started_at", now)
        if "seen_at" not in session or (_is_by_hand(request) and now - seen > IDLE_NOTE_S):
            session["seen_at"] = now


class BodySizeMiddleware(_PassOn):
    """Refuse a request that carries more bytes than its address reads, before anything parses them."""

    def process_view(
        self, request: HttpRequest, view: Any, args: Any, kwargs: dict[str, Any]
    ) -> HttpResponse | None:
        most = settings.FORM_MAX_BYTES
        if _only_reads(request):
            most = settings.DATA_UPLOAD_MAX_MEMORY_SIZE
        sent = request.META.get("CONTENT_LENGTH") or "0"
        if not sent.isdecimal() or int(sent) > most:
            return refusal_page(
                request,
                TooLarge(
                    _("Expected up to %(most)s MiB in one request, found more. Send less at once.")
                    % {"most": f"{most / 2**20:.3g}"}
                ),
            )
        return None


class PolicyMiddleware(_PassOn):
    """Deny every address, method and object that the permission table does not allow."""

    def process_view(
        self, request: HttpRequest, view: Any, args: Any, kwargs: dict[str, Any]
    ) -> HttpResponse | None:
        if _holds_nul(request):
            return refusal_page(
                request,
                Unreadable(
                    _("The request holds a NUL character, which no text of the console has.")
                ),
            )
        name, is_write = request.resolver_match.view_name, request.method not in SAFE
        entry = policy.entry_of(name)
        wanted = entry.write if is_write else entry.read
        if wanted & policy.ANYONE:
            return None
        if not wanted and (entry.read or entry.write):
            return _not_this_way(request, ["POST"] if entry.write else ["GET", "HEAD"])
        if not request.user.is_authenticated:
            return _to_login(request, is_write)
        if name not in policy.PERMISSIONS:
            log.error("%s has no entry in fleet/rules/policy.py and is denied", name)
        if policy.may(request.user, name, _pool(entry, kwargs), is_write=is_write):
            return None
        return _deny(request, name, entry, kwargs, is_write)

    def process_exception(self, request: HttpRequest, error: Exception) -> HttpResponse | None:
        # those of writes are answered by IdempotencyMiddleware, inside their transaction
        if isinstance(error, Refused) and (request.method in SAFE or _only_reads(request)):
            return refusal_page(request, error)
        return None


class IdempotencyMiddleware(_PassOn):
    """Give every write one effect and one answer for its key, and refuse one based on an older version."""

    def process_view(
        self, request: HttpRequest, view: Any, args: Any, kwargs: dict[str, Any]
    ) -> HttpResponse | None:
        entry = policy.entry_of(request.resolver_match.view_name)
        if request.method in SAFE or entry.is_keyless:
            return None
        try:
            fields_demand(_fields(request))
            if entry.is_reading:
                return None
            key = key_read(
                request.headers.get("Idempotency-Key") or request.POST.get("idempotency_key")
            )
            if not request.user.is_authenticated:
                return None  # nobody to keep an answer for, and nothing of the fleet to change
            if entry.is_start:
                starts_demand(request.user, key)
            return answer_once(
                user=request.user,
                key=key,
                path=request.path,
                make=lambda: self._make(request, entry, view, args, kwargs),
                refuse=lambda refusal: refusal_page(request, refusal),
            )
        except Refused as refusal:
            return refusal_page(request, refusal)

    def _make(
        self, request: HttpRequest, entry: policy.Entry, view: Any, args: Any, kwargs: Any
    ) -> HttpResponse:
        if entry.is_versioned:
            _check_base(request, entry, kwargs)
        return view(request, *args, **kwargs)


def _check_base(request: HttpRequest, entry: policy.Entry, kwargs: dict[str, Any]) -> None:
    name = name_in(entry.scope, kwargs)
    with connection.cursor() as cursor:
        # People's writes on one object go one after the other. Its row is not locked here: services lock
        # nodes before units, and a lock taken out of turn would wait in a circle with a tick.
        cursor.execute(
            "SELECT pg_advisory_xact_lock(%s, hashtext(%s))",
            [_BASE_LOCK_CLASS, f"{entry.scope}:{name}"],
        )
    subject = scope_object(entry.scope, name)
    if subject is not None and entry.part:
        subject = subject.part(kwargs[entry.part])
    if subject is not None:  # the view answers 404
        base = request.POST.get("base_version") or request.headers.get("If-Match", "").strip('"')
        version_check(subject, base or None)


def _pool(entry: policy.Entry, kwargs: dict[str, Any]) -> str | None:
    if entry.scope in {"", "body"}:
        return None
    subject = scope_object(entry.scope, name_in(entry.scope, kwargs))
    return None if subject is None else scope_pool(entry.scope, subject)


def _to_login(request: HttpRequest, is_write: bool) -> HttpResponse:
    if request.headers.get("HX-Request"):
        return HttpResponse(status=401, headers={"HX-Redirect": reverse(settings.LOGIN_URL)})
    if is_write:
        return refusal_page(request, NotAllowed(_("Sign in first; nothing was changed.")))
    return redirect_to_login(request.get_full_path())


def _not_this_way(request: HttpRequest, methods: list[str]) -> HttpResponse:
    if "POST" in methods:
        told = _("This address takes a form; it is no page. Open the page that has the form.")
    else:
        told = _("This address is only read; it takes no form. Reload the page and send again.")
    answer = refusal_page(request, NoPage(told))
    answer["Allow"] = ", ".join(methods)
    return answer


def _deny(
    request: HttpRequest, name: str, entry: policy.Entry, kwargs: dict[str, Any], is_write: bool
) -> HttpResponse:
    roles = roles_say(policy.needs_words(name, is_write=is_write))
    if is_write:
        with transaction.atomic():
            trail_add(
                actor=actor_of(request),
                verb=name,
                object_kind=entry.scope or "page",
                object_id=name_in(entry.scope, kwargs) or request.path,
                reason=say("needs one of the roles %(roles)s", roles=roles),
                outcome="refused",
            )
    return refusal_page(
        request, NotAllowed(_("This needs one of the roles %(roles)s.") % {"roles": said(roles, _)})
    )


def _holds_nul(request: HttpRequest) -> bool:
    """Find the one character that Postgres stores in no text, in the address or in a field."""
    fields = [*request.GET.lists(), *_fields(request)]
    return "\0" in request.path or any(
        "\0" in text for name, values in fields for text in (name, *values)
    )


def _only_reads(request: HttpRequest) -> bool:
    match = request.resolver_match
    return match is not None and policy.entry_of(match.view_name).is_reading


def _fields(request: HttpRequest) -> list[tuple[str, list[str]]]:
    """Return the posted fields whose length and characters are checked: not a text that is only read."""
    is_free = _only_reads(request)
    return [row for row in request.POST.lists() if not (is_free and row[0] == "text")]


def _is_by_hand(request: HttpRequest) -> bool:
    """Tell whether a person did this: parts that a page refetches by itself keep no session alive."""
    return request.method not in SAFE or not request.headers.get("HX-Request")


def _zone(chosen: str | None) -> zoneinfo.ZoneInfo:
    try:
        return zoneinfo.ZoneInfo(chosen or settings.SITE_ZONE)
    except (ValueError, OSError, zoneinfo.ZoneInfoNotFoundError):
        return zoneinfo.ZoneInfo(settings.SITE_ZONE)
