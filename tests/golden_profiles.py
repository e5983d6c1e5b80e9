"""Facts of a node and a profile that judges them, made directly: for tests that are not about taking one."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.utils import timezone

from fleet.models import Fact, GoldenKey, GoldenProfile, Node

NVLINK = {"devices": ["GPU0", "GPU1"], "cells": [["X", "NV18"], ["NV18", "X"]]}


def make_facts(node: Node, *, is_expired: bool = False, **values: Any) -> None:
    """Store these readings of a node, over older ones."""
    now = timezone.now()
    for key, value in values.items():
        Fact.objects.update_or_create(
            node=node,
            key=key,
            defaults={
                "value": value,
                "observed_at": now - timedelta(minutes=1),
                "expires_at": now + timedelta(days=-1 if is_expired else 1),
            },
        )


def make_golden(
    keys: dict[str, tuple[Any, str] | tuple[Any, str, dict[str, float]]], **fields: Any
) -> GoldenProfile:
    """A current profile of the factories' node class; `keys`: key to (value, tolerance, numbers)."""
    defaults = {"name": "gold", "node_class": "hgx-h100-roce", "is_current": True}
    profile = GoldenProfile.objects.create(**{**defaults, **fields})
    GoldenKey.objects.bulk_create(
        GoldenKey(
            profile=profile, key=key, value=row[0], tolerance=row[1], **(row[2] if row[2:] else {})
        )
        for key, row in keys.items()
    )
    return profile
