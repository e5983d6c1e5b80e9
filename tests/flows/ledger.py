"""A ledger of streamed requests through a gateway: each that is sent is answered whole, or must be accounted for.

Clients like those of the pool's users: they ask one thing after the other, some within a session, some not.
"""

from __future__ import annotations

import http.client
import json
from contextlib import closing
from dataclasses import dataclass, field
from threading import Event, Lock, Thread
from typing import Any

from fleet.readings.sse import parse_chat_stream

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
            status, body = self._stream(_session(client, number), prompt, is_long)
        except (OSError, http.client.HTTPException) as error:
            return repr(error)
        if status != 200:
            return f"HTTP {status}: {body[:200]!r}"
        return _what_is_missing(body, prompt["expect"], is_long)

    def _stream(self, session: str, prompt: dict[str, Any], is_long: bool) -> tuple[int, bytes]:
        """Ask as a user's client does; a long answer goes on behind the right text, so that drains meet it."""
        body = {
            "model": self.model, "messages": prompt["messages"], "temperature": 0, "stream": True,
            "max_tokens": LONG_TOKENS if is_long else 256, "ignore_eos": is_long,
        }  # fmt: skip
        headers = {"content-type": "application/json"}
        if session:
            headers["x-session-id"] = session
        with closing(http.client.HTTPConnection(self.address, self.port, timeout=120)) as web:
            web.request("POST", "/v1/chat/completions", json.dumps(body), headers)
            answer = web.getresponse()
            return answer.status, answer.read()


def _session(client: int, number: int) -> str:
    """Return the session of a request: the first client has none, a conversation of the others has a few turns."""
    return f"client-{client}-{number // TURNS}" if client else ""


def _what_is_missing(body: bytes, expect: str, is_long: bool) -> str:
    found = parse_chat_stream(body)
    if found.error or found.unread or not found.is_done:
        return f"cut: {found.error or body[-200:]!r}"
    if found.finish_reason not in ("stop", "length"):
        return f"ended by {found.finish_reason!r}"
    is_right = found.text.startswith(expect) if is_long else found.text == expect
    return "" if is_right else f"answered {found.text!r}, expected {expect!r}"


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
