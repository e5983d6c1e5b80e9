"""The console of the flows, to be hurt."""

from tests.flows.conftest import bare_console, console, launch_unit, ready_launch, time_scale, unit

__all__ = ["bare_console", "console", "launch_unit", "ready_launch", "time_scale", "unit"]
