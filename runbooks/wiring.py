"""Ties the signals of launches to this app: a unit in trouble gets its case before the next beat.

Only a fast path: whatever is missed here, the beat finds by itself.
"""

from typing import Any

from django.dispatch import receiver

from releases.signals import unit_troubled


@receiver(unit_troubled)
def nudge_for_unit(**_: Any) -> None:
    """Let the detectors look now."""
    # here, so that a command that only migrates does not load every task
    from runbooks.tasks import nudge

    nudge()
