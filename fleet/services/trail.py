"""The trail: one row for each change, written in the transaction of the change.

Not in charge of sealing (services/seal.py) nor of reading (selectors/trail_page.py).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from django.db import connection
from django.http import HttpRequest
from django.utils.translation import gettext as _

from fleet.models import TrailEntry
from fleet.rules.refusals import NeedsReason

# Verbs that take something away from somebody: without words the next person on call cannot judge them.
VERBS_WITH_REASON = frozenset({"cancel", "stop", "lift", "override", "drain", "reject", "clear"})
NAMES_WITH_REASON = frozenset({"hold.add", "host_key.request", "host_key.keep"})


@dataclass(frozen=True)
class Actor:
    """Who acts: a person by name, or a rule; from where; in which request."""

    name: str
    source: str = "web"
    address: str = ""
    request_id: str = ""


def actor_of(request: HttpRequest) -> Actor:
    """Return the person of a request as an actor of the trail."""
    return Actor(
        name=request.user.get_username() or "anonymous",
        source="api" if request.headers.get("Idempotency-Key") else "web",
        address=request.META.get("REMOTE_ADDR", ""),
        request_id=getattr(request, "request_id", ""),
    )


def rule_actor(rule: str) -> Actor:
    """Return the automation rule of that name as an actor of the trail."""
    return Actor(name=f"rule:{rule}", source="rule")


def command_actor(name: str) -> Actor:
    """Return a management command as an actor of the trail."""
    return Actor(name=f"command:{name}", source="command")


def trail_entry(
    *,
    actor: Actor,
    verb: str,
    object_kind: str,
    object_id: object,
    reason: str = "",
    before: Any = None,
    after: Any = None,
    outcome: str = "done",
) -> TrailEntry:
    """Build a row of the trail without storing it. Raises NeedsReason for verbs that must be explained."""
    reason = reason.strip()
    if outcome == "done" and not reason and needs_reason(verb):
        raise NeedsReason(_("A reason is needed. Write why, then send again."))
    return TrailEntry(
        actor=actor.name[:120],
        verb=verb,
        object_kind=object_kind,
        object_id=str(object_id)[:120],
        reason=reason,
        before=before,
        after=after,
        source=actor.source,
        address=actor.address,
        request_id=actor.request_id,
        outcome=outcome,
    )


def trail_add(**fields: Any) -> TrailEntry:
    """Store one row of the trail beside the change that it tells of; takes the fields of trail_entry()."""
    entry = trail_entry(**fields)
    _demand_transaction()
    entry.save(force_insert=True)
    return entry


def trail_add_all(entries: Iterable[TrailEntry]) -> None:
    """Store the rows of a change that touched many objects, with one statement."""
    _demand_transaction()
    TrailEntry.objects.bulk_create(list(entries))


def trail_add_each(
    *, actor: Actor, verb: str, object_kind: str, changes: Sequence[tuple[object, Any, Any]]
) -> None:
    """Store (object id, before, after) of one verb, a row each, for a thousand objects in a few milliseconds.

    Rows that differ in more, or that need a reason, go through trail_add_all().
    """
    _demand_transaction()
    like = trail_entry(actor=actor, verb=verb, object_kind=object_kind, object_id="")
    rows = [
        {"place": place, "id": str(object_id)[:120], "before": before, "after": after}
        for place, (object_id, before, after) in enumerate(changes)
    ]
    with connection.cursor() as cursor:
        cursor.execute(
            """
            INSERT INTO fleet_trailentry (at, actor, verb, object_kind, object_id, reason, before, after, source,
                address, request_id, outcome)
            SELECT statement_timestamp(), %s, %s, %s, x.id, %s, x.before, x.after, %s, %s, %s, %s
            FROM jsonb_to_recordset(%s) AS x(place int, id text, before jsonb, after jsonb) ORDER BY x.place
            """,
            [
                like.actor, like.verb, like.object_kind, like.reason, like.source, like.address, like.request_id,
                like.outcome, json.dumps(rows),
            ],
        )  # fmt: skip


def needs_reason(verb: str) -> bool:
    """Tell whether an action of this name must carry words of the person."""
    return verb in NAMES_WITH_REASON or verb.rpartition(".")[2] in VERBS_WITH_REASON


def _demand_transaction() -> None:
    if not connection.in_atomic_block:
        raise RuntimeError(
            "the trail is written in the transaction of its change, and none is open"
        )
