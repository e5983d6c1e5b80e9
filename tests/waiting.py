"""Waiting in tests: poll with a deadline, never sleep and hope."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def wait_until(predicate: Callable[[], T], timeout_s: float = 20.0, what: str = "") -> T:
    """Poll until `predicate()` is true and return its value. Fails the test, saying what it waited for."""
    deadline = time.monotonic() + timeout_s
    while not (value := predicate()):
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {timeout_s:.0f} s in vain for {what or predicate!r}")
        time.sleep(0.05)
    return value
