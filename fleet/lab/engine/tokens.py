"""The rehearsed tokenizer: one token a CJK character, a word piece of four letters, or a sign.

Pieces join to the text byte for byte; usage and /tokenize count the same pieces.
"""

import re
from zlib import crc32

from . import answers

_PIECE = re.compile(r"\s*(?:[\u3400-\u9fff]|[^\W\d_\u3400-\u9fff]{1,4}|\d{1,3}|\S)|\s+$")
OPENING_TOKENS = 3


def split(text: str) -> list[str]:
    """Split a text into tokens that join to it again."""
    return _PIECE.findall(text)


def count(text: str) -> int:
    """Count the tokens of a text."""
    return sum(1 for _ in _PIECE.finditer(text))


def chat_pieces(messages: list[dict]) -> list[str]:
    """Return the prompt of a conversation as the rehearsed template lays it out."""
    pieces = ["<|begin|>", "<|system|>", "<|sop|>"][:OPENING_TOKENS]
    for message in messages:
        role = str(message.get("role", "user"))
        pieces += ["<|start|>", role, "\n"]
        pieces += split(answers.text_of(message))
        pieces.append("<|end|>")
    return pieces


def ids(pieces: list[str], vocabulary: int) -> list[int]:
    """Return a stable number below the vocabulary's size for each token."""
    return [crc32(piece.encode("utf-8", "replace")) % vocabulary for piece in pieces]
