"""Reads of the fleet's tables. Whoever writes does so in fleet/services."""

from fleet.selectors.ticks import ConductorTick, conductor_tick, conductor_tick_age_s

__all__ = ["ConductorTick", "conductor_tick", "conductor_tick_age_s"]
