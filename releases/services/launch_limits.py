"""The waiting times of a launch on this console."""

from django.conf import settings

from releases.rules import launch as rules


def limits() -> rules.Limits:
    """The rule's waiting times, divided by TIME_SCALE. The load time is the engine's, not ours: it stays."""
    wanted, scale = rules.Limits(), settings.TIME_SCALE
    return rules.Limits(
        start_window_s=wanted.start_window_s / scale,
        ready_s=wanted.ready_s,
        warm_up_s=wanted.warm_up_s / scale,
        evidence_s=wanted.evidence_s / scale,
        hang_s=wanted.hang_s / scale,
        scrape_stale_s=wanted.scrape_stale_s / scale,
    )
