"""Ties the kernel's signals and the sign-in to this app: rings topics, asks for a tick, starts session clocks.

Only fast paths: whatever is missed here, the next beat and the next poll find by themselves.
"""

from __future__ import annotations

import time
from typing import Any

from django.contrib.auth.signals import user_logged_in
from django.dispatch import receiver

from fleet.doorbell import ring
from fleet.execution.models import Host
from fleet.execution.signals import batch_carried, command_settled, host_moved, scrape_settled


@receiver(command_settled)
def ring_for_command(topic: str = "", **_: Any) -> None:
    """Ring the topic of a command that moved, and let the next tick come soon."""
    ring(topic)
    _nudge()


@receiver(batch_carried)
def nudge_for_batch(**_: Any) -> None:
    """Let a tick come after the last result of a job too, whose own wish may have come too soon to be sent."""
    _nudge(is_last=True)


@receiver(host_moved)
def ring_for_host(host_id: int, **_: Any) -> None:
    """Ring the node of a host whose reach or key changed, and let the next tick come soon."""
    name = (
        Host.objects.filter(pk=host_id, node__isnull=False).values_list("name", flat=True).first()
    )
    if name:
        ring("fleet", f"node-{name}")
    _nudge()


@receiver(scrape_settled)
def ring_for_scrape(topic: str = "", **_: Any) -> None:
    """Ring the topic of a recurring reading whose answer is another than before."""
    ring(topic)


@receiver(user_logged_in)
def start_session_clocks(request: Any, **_: Any) -> None:
    """Count the age and the idleness of a session from its sign-in (console/middleware.py reads them)."""
    if request is not None and hasattr(request, "session"):
        request.session["started_at"] = request.session["seen_at"] = time.time()


def _nudge(*, is_last: bool = False) -> None:
    # here, so that a command that only migrates does not load every task
    from fleet.tasks import nudge

    nudge(is_last=is_last)
