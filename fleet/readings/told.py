"""Words of a reading: English for a terminal, and a stored sentence for whoever reads them in another language."""

from __future__ import annotations

from collections.abc import Iterable

from fleet.execution.message import foreign, said, say


class Told(str):
    """English words that know the sentence they were made from. Joining them with others gives plain English."""

    __slots__ = ("sentence",)
    sentence: str

    def __new__(cls, sentence: str) -> Told:
        words = super().__new__(cls, said(sentence))
        words.sentence = sentence
        return words


def tell(pattern: str, **params: object) -> Told:
    """Return a sentence; `pattern` uses %(name)s and is the key of its translation. Foreign words stay."""
    return Told(say(pattern, **{name: _param(value) for name, value in params.items()}))


def tell_all(words: Iterable[str], glue: str = "; ") -> str:
    """Return several sentences as one; each of them keeps its own translation."""
    parts = list(words)
    if len(parts) < 2:
        return parts[0] if parts else ""
    names = [f"s{number}" for number in range(len(parts))]
    pattern = glue.replace("%", "%%").join(f"%({name})s" for name in names)
    return tell(pattern, **dict(zip(names, parts, strict=True)))


def sentence_of(words: str) -> str:
    """Return what to store or to translate of a reading's words."""
    return words.sentence if isinstance(words, Told) else foreign(words)


def _param(value: object) -> object:
    return sentence_of(value) if isinstance(value, str) else value
