"""What people ask of container images: pull one on nodes by its digest, look again, stop.

Each is one change with its line in the trail; the tick (services/images_tick.py) carries it out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.db import transaction
from django.utils.translation import gettext as _

from fleet.doorbell import ring
from fleet.execution.clock import database_now
from fleet.models import Image, ImageHolding, Node
from fleet.rules import images as rules
from fleet.rules.message import say
from fleet.rules.refusals import Conflict, Refused
from fleet.services.node_moves import rows_update
from fleet.services.permits import permit_demand
from fleet.services.trail import Actor, trail_add
from fleet.services.weights import TOPIC

FIELDS = (
    "state",
    "explanation",
    "is_check_only",
    "attempt",
    "subject",
    "stop_for",
    "size_bytes",
    "state_at",
    "verified_at",
)
_ACTS = {
    "pull": (rules.FAILED,),
    "verify": (rules.READY, rules.FAILED),
    "stop": (rules.WANTED, rules.PULLING),
}
# A stopped pull takes nothing away from anybody: layers that came stay, and it needs no words.
_VERBS = {"pull": "image.again", "verify": "image.verify", "stop": "image.give_up"}


@transaction.atomic
def image_pull(
    *, ref: str, nodes: Sequence[Node], actor: Actor, user: Any = None, reason: str = ""
) -> Image:
    """Bring an image (NAME@sha256:HEX) to these nodes; where it is verified nothing is done. Raises Refused."""
    permit_demand(user, "image-pull")
    try:
        name, digest = rules.split_ref(ref)
    except ValueError:
        raise Refused(
            _("Image: expected NAME@sha256:64 hex digits (never a tag alone), found %(found)s.")
            % {"found": ref.strip()[:120] or "-"}
        ) from None
    if not nodes:
        raise Refused(_("No node was selected. Choose at least one."))
    image, _is_new = Image.objects.get_or_create(
        digest=digest, defaults={"name": name, "requested_by": user}
    )
    # The rows of an image are added by one after the other, else two would add the same one.
    image = Image.objects.select_for_update(of=("self",), no_key=True).get(pk=image.pk)
    count = _want(image, nodes)
    trail_add(
        actor=actor,
        verb="image.pull",
        object_kind="image",
        object_id=image.public_id,
        reason=reason,
        after={"image": rules.ref_of(image.name, digest), "nodes": len(nodes), "to_pull": count},
    )
    ring(TOPIC, image.topic)
    return image


@transaction.atomic
def image_act(*, holding: ImageHolding, act: str, actor: Actor, user: Any = None) -> None:
    """Pull again what failed, let docker be asked again, or stop a pull. Raises Refused, Conflict."""
    permit_demand(user, "image-act")
    if act not in _VERBS:
        raise Refused(_("Expected pull, verify or stop, found %(act)s.") % {"act": act[:20] or "-"})
    rows = ImageHolding.objects.select_for_update(of=("self",)).select_related(
        "node__host", "image"
    )
    row = rows.get(pk=holding.pk)
    if row.state not in _ACTS[act]:
        raise Conflict(
            _("%(node)s: the image is %(state)s there, which does not fit. Reload the page.")
            % {"node": row.node.name, "state": row.get_state_display()}
        )
    if act == "stop" and row.stop_for == rules.FAILED:
        raise Conflict(
            _("%(node)s: the pull is being stopped already. Wait for its end.")
            % {"node": row.node.name}
        )
    before = row.state
    if act == "stop":
        _stop(row, actor)
    else:
        want_again(row, is_check_only=act == "verify")
    rows_update(ImageHolding, [row], *FIELDS)
    trail_add(
        actor=actor,
        verb=_VERBS[act],
        object_kind="node",
        object_id=row.node.name,
        before={"state": before},
        after={"image": row.image.public_id, "state": row.state},
    )
    ring(TOPIC, row.image.topic)


def want_again(row: ImageHolding, *, is_check_only: bool) -> None:
    """Let a locked row begin anew; the caller saves it. What was verified before is not known any more."""
    row.state, row.state_at, row.stop_for = rules.WANTED, database_now(), ""
    row.is_check_only, row.subject, row.verified_at = is_check_only, None, None
    row.explanation = say("Waits to be checked.") if is_check_only else say("Waits for its turn.")


def _stop(row: ImageHolding, actor: Actor) -> None:
    row.explanation = say("Stopped by %(who)s.", who=actor.name)
    if row.state == rules.PULLING:
        row.stop_for = rules.FAILED
    else:
        row.state, row.state_at = rules.FAILED, database_now()


def _want(image: Image, nodes: Sequence[Node]) -> int:
    """Add or renew the rows of these nodes; return how many are to be pulled."""
    rows = ImageHolding.objects.select_for_update(of=("self",)).filter(image=image, node__in=nodes)
    held = {row.node_id: row for row in rows}
    again = [row for row in held.values() if row.state == rules.FAILED]
    for row in again:
        want_again(row, is_check_only=False)
    fresh = [
        ImageHolding(image=image, node=node, explanation=say("Waits for its turn."))
        for node in nodes
        if node.pk not in held
    ]
    if again:
        rows_update(ImageHolding, again, *FIELDS)
    ImageHolding.objects.bulk_create(fresh)
    return len(again) + len(fresh)
