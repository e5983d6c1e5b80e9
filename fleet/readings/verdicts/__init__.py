"""Verdicts on pasted text: from a parser's dataclasses to the one object `manage.py read` prints."""
