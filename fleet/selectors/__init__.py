"""Reads of the fleet's tables. Whoever writes does so in fleet/services."""

from fleet.selectors.ticks import conductor_tick_age_s

__all__ = ["conductor_tick_age_s"]
