"""Bytes that a node printed, as text that can do nothing on a page."""

from fleet.rules.log_text import show_text


def raw_text(body: bytes) -> str:
    """Decode node output line by line: no escape sequence survives, every control is a sign that can be seen."""
    text = body.decode("utf-8", "replace").replace("\r\n", "\n")
    return "\n".join(map(show_text, text.split("\n")))
