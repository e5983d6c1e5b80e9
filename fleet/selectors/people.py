"""Who a session belongs to now, and what that person may hear. Sockets ask again and again, so nothing is cached."""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from types import SimpleNamespace
from typing import Any

from django.conf import settings
from django.contrib.auth import get_user

from fleet.rules import policy
from fleet.selectors.scope import scope_object, scope_pool


def person_of_session(session_key: str | None) -> Any:
    """Return the active person of a live session as the database knows them now, or None."""
    store = import_module(settings.SESSION_ENGINE).SessionStore
    if not session_key or not store().exists(session_key):
        return None
    user = get_user(SimpleNamespace(session=store(session_key)))
    return user if user.is_authenticated and user.is_active else None


def may_hear(user: Any, topics: Iterable[str]) -> bool:
    """Tell whether a person may listen to every one of these topics."""
    return policy.may(user, "ws-page") and all(_may_hear(user, topic) for topic in topics)


def _may_hear(user: Any, topic: str) -> bool:
    rule = None if "\0" in topic else policy.topic_rule(topic)  # Postgres takes no NUL
    if rule is None:
        return False
    permission, scope, name = rule
    if not scope:
        return policy.may(user, permission)
    subject = scope_object(scope, name)
    return subject is not None and policy.may(user, permission, scope_pool(scope, subject))
