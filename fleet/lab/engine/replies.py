"""The JSON of an answer, whole or in server-sent events, in the field order of vLLM 0.23.

Not in charge of what is said or when; a Choice holds that before its first token is due.
"""

import json
import os
import time
from dataclasses import dataclass

from .generation import Sequence


@dataclass
class Job:
    """One checked request."""

    body: dict
    is_chat: bool
    prompts: list[list[str]]
    messages: list[list[dict]]
    max_tokens: int
    count: int

    @property
    def streams(self) -> bool:
        return bool(self.body.get("stream"))

    @property
    def wants_usage(self) -> bool:
        return bool((self.body.get("stream_options") or {}).get("include_usage"))


@dataclass
class Choice:
    """One answer: its thoughts, its tokens, and why it ends."""

    prompt: list[str]
    thinking: list[str]
    pieces: list[str]
    reason: str
    max_tokens: int

    def __post_init__(self) -> None:
        self.thought = "".join(self.thinking)
        self.content = "".join(self.pieces)

    def sequence(self) -> Sequence:
        everything = self.thinking + self.pieces
        return Sequence(self.prompt, everything or [""], self.max_tokens, self.reason)

    def parts(self, done: int, text: str) -> list[tuple[str, str]]:
        """Split news that starts at character `done` into reasoning and content."""
        border = max(0, len(self.thought) - done)
        found = [("reasoning", text[:border]), ("content", text[border:])]
        return [(field, part) for field, part in found if part]


class Reply:
    """The JSON of one answer, whole or in events."""

    def __init__(
        self, model: str, job: Job, choices: list[Choice], sequences: list[Sequence]
    ) -> None:
        self.model = model
        self.job = job
        self.choices = choices
        self.sequences = sequences
        self.id = ("chatcmpl-" if job.is_chat else "cmpl-") + os.urandom(16).hex()
        self.created = int(time.time())

    def usage(self) -> dict:
        prompt = sum(len(prompt) for prompt in self.job.prompts)
        completion = sum(len(c.thinking) + len(c.pieces) for c in self.choices)
        return {
            "prompt_tokens": prompt, "total_tokens": prompt + completion,
            "completion_tokens": completion, "prompt_tokens_details": None,
        }  # fmt: skip

    def _base(self, kind: str) -> dict:
        return {"id": self.id, "object": kind, "created": self.created, "model": self.model}

    def whole(self) -> dict:
        """The unstreamed answer."""
        if not self.job.is_chat:
            rows = [
                {
                    "index": index, "text": choice.content, "logprobs": None,
                    "finish_reason": choice.reason, "stop_reason": None, "token_ids": None,
                    "prompt_logprobs": None, "prompt_token_ids": None,
                }
                for index, choice in enumerate(self.choices)
            ]  # fmt: skip
            return self._base("text_completion") | {
                "choices": rows, "service_tier": None, "system_fingerprint": None,
                "usage": self.usage(), "kv_transfer_params": None,
            }  # fmt: skip
        rows = [self._message(index, choice) for index, choice in enumerate(self.choices)]
        return self._base("chat.completion") | {
            "choices": rows, "service_tier": None, "system_fingerprint": None,
            "usage": self.usage(), "prompt_logprobs": None, "prompt_token_ids": None,
            "kv_transfer_params": None,
        }  # fmt: skip

    def _message(self, index: int, choice: Choice) -> dict:
        message = {
            "role": "assistant", "content": choice.content, "refusal": None, "annotations": None,
            "audio": None, "function_call": None, "tool_calls": [],
            "reasoning": choice.thought or None,
        }  # fmt: skip
        return {
            "index": index, "message": message, "logprobs": None,
            "finish_reason": choice.reason, "stop_reason": None, "token_ids": None,
        }  # fmt: skip

    def event(self, index: int, delta: dict, reason: str | None = None) -> bytes:
        """One chat chunk."""
        choice = {
            "index": index, "delta": delta, "logprobs": None, "finish_reason": reason,
            "token_ids": None,
        }  # fmt: skip
        if reason is not None:
            choice["stop_reason"] = None
        return _event(self._base("chat.completion.chunk") | {"choices": [choice]})

    def piece(self, index: int, field: str, text: str) -> bytes:
        """One chunk of text."""
        if self.job.is_chat:
            return self.event(index, {field: text})
        return self._text_event(index, text, None)

    def last(self, index: int) -> bytes:
        """The chunk that carries the finish reason."""
        reason = self.choices[index].reason
        if self.job.is_chat:
            return self.event(index, {"content": ""}, reason)
        return self._text_event(index, "", reason)

    def _text_event(self, index: int, text: str, reason: str | None) -> bytes:
        choice = {
            "index": index, "text": text, "logprobs": None, "finish_reason": reason,
            "stop_reason": None,
        }  # fmt: skip
        return _event(self._base("text_completion") | {"choices": [choice]})

    def usage_event(self) -> bytes:
        """The closing chunk with the counts and no choices."""
        kind = "chat.completion.chunk" if self.job.is_chat else "text_completion"
        return _event(self._base(kind) | {"choices": [], "usage": self.usage()})


def _event(value: dict) -> bytes:
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return f"data: {text}\n\n".encode()
