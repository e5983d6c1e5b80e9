"""Who may sign in: people by name and password, but the lab's public accounts only on a loopback lab console."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.contrib.auth.backends import ModelBackend

from fleet.services.seed import LAB_GROUP


class PersonBackend(ModelBackend):
    """Names and passwords. A lab account that may not sign in looks like a wrong password."""

    def user_can_authenticate(self, user: Any) -> bool:
        # asked at sign-in and again for every request of a session
        return super().user_can_authenticate(user) and (_lab_may() or not _is_lab(user))


def _lab_may() -> bool:
    return settings.IS_REHEARSAL and settings.IS_LOOPBACK


def _is_lab(user: Any) -> bool:
    return bool(user.pk) and user.groups.filter(name=LAB_GROUP).exists()
