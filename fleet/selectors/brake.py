"""Whether the mass-change brake is on."""

from __future__ import annotations

from fleet.models import Brake


def brake_now() -> Brake | None:
    """Return the live brake, or None."""
    return Brake.objects.filter(cleared_at=None).first()


def is_braked() -> bool:
    """Tell whether automatic actions on nodes and units must stand still."""
    return Brake.objects.filter(cleared_at=None).exists()
