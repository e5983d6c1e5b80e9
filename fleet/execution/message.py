"""Sentences that are stored in one language-neutral form and read in the language of whoever looks.

A stored sentence is its English pattern, a unit separator and its parameters as JSON; a parameter may itself be
such a sentence. Plain text (older rows, words of a node) passes through unchanged. Pure: translating is handed in.
"""

import json
import re
from collections.abc import Callable, Sequence

_SEPARATOR = "\x1f"
# Anything else after a percent sign is no sentence of ours: a width of a forged one could fill the memory.
_PATTERN = re.compile(r"(?:[^%]|%%|%\(\w+\)[sd])*")


def say(pattern: str, **params: object) -> str:
    """Encode a sentence; `pattern` uses %(name)s and is the key of its translation."""
    if not params:
        return pattern
    return f"{pattern}{_SEPARATOR}{json.dumps(params, ensure_ascii=False, default=str)}"


def say_all(sentences: Sequence[str]) -> str:
    """Encode several sentences as one that says them one after the other, each in the reader's language."""
    if len(sentences) < 2:
        return "".join(sentences)
    names = [f"s{number}" for number in range(len(sentences))]
    pattern = " ".join(f"%({name})s" for name in names)
    return say(pattern, **dict(zip(names, sentences, strict=True)))


def said(text: str, translate: Callable[[str], str] = str) -> str:
    """Decode a stored sentence into words; text that is no sentence of ours comes back as it is."""
    if not text:
        return ""
    pattern, found, params = text.partition(_SEPARATOR)
    if not found:
        return translate(text)
    if not _PATTERN.fullmatch(pattern):
        return text.replace(_SEPARATOR, " ")
    try:
        values = json.loads(params)
        spoken = {
            name: said(value, translate) if isinstance(value, str) else value
            for name, value in values.items()
        }
        return translate(pattern) % spoken
    except (ValueError, TypeError, KeyError, AttributeError):
        return text.replace(_SEPARATOR, " ")


def foreign(words: str) -> str:
    """Return words of a node that cannot pass for one of our sentences."""
    return words.replace(_SEPARATOR, " ")


def said_within(text: str, cap: int) -> str:
    """Return a sentence of at most `cap` characters: whole as it is, or else its English words, cut."""
    return text if len(text) <= cap else said(text)[:cap]


class SentenceError(Exception):
    """An error whose message is a stored sentence; str() gives it in English, for logs and terminals."""

    def __init__(self, sentence: str) -> None:
        super().__init__(said(sentence))
        self.sentence = sentence


def sentence_in(error: BaseException) -> str:
    """Return the sentence an error carries, or its plain words."""
    own = getattr(error, "sentence", "") or getattr(error, "strerror", "")
    return own or str(error) or type(error).__name__
