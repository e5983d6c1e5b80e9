"""Readings of Prometheus text: the exposition format, engines, and cards."""
