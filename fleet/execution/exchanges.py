"""The verb `exchange`: text to a port of the node, and what came back until the other side ended.

The proxy of a gateway is driven with it. An order is the same bytes each time it is asked: what it says must be safe
to say twice.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fleet.execution import states
from fleet.execution.addresses import LOOPBACK
from fleet.execution.output import Section
from fleet.execution.remote import Connection, PortFailed
from fleet.execution.verdicts import Outcome
from fleet.execution.wire import WireError

TIMEOUT_S, LONGEST_S = 10.0, 300.0
TEXT_CAP_BYTES = 256 * 1024
ANSWER_BYTES, ANSWER_CAP_BYTES = 256 * 1024, 4 * 1024 * 1024
# What is said again after a broken connection must not be a thing that happens once.
EFFECTS = ("probe", "ensure")


@dataclass(frozen=True)
class Exchange:
    """What is said to which port. `limit`: the most bytes of an answer that are read."""

    port: int
    text: bytes
    address: str = LOOPBACK
    timeout_s: float = TIMEOUT_S
    limit: int = ANSWER_BYTES


def exchange_of(payload: dict[str, Any]) -> Exchange:
    """Read {port, text, address, timeout_s, limit_bytes}; the last three may be absent. Raises WireError."""
    text = payload.get("text")
    if not isinstance(text, str) or not text or "\0" in text:
        raise WireError(f"text {text!r:.80}: expected words without NUL")
    try:
        raw = text.encode()
    except UnicodeEncodeError:
        raise WireError(f"text {text!r:.80}: expected what UTF-8 can say") from None
    if len(raw) > TEXT_CAP_BYTES:
        raise WireError(f"text of {len(raw)} bytes: expected at most {TEXT_CAP_BYTES}")
    return Exchange(
        _whole("port", payload.get("port"), 65535),
        raw,
        payload.get("address") or LOOPBACK,
        min(LONGEST_S, float(payload.get("timeout_s", TIMEOUT_S))),
        _whole("limit_bytes", payload.get("limit_bytes", ANSWER_BYTES), ANSWER_CAP_BYTES),
    )


def check_exchange(payload: dict[str, Any], effect: str) -> None:
    """Raise WireError unless this can be said to a port, and said again."""
    exchange_of(payload)
    if effect not in EFFECTS:
        raise WireError(f"effect {effect!r} of an exchange: expected one of {', '.join(EFFECTS)}")


def carry_out_exchange(connection: Connection, payload: dict[str, Any]) -> Outcome:
    """Say it and keep what came back as section `body`. Raises RemoteError when the node is not there."""
    asked = exchange_of(payload)
    try:
        found = connection.exchange(
            asked.text,
            port=asked.port,
            address=asked.address,
            deadline=asked.timeout_s,
            limit=asked.limit,
        )
    except PortFailed as error:
        return Outcome(states.FAILED, error.sentence, {"ms": None, "error": str(error)[:500]})
    section = Section("body", ms=int(found.ms), body=found.body)
    return Outcome(states.SUCCEEDED, "", {"ms": round(found.ms, 1), "error": None}, [section])


def _whole(name: str, value: Any, high: int) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= high:
        return value
    raise WireError(f"{name} {value!r:.20}: expected 1 to {high}")
