"""Verdicts on pasted text: from parsed dataclasses to the object `manage.py read` prints."""
