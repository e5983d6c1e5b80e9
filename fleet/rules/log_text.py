"""How a hostile line is shown: text only, bold kept, every other control made visible or dropped.

Whole escape sequences (colours, cursor, titles, links) are dropped; what is left of broken ones, controls
and marks that turn the writing direction appear as signs. The result is inserted as text, never as HTML.
"""

from __future__ import annotations

import re
from typing import NamedTuple

# CSI; OSC, DCS, APC, PM, SOS up to their end (bounded: an open one must not swallow the line); two-byte.
_ESCAPE = re.compile(
    r"\x1b\[(?P<csi>[0-?]{0,64})[ -/]{0,8}(?P<final>[@-~])"
    r"|\x1b[\]PX^_][^\x07\x1b]{0,2048}(?:\x07|\x1b\\)"
    r"|\x1b[ -/]{1,4}[0-~]"
    r"|\x1b[0-Z\\^-~]"
)
_SPECIAL = re.compile(
    r"[\x00-\x08\x0a-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]"
    r"|[\U000e0000-\U000e007f]"
)
# The same for a text of many lines: line feeds separate them and need no sign.
_SPECIAL_IN_LINES = re.compile(_SPECIAL.pattern.replace(r"\x0a-", r"\x0b-"))
_BOLD_ON, _BOLD_OFF = frozenset({"1"}), frozenset({"", "0", "22"})


class Piece(NamedTuple):
    """A run of text of one weight."""

    text: str
    is_bold: bool


def is_plain(text: str) -> bool:
    """Tell whether lines, joined by line feeds, can be shown as they are."""
    return _SPECIAL_IN_LINES.search(text) is None


def show_text(text: str) -> str:
    """Return a line as plain visible text."""
    if not _SPECIAL.search(text):
        return text
    return _SPECIAL.sub(_sign, _ESCAPE.sub("", text))


def show_pieces(text: str) -> list[Piece]:
    """Return a line as runs of visible text; one run unless the node made some of it bold."""
    if not _SPECIAL.search(text):
        return [Piece(text, False)]
    pieces: list[Piece] = []
    at, is_bold = 0, False
    for escape in _ESCAPE.finditer(text):
        _append(pieces, text[at : escape.start()], is_bold)
        at = escape.end()
        if escape["final"] == "m":
            is_bold = _weight(escape["csi"], is_bold)
    _append(pieces, text[at:], is_bold)
    return pieces or [Piece("", False)]


def _append(pieces: list[Piece], text: str, is_bold: bool) -> None:
    if not text:
        return
    shown = _SPECIAL.sub(_sign, text)
    if pieces and pieces[-1].is_bold == is_bold:
        shown = pieces.pop().text + shown
    pieces.append(Piece(shown, is_bold))


def _weight(parameters: str, is_bold: bool) -> bool:
    for word in parameters.split(";"):
        if word in _BOLD_ON:
            is_bold = True
        elif word in _BOLD_OFF:
            is_bold = False
    return is_bold


def _sign(match: re.Match[str]) -> str:
    code = ord(match.group())
    if code < 0x20:
        return chr(0x2400 + code)
    return "\u2421" if code == 0x7F else f"⟨U+{code:04X}⟩"
