"""Readers of incidents and runs."""
