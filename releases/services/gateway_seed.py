"""Gives the rehearsal lab its gateway: the host beside the nodes, and where its proxy is to listen. Safe to repeat."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.db import transaction
from django.db.models import F

from fleet.doorbell import ring
from fleet.services.seed import host_seed
from fleet.services.trail import Actor, trail_add
from releases.models import Gateway

NAME, DIRECTORY = "edge", "gateway"


@transaction.atomic
def gateway_seed(row: Mapping[str, Any], *, actor: Actor) -> Gateway | None:
    """Bring host and gateway in line with the lab's row; None when the lab found no proxy. Raises Conflict.

    A gateway that was there before stays: traffic has a history.
    """
    host = host_seed(row, actor=actor)
    if not row["proxy"]:
        return None
    wanted = {"host_id": host.pk, "port": row["port"], "admin_port": row["admin_port"]}
    gateway, is_new = Gateway.objects.select_for_update().get_or_create(
        name=NAME, defaults={**wanted, "directory": DIRECTORY}
    )
    before = {name: getattr(gateway, name) for name in wanted}
    if before != wanted:
        Gateway.objects.filter(pk=gateway.pk).update(**wanted, version=F("version") + 1)
        gateway.refresh_from_db()
    if is_new or before != wanted:
        trail_add(
            actor=actor,
            verb="gateway.add" if is_new else "gateway.change",
            object_kind="gateway",
            object_id=gateway.name,
            before=None if is_new else before,
            after=wanted,
        )
        ring(gateway.topic)
    return gateway
