"""Ties signals to this app: answers to a gate's questions and of a proxy, and wishes of traffic, are seen at once.

Only a fast path: whatever is missed here, the next beat finds by itself. And tells the copies of weights who knows
where they must rest, since the fleet may not import this app.
"""

from __future__ import annotations

from typing import Any

from django.dispatch import receiver

from fleet.execution.signals import command_settled, subject_moved
from fleet.services.weights_tick import pressure_add
from releases.models.gate import TOPIC_HEAD
from releases.models.traffic import TOPIC_HEAD as GATEWAY_HEAD
from releases.models.traffic import Gateway
from releases.services.pressure import serving_pressure
from releases.signals import traffic_wanted

pressure_add(serving_pressure)


@receiver(command_settled)
def nudge_for_gate(topic: str = "", **_: Any) -> None:
    """Let the next tick come soon when a question of a gate run was answered."""
    if topic.startswith(TOPIC_HEAD):
        # here, so that a command that only migrates does not load every task
        from releases.tasks import nudge_gates

        nudge_gates()


@receiver(traffic_wanted)
def nudge_for_wish(**_: Any) -> None:
    """Let a gateway be told now what is wanted of it."""
    from releases.tasks import nudge_traffic

    nudge_traffic()


@receiver(command_settled)
def nudge_for_gateway(topic: str = "", **_: Any) -> None:
    """Let the next order come soon when a proxy answered the last one."""
    if topic.startswith(GATEWAY_HEAD):
        nudge_for_wish()


@receiver(subject_moved)
def nudge_for_proxy(subject_id: int, **_: Any) -> None:
    """Let a proxy that ended be started again soon."""
    if Gateway.objects.filter(subject=subject_id).exists():
        nudge_for_wish()
