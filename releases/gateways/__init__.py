"""Adapters of proxies: how desired traffic becomes a configuration."""
