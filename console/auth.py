"""Who may sign in: people by name and password, but the lab's public accounts only on a loopback lab console."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.contrib.auth import get_user_model
from django.contrib.auth.backends import ModelBackend
from django.contrib.auth.models import Group
from django.db.models import Exists, OuterRef

from fleet.services.seed import LAB_GROUP

_LAB = Group.objects.filter(name=LAB_GROUP)


class PersonBackend(ModelBackend):
    """Names and passwords. A lab account that may not sign in looks like a wrong password."""

    def get_user(self, user_id: Any) -> Any:
        # Asked for every request of a session: with the person comes, in one query, what is asked below.
        rows = get_user_model().objects.annotate(is_lab=Exists(_LAB.filter(user=OuterRef("pk"))))
        user = rows.filter(pk=user_id).first()
        return user if user is not None and self.user_can_authenticate(user) else None

    def user_can_authenticate(self, user: Any) -> bool:
        # asked at sign-in and again for every request of a session
        return super().user_can_authenticate(user) and (_lab_may() or not _is_lab(user))


def _lab_may() -> bool:
    return settings.IS_REHEARSAL and settings.IS_LOOPBACK


def _is_lab(user: Any) -> bool:
    if hasattr(user, "is_lab"):
        return bool(user.is_lab)
    return bool(user.pk) and _LAB.filter(user=user).exists()
