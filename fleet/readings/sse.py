"""Reads a streamed chat answer (server-sent events of the OpenAI form) back into one text. Pure.

Source: vLLM 0.23 streams `data: {json}` events, an optional usage event without choices, and `data: [DONE]`.
"""

import json
import re
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class StreamedAnswer:
    """A streamed answer, joined. `is_done`: the stream ended with [DONE]; without it the text may be cut."""

    text: str
    reasoning: str
    finish_reason: str
    usage: dict[str, int]
    chunks: int
    is_done: bool
    error: str
    unread: int


def parse_chat_stream(body: bytes) -> StreamedAnswer:
    """Join the chunks of choice 0. Never raises: lines that are no event are counted as unread."""
    texts: list[str] = []
    thoughts: list[str] = []
    finish = error = ""
    usage: dict[str, int] = {}
    chunks = unread = 0
    is_done = False
    # Not splitlines: a text may hold U+0085 or U+2028, which end no line here.
    for line in re.split(r"\r\n|\n|\r", body.decode("utf-8", "replace")):
        if not line.strip() or line.startswith(":"):
            continue
        word, _, data = line.partition(":")
        data = data.strip()
        if word != "data":
            unread += word not in ("event", "id", "retry")
        elif data == "[DONE]":
            is_done = True
        elif (event := _object(data)) is None or is_done:
            unread += 1
        else:
            chunks += 1
            error = error or _error(event)
            usage = _usage(event) or usage
            delta, ended = _delta(event)
            texts.append(_text(delta.get("content")))
            thoughts.append(_text(delta.get("reasoning") or delta.get("reasoning_content")))
            finish = ended or finish
    return StreamedAnswer(
        "".join(texts), "".join(thoughts), finish, usage, chunks, is_done, error, unread
    )


def _object(data: str) -> dict[str, Any] | None:
    try:
        found = json.loads(data)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def _delta(event: dict[str, Any]) -> tuple[dict[str, Any], str]:
    choices = event.get("choices")
    for choice in choices if isinstance(choices, list) else []:
        if isinstance(choice, dict) and choice.get("index", 0) == 0:
            delta = choice.get("delta")
            return (delta if isinstance(delta, dict) else {}), _text(choice.get("finish_reason"))
    return {}, ""


def _usage(event: dict[str, Any]) -> dict[str, int]:
    found = event.get("usage")
    if not isinstance(found, dict):
        return {}
    return {name: value for name, value in found.items() if isinstance(value, int)}


def _error(event: dict[str, Any]) -> str:
    found = event.get("error")
    if isinstance(found, dict):
        return _text(found.get("message"))[:500] or "error without a message"
    return _text(found)[:500]


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
