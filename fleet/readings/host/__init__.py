"""Readings of what the acceptance of a node asks its host: counters, processors, memory, Docker."""
