"""Roles of people, given and taken by an admin. A change reaches open sockets at once."""

from __future__ import annotations

from typing import Any

from django.db import transaction
from django.utils.translation import gettext as _

from fleet.doorbell import ring_person
from fleet.models import Pool, RoleGrant
from fleet.rules.refusals import Conflict, NeedsReason, Refused
from fleet.services.permits import permit_demand
from fleet.services.trail import Actor, trail_add

_ROLES = frozenset(role for role, _word in RoleGrant.ROLES)


@transaction.atomic
def role_grant(
    *, person: Any, role: str, actor: Actor, pool: Pool | None = None, user: Any = None
) -> RoleGrant:
    """Give a person a role, for one pool or for the whole fleet. Raises NotAllowed, Conflict."""
    permit_demand(user, "role.change")
    if role not in _ROLES:
        raise Refused(
            _("A role is one of %(roles)s, found %(role)s.")
            % {"roles": ", ".join(sorted(_ROLES)), "role": role[:20]}
        )
    grant, is_new = RoleGrant.objects.get_or_create(user=person, role=role, pool=pool)
    if not is_new:
        raise Conflict(_("%(person)s has this role already.") % {"person": person})
    _tell(grant, "role.grant", actor, "")
    return grant


@transaction.atomic
def role_revoke(*, grant: RoleGrant, reason: str, actor: Actor, user: Any = None) -> None:
    """Take a role away. Raises NeedsReason, NotAllowed."""
    permit_demand(user, "role.change")
    if not reason.strip():
        raise NeedsReason(_("Taking a role away needs a reason. Write why, then send again."))
    _tell(grant, "role.revoke", actor, reason)
    grant.delete()


def _tell(grant: RoleGrant, verb: str, actor: Actor, reason: str) -> None:
    words = {"role": grant.role, "pool": grant.pool.slug if grant.pool else None}
    trail_add(
        actor=actor,
        verb=verb,
        object_kind="person",
        object_id=grant.user.get_username(),
        reason=reason,
        before=words if verb == "role.revoke" else None,
        after=words if verb == "role.grant" else None,
    )
    ring_person(grant.user_id)
