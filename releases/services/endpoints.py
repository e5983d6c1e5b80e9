"""What each unit shall get of the traffic: the desired half of a gateway. One row for each live launch.

A launch without an endpoint gets none, and a new endpoint has none. Not in charge of telling the proxy (gateways.py)
nor of proof that a unit is empty (drains.py).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from django.db import transaction
from django.db.models.functions import Now
from django.utils.translation import gettext as _

from fleet.doorbell import ring
from fleet.rules.message import say
from fleet.rules.refusals import Conflict
from fleet.services.trail import Actor, trail_add
from releases.models import Endpoint, Gateway, Launch
from releases.rules import gateway as rules
from releases.selectors.gate_proof import is_gated
from releases.signals import traffic_wanted


class EndpointMissing(Exception):
    """The launch is behind no gateway, so that nothing of its traffic can be said."""


class Ungated(Conflict):
    """The launch passed no gate, so that it gets no traffic."""


class SlotsTaken(Exception):
    """Two other releases are behind the gateway in this pool; `sentence` names them."""

    def __init__(self, sentence: str) -> None:
        super().__init__(sentence)
        self.sentence = sentence


@transaction.atomic
def endpoint_open(*, launch: Launch, actor: Actor) -> Endpoint | None:
    """Put a launch behind the gateway, without traffic; None without a gateway, its own when it is there already.

    Raises SlotsTaken when two other releases are there.
    """
    # Under its lock, so that two launches never take one slot for two releases.
    gateway = Gateway.objects.select_for_update().order_by("pk").first()
    if gateway is None:
        return None
    found = Endpoint.objects.filter(launch=launch).first()
    if found is not None:
        return found
    endpoint = Endpoint.objects.create(
        gateway=gateway, launch=launch, slot=_slot(gateway, launch), weight=0
    )
    trail_add(
        actor=actor,
        verb="endpoint.open",
        object_kind="launch",
        object_id=launch.public_id,
        after={"gateway": gateway.name, "slot": endpoint.slot, "weight": 0},
    )
    _tell(endpoint)
    return endpoint


def custom_weight(launch: Launch) -> int:
    """Return what the pool's custom gives a launch that no rollout brings, in percent of a full unit.

    A full unit when no other release has traffic or its own has; nothing beside a release that serves. What a canary
    gets is no custom: its release is still on trial.
    """
    pool = launch.replica.pool_id
    serving = Endpoint.objects.filter(
        launch__replica__pool=pool, launch__replica__is_canary=False, mode=rules.READY, weight__gt=0
    ).exclude(launch=launch)
    releases = set(serving.values_list("launch__release_id", flat=True))
    return rules.WEIGHT_MAX if not releases or launch.release_id in releases else 0


@transaction.atomic
def endpoint_set(
    *,
    launch: Launch,
    actor: Actor,
    weight: int | None = None,
    mode: str | None = None,
    reason: str = "",
    is_return: bool = False,
) -> Endpoint:
    """Want another weight (percent of a full unit) or mode for a launch; wanting what is wanted changes nothing.

    A weight above 0 without a mode puts a drained or closed unit back into traffic: it would be none there. More new
    sessions than it gets now take a passed gate (law 2), but for `is_return`: a rollout takes its unit back to what
    served there before. Raises EndpointMissing, Ungated, ValueError.
    """
    if weight is not None:
        # The launch before its endpoint, as whoever moves it locks them.
        list(Launch.objects.select_for_update(of=("self",)).filter(pk=launch.pk))
    endpoint = _locked(launch)
    if endpoint is None:
        raise EndpointMissing(f"{launch} is behind no gateway")
    if weight and mode is None:
        mode = rules.READY
    wanted: dict[str, Any] = {
        "weight": endpoint.weight if weight is None else _checked(weight),
        "mode": endpoint.mode if mode is None else Endpoint.Mode(mode).value,
    }
    before: dict[str, Any] = {"weight": endpoint.weight, "mode": endpoint.mode}
    if _share(**wanted) > _share(**before) and not is_return:
        _demand_gated(launch)
    if weight is not None:
        _note_given(launch, weight)
    if wanted == before:
        return endpoint
    # What was read back was read of what was wanted before.
    fresh = {"changed_at": Now(), "seen_weight": None, "seen_mode": "", "seen_running": None}
    Endpoint.objects.filter(pk=endpoint.pk).update(**wanted, **fresh, seen_at=None)
    trail_add(
        actor=actor,
        verb="endpoint.set",
        object_kind="launch",
        object_id=launch.public_id,
        reason=reason,
        before=before,
        after=wanted,
    )
    _tell(endpoint)
    endpoint.refresh_from_db()
    return endpoint


def endpoint_close(*, launch: Launch, actor: Actor) -> None:
    """Keep everything away from a launch that is about to end; nothing to do when it has no endpoint."""
    if Endpoint.objects.filter(launch=launch).exists():
        endpoint_set(launch=launch, actor=actor, mode=rules.MAINT)


def endpoint_agrees(endpoint: Endpoint) -> bool:
    """Tell whether what is wanted now was read back; not read since it was wanted is no agreement."""
    return (
        endpoint.seen_at is not None
        and endpoint.seen_weight == endpoint.weight
        and endpoint.seen_mode == endpoint.mode
    )


def endpoint_of(launch: Launch) -> Endpoint | None:
    """Return the endpoint of a launch as it is stored now, or None."""
    return Endpoint.objects.select_related("gateway").filter(launch=launch).first()


def _slot(gateway: Gateway, launch: Launch) -> str:
    rows = gateway.endpoints.filter(launch__replica__pool=launch.replica.pool_id)
    taken = dict(rows.values_list("launch__release_id", "slot"))
    if launch.release_id in taken:
        return taken[launch.release_id]
    free = [slot for slot in rules.SLOTS if slot not in taken.values()]
    if not free:
        raise SlotsTaken(
            say(
                "Two other releases are behind the gateway in %(pool)s: %(releases)s. "
                "It gets traffic when one of them is gone.",
                pool=launch.replica.pool.name,
                releases=", ".join(f"REL-{pk:04d}" for pk in sorted(taken)),
            )
        )
    return free[0]


def _checked(weight: int) -> int:
    if not 0 <= weight <= rules.WEIGHT_MAX:
        raise ValueError(f"weight {weight}: expected 0 to {rules.WEIGHT_MAX}")
    return weight


def _share(weight: int, mode: str) -> int:
    """Return what a unit gets of new sessions, in percent of a full unit."""
    return weight if mode == rules.READY else 0


def _demand_gated(launch: Launch) -> None:
    if not is_gated(launch):
        raise Ungated(
            _("%(launch)s has passed no gate, so that it gets no traffic: start a gate run first.")
            % {"launch": launch.public_id}
        )


def _note_given(launch: Launch, weight: int) -> None:
    """From now on its weight is what somebody wants; its entry (entries.py) gives it none by itself any more."""
    Launch.objects.filter(pk=launch.pk, first_weight=None).update(first_weight=weight)
    Endpoint.objects.filter(launch=launch).exclude(explanation="").update(explanation="")


def _locked(launch: Launch) -> Endpoint | None:
    return (
        Endpoint.objects.select_for_update(of=("self",))
        .select_related("gateway")
        .filter(launch=launch)
        .first()
    )


def _tell(endpoint: Endpoint) -> None:
    ring(endpoint.gateway.topic, f"replica-{endpoint.launch.replica.name}")
    wish: Callable[[], Any] = partial(
        traffic_wanted.send, sender=Gateway, gateway_id=endpoint.gateway_id
    )
    transaction.on_commit(wish, robust=True)
