"""Words of a reading: English for a terminal, and a stored sentence for whoever reads them in another language."""

from __future__ import annotations

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


def sentence_of(words: str) -> str:
    """Return what to store or to translate of a reading's words."""
    return words.sentence if isinstance(words, Told) else foreign(words)


def _param(value: object) -> object:
    return sentence_of(value) if isinstance(value, str) else value
