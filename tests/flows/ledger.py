"""A ledger of streamed requests through a gateway: each that is sent is answered whole, or must be accounted for.

The clients are those of the pool's users, the openai package: they ask one thing after the other, some within a
session, some not.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from threading import Event, Lock, Thread
from typing import Any

import httpx
from openai import OpenAI, OpenAIError

CLIENTS = 2
PAUSE_S = 0.4  # between an answer and the next question of a client
LONG_TOKENS = 120
TURNS = 8  # requests of all clients together while a session lasts


@dataclass(frozen=True)
class Entry:
    """One request; `problem` is empty when it was answered whole and right."""

    number: int
    client: str
    problem: str


@dataclass
class Ledger:
    """Asks the prompts of a release until it is closed; a `with` block is the time in which clients ask."""

    address: str
    port: int
    model: str
    prompts: list[dict[str, Any]]
    entries: list[Entry] = field(default_factory=list)
    sent: int = 0

    def __post_init__(self) -> None:
        self._lock, self._over = Lock(), Event()
        self._threads = [Thread(target=self._ask_on, args=(n,)) for n in range(CLIENTS)]

    def __enter__(self) -> Ledger:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join()

    @property
    def answered(self) -> int:
        return sum(not one.problem for one in self.entries)

    @property
    def lost(self) -> list[Entry]:
        return [one for one in self.entries if one.problem]

    def _ask_on(self, client: int) -> None:
        while not self._over.wait(PAUSE_S):
            with self._lock:
                self.sent += 1
                number = self.sent
            problem = self._problem_of(client, number)
            with self._lock:
                self.entries.append(Entry(number, f"client {client}", problem))

    def _problem_of(self, client: int, number: int) -> str:
        prompt = self.prompts[number % len(self.prompts)]
        is_long = number % 3 == 0
        try:
            text, reason = self._stream(_session(client, number), prompt, is_long)
        except (OpenAIError, httpx.HTTPError) as error:
            return f"{type(error).__name__}: {error}"
        return _what_is_missing(text, reason, prompt["expect"], is_long)

    def _stream(self, session: str, prompt: dict[str, Any], is_long: bool) -> tuple[str, str]:
        """Ask as a user does; a long answer goes on behind the right text, so that drains meet it."""
        # A client of its own for each request, as the many users have; and none asks twice by itself.
        url = f"http://{self.address}:{self.port}/v1"
        with OpenAI(base_url=url, api_key="-", max_retries=0, timeout=120) as web:
            chunks = web.chat.completions.create(
                model=self.model,
                messages=prompt["messages"],
                temperature=0,
                stream=True,
                max_tokens=LONG_TOKENS if is_long else 256,
                extra_body={"ignore_eos": is_long},
                extra_headers={"x-session-id": session} if session else {},
            )
            text, reason = "", ""
            for choice in (choice for chunk in chunks for choice in chunk.choices):
                text += choice.delta.content or ""
                reason = choice.finish_reason or reason
            return text, reason


def _session(client: int, number: int) -> str:
    """Return the session of a request: the first client has none, a conversation of the others has a few turns."""
    return f"client-{client}-{number // TURNS}" if client else ""


def _what_is_missing(text: str, reason: str, expect: str, is_long: bool) -> str:
    if not reason:
        return f"cut after {text[-200:]!r}"
    if reason not in ("stop", "length"):
        return f"ended by {reason!r}"
    is_right = text.startswith(expect) if is_long else text == expect
    return "" if is_right else f"answered {text!r}, expected {expect!r}"


def ledger_of(pool) -> Ledger:
    """Return the ledger of a pool's clients, who ask its golden prompts."""
    from releases.models import Gateway, Release

    gateway = Gateway.objects.select_related("host").get()
    content = Release.objects.filter(pool=pool).order_by("pk").first().content
    return Ledger(
        gateway.host.address, gateway.port, content["model"]["served_name"], content["golden"]
    )


def named_by_the_console() -> int:
    """Return how many requests the console says it cut."""
    from releases.models import Drain

    return sum(Drain.objects.exclude(cut=None).values_list("cut", flat=True))
