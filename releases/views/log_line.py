"""One line of the log as the page shows it, and its element. Not in charge of folds, days or lanes.

A page has hundreds of lines. As a template each took twenty variables, and rendering was two thirds of the view's
time (1.24 s of 1.84 s in five profiled requests, 2026-11-30). static/js/log_rows.js draws live lines the same way.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from html import escape

from django.utils.safestring import SafeString, mark_safe

from fleet.rules.log_text import Piece

_LINE = (
    '<div class="ln {look}" id="L{key}" data-s="{stream}" data-n="{number}"><a href="#L{key}">{number}</a>'
    '<time class="ts" datetime="{iso}" title="{iso}"><span class="hh">{hour}</span>{rest}</time>'
    '<span class="rk" title="{node}">{rank}</span>{sign}<span class="ss">{subsystem}</span>'
    '<span class="ms">{text}</span></div>'
)
_SIGN = '<span class="t-{tone}"><svg role="img" aria-label="{word}"><use href="#s-{sign}"/></svg></span>'
# Most lines are quiet ones: their sign is a character, because a drawn one costs the browser a tree of its own.
_QUIET = '<span class="t-idle" role="img" aria-label="{word}">–</span>'


@dataclass(slots=True)
class DrawnLine:
    """One line, all words ready.

    `key` is its permanent name: node position and number. `sign` is empty for a quiet line. `pieces` are the text,
    bold or not.
    """

    key: str
    number: str
    stream: str
    iso: str
    hour: str
    rest: str
    rank: str
    node: str
    level: str
    look: str
    sign: str
    tone: str
    word: str
    subsystem: str
    pieces: list[Piece]
    is_marked: bool

    @property
    def html(self) -> SafeString:
        """The line's element; whatever a node said is text in it."""
        return mark_safe(  # every value is escaped here
            _LINE.format(
                look=self.look,
                key=self.key,
                stream=self.stream,
                number=self.number,
                iso=self.iso,
                hour=self.hour,
                rest=self.rest,
                node=escape(self.node),
                rank=self.rank,
                sign=_sign_html(self.sign, self.tone, self.word),
                subsystem=escape(self.subsystem),
                text="".join(map(_piece_html, self.pieces)),
            )
        )


def _piece_html(piece: Piece) -> str:
    text = escape(piece.text)
    return f"<b>{text}</b>" if piece.is_bold else text


@lru_cache(maxsize=64)
def _sign_html(sign: str, tone: str, word: str) -> str:
    return (_SIGN if sign else _QUIET).format(tone=tone, sign=sign, word=escape(word))
