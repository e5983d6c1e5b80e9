"""Lines as they go to browsers: visible text, ready-made JSON, at most 64 KiB a frame.

A line is [number, ms since 1970, rank or null, level, subsystem, text]; the text is a string, or a list of
[text, is_bold] when the node made some of it bold. Made once a process, sent to many.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from json.encoder import encode_basestring as _quote
from typing import NamedTuple

from fleet.rules.log_filter import LogFilter
from fleet.rules.log_text import is_plain, show_pieces

FRAME_BYTES = 64 * 1024
_ENVELOPE_BYTES = 200


class WireLine(NamedTuple):
    """A line for browsers; `json` is its whole text form."""

    number: int
    rank: int | None
    level: str
    subsystem: str
    text: str
    json: str


def wire_lines(rows: bytes, first_line: int, base_ms: int = 0) -> list[WireLine]:
    """Read packed rows (of a chunk or a hot frame), numbered from `first_line`."""
    text = rows.decode()
    # Looked at once for all lines: hardly any frame holds a control at all.
    make = _plain_line if is_plain(text) else _shown_line
    found = []
    for number, row in enumerate(text.split("\n")[:-1], first_line):
        ms, rank, level, subsystem, said = row.split("\t", 4)
        shown, plain = make(said)
        known = rank != "-"
        form = (
            f'[{number},{base_ms + int(ms)},{rank if known else "null"},"{level}",'
            f"{_quote(subsystem)},{shown}]"
        )
        found.append(WireLine(number, int(rank) if known else None, level, subsystem, plain, form))
    return found


def _plain_line(said: str) -> tuple[str, str]:
    return _quote(said), said


def _shown_line(said: str) -> tuple[str, str]:
    """Return a line's JSON and its plain visible text."""
    pieces = show_pieces(said)
    if len(pieces) == 1 and not pieces[0].is_bold:
        return _quote(pieces[0].text), pieces[0].text
    return json.dumps(pieces, ensure_ascii=False), "".join(piece.text for piece in pieces)


def frames(
    stream_id: int, lines: Sequence[WireLine], takes: Callable[[WireLine], bool] | None = None
) -> Iterator[str]:
    """Yield frames that cover these lines without a gap.

    `count` says how many lines a frame covers from `first_line`; those that a filter holds back are counted
    and not sent, so a client knows that none is missing.
    """
    start, size, taken = 0, _ENVELOPE_BYTES, list[str]()
    for at, line in enumerate(lines):
        if takes is not None and not takes(line):
            continue
        length = len(line.json) if line.json.isascii() else len(line.json.encode())
        if taken and size + length > FRAME_BYTES:
            yield _frame(stream_id, lines[start].number, at - start, taken)
            start, size, taken = at, _ENVELOPE_BYTES, []
        taken.append(line.json)
        size += length + 1
    if len(lines) > start:
        yield _frame(stream_id, lines[start].number, len(lines) - start, taken)


def _frame(stream_id: int, first_line: int, count: int, taken: list[str]) -> str:
    return f'{{"stream":{stream_id},"first_line":{first_line},"count":{count},"lines":[{",".join(taken)}]}}'


def taker(wanted: LogFilter) -> Callable[[WireLine], bool] | None:
    """Return what decides about a line, without regular expressions; None when all are wanted."""
    plain = wanted.without("text") if wanted.pattern else wanted
    if plain.is_empty:
        return None
    return lambda line: plain.takes(line.rank, line.level, line.subsystem, line.text)
