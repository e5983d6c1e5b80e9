"""What the shell of every page shows. Costs no query beyond the person's grants, which the permission check read.

`shell.conductor`, `shell.brake` and `shell.counts` ask the database when a template uses them, once a page.
"""

from __future__ import annotations

from datetime import datetime
from functools import cached_property
from typing import Any

from django.conf import settings
from django.db.models import QuerySet, Value
from django.http import HttpRequest
from django.utils import timezone
from django.utils.translation import gettext as _

from fleet.rules import policy
from fleet.selectors import ConductorTick, conductor_tick
from fleet.selectors.brake import brake_now
from releases.selectors.rollout_page import requests_open
from releases.views.inbox import signable
from runbooks.models import Incident
from runbooks.rules.incident import LIVE

STALLED_S = 30.0


class Shell:
    """The values of the shell, each computed when a template asks for it."""

    def __init__(self, request: HttpRequest) -> None:
        self._request = request
        self.site: str = settings.SITE_NAME
        self.is_rehearsal: bool = settings.IS_REHEARSAL
        self.request_id: str = getattr(request, "request_id", "")

    @cached_property
    def now(self) -> datetime:
        return timezone.localtime()

    @cached_property
    def role(self) -> str:
        """The strongest role of the person, in words; those of one pool only name the pool."""
        user = getattr(self._request, "user", None)
        grants = set(policy.grants_of(user)) if user is not None else set()
        for role, word in (
            ("admin", _("admin")),
            ("approver", _("approver")),
            ("operator", _("operator")),
            ("viewer", _("viewer")),
        ):
            if (role, None) in grants:
                return word
            if pools := sorted(where for held, where in grants if held == role and where):
                return f"{word} ({', '.join(pools)})"
        return ""

    @cached_property
    def conductor(self) -> ConductorTick | None:
        return conductor_tick()

    @property
    def is_stalled(self) -> bool:
        return self.conductor is None or self.conductor.age_s > STALLED_S

    @cached_property
    def counts(self) -> dict[str, int]:
        """How many requests wait for this person's signature, and how many incidents are open."""
        user = getattr(self._request, "user", None)
        if not policy.may(user, "counts"):
            return {"approvals": 0, "incidents": 0}
        kinds = [kind for kind, _pk in _waiting()]
        # Who may sign what is asked of the requests only when there are any.
        approvals = signable(user, requests_open()) if "approvals" in kinds else []
        return {"approvals": len(approvals), "incidents": kinds.count("incidents")}

    @cached_property
    def brake(self) -> Any:
        return brake_now()


def _waiting() -> QuerySet[Any, tuple[str, int]]:
    """Return the open requests and incidents as (what, key), by one query: every page asks for them."""
    requests = requests_open().order_by().values_list(Value("approvals"), "pk")
    incidents = Incident.objects.filter(state__in=LIVE).order_by()
    return requests.union(incidents.values_list(Value("incidents"), "pk"), all=True)


def shell(request: HttpRequest) -> dict[str, Shell]:
    """Template context: `shell` with site, now, is_rehearsal, role, request_id, is_stalled and brake."""
    return {"shell": Shell(request)}
