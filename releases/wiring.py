"""Ties the kernel's signals to this app: the answer to a gate's question is judged at once.

Only a fast path: whatever is missed here, the next beat finds by itself.
"""

from __future__ import annotations

from typing import Any

from django.dispatch import receiver

from fleet.execution.signals import command_settled
from releases.models.gate import TOPIC_HEAD


@receiver(command_settled)
def nudge_for_gate(topic: str = "", **_: Any) -> None:
    """Let the next tick come soon when a question of a gate run was answered."""
    if topic.startswith(TOPIC_HEAD):
        # here, so that a command that only migrates does not load every task
        from releases.tasks import nudge_gates

        nudge_gates()
