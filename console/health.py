"""`GET /healthz`: one word for a load balancer, a script or a person. Never cached, never signed in."""

import redis
from django.conf import settings
from django.db import DatabaseError, connection
from django.http import HttpRequest, HttpResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from fleet import selectors

_TICK_STALE_S = 30.0
_REDIS_TIMEOUT_S = 2.0


@require_safe
@never_cache
def healthz(request: HttpRequest) -> HttpResponse:
    """Answer 200 `ok`, or 503 with the first part that fails: postgres, redis or conductor."""
    word = what_fails()
    answer = HttpResponse(word or "ok", content_type="text/plain", status=503 if word else 200)
    # The answer is the report; Django would log each 503 as an error of the server.
    answer._has_been_logged = True
    return answer


def what_fails() -> str:
    """Name the part without which the console does not work; empty when all answer."""
    if not _postgres_answers():
        return "postgres"
    if not _redis_answers():
        return "redis"
    age_s = selectors.conductor_tick_age_s()
    return "conductor" if age_s is None or age_s > _TICK_STALE_S else ""


def _postgres_answers() -> bool:
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
    except DatabaseError:
        connection.close()  # so that the next request does not meet the broken one
        return False
    return True


def _redis_answers() -> bool:
    limits = {"socket_connect_timeout": _REDIS_TIMEOUT_S, "socket_timeout": _REDIS_TIMEOUT_S}
    try:
        with redis.Redis.from_url(settings.REDIS_URL, **limits) as client:
            return bool(client.ping())
    except redis.RedisError:
        return False
