"""Readings of the small tools of a host. Each gives None for a text that is not that tool's whole answer."""
