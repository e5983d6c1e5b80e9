"""The check of a person inside a service, where the objects of a form are known one by one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.utils.translation import gettext as _

from fleet.rules import policy
from fleet.rules.message import said, say
from fleet.rules.refusals import NotAllowed


def permit_demand(user: Any, permission: str, pool: str | None = None) -> None:
    """Raise NotAllowed unless the person may write behind a name; None stands for a rule and may.

    What belongs to no pool takes a role for the whole fleet: "" is the name of none.
    """
    if user is None or policy.may(user, permission, pool or "", is_write=True):
        return
    roles = said(roles_say(policy.needs_words(permission, is_write=True)), _)
    if pool is None:
        raise NotAllowed(
            _("This needs one of the roles %(roles)s for the whole fleet. Ask an admin.")
            % {"roles": roles}
        )
    raise NotAllowed(
        _("This needs one of the roles %(roles)s for pool %(pool)s. Ask an admin.")
        % {"roles": roles, "pool": pool}
    )


def roles_say(roles: Sequence[str]) -> str:
    """Return roles as one stored sentence, each read in the language of whoever looks; a dash when there is none."""
    if len(roles) < 2:
        return roles[0] if roles else "-"
    return say("%(first)s, %(rest)s", first=roles[0], rest=roles_say(roles[1:]))
