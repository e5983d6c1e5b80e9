"""Readings of nvidia-smi, one module a form of its output."""
