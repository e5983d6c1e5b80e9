"""Asks engines the golden question and for their metrics, and ports for their text, each at its own rhythm.

A question that could not be asked (no connection, this process stood still) counts for nothing: the
reading only grows older. A question that was asked and not answered is a miss.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING

from fleet.execution import watch_record
from fleet.execution.exchanges import ANSWER_BYTES, exchange_of
from fleet.execution.faults import scaled
from fleet.execution.models import Scrape
from fleet.execution.remote_errors import RemoteError
from fleet.execution.watch_link import NotConnected
from fleet.execution.watch_scrape import (
    Scraped,
    judge_exchange,
    judge_golden,
    judge_metrics,
)

if TYPE_CHECKING:
    from fleet.execution.remote import Connection
    from fleet.execution.watch_node import NodeWatch
    from fleet.execution.watch_shift import Shift

logger = logging.getLogger(__name__)

_AT_ONCE = 48
# A machine under load needs this much for an HTTP answer, however fast a test's clock.
_SHORTEST_S = 3.0


class Scraper:
    """Runs what is due. A scrape that still waits for its answer is not asked again."""

    def __init__(self, shift: Shift):
        self._shift = shift
        self._pool = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="scrape")
        self._asked_at: dict[int, float] = {}
        self._running: set[int] = set()

    def run_due(self, scrapes: Iterable[Scrape], nodes: Mapping[int, NodeWatch]) -> None:
        """Start the scrapes whose time has come."""
        now = time.monotonic()
        for scrape in scrapes:
            node = nodes.get(scrape.host_id)
            last = self._asked_at.get(scrape.pk)
            is_due = last is None or now - last >= scaled(scrape.every_s)
            if node is None or scrape.pk in self._running or not is_due:
                continue
            self._asked_at[scrape.pk] = now
            self._running.add(scrape.pk)
            self._pool.submit(self._run, scrape, node)

    def stop(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _run(self, scrape: Scrape, node: NodeWatch) -> None:
        try:
            result = self._ask(scrape, node)
            if result is not None:
                job = partial(watch_record.record_scrape, self._shift.fence, scrape.pk, result)
                self._shift.ledger.post(job)
        except Exception:
            logger.exception("the scrape %s failed in this process", scrape.key)
        finally:
            self._running.discard(scrape.pk)

    def _ask(self, scrape: Scrape, node: NodeWatch) -> Scraped | None:
        """Return the result, or None when nothing can be said about the engine."""
        stalls = self._shift.awake.stalls
        ask = _exchange if scrape.kind == Scrape.Kind.EXCHANGE else _http
        try:
            connection = node.link.borrow(0.0)
            return ask(connection, scrape, max(_SHORTEST_S, scaled(scrape.timeout_s)))
        except NotConnected:
            return None
        except RemoteError as error:
            is_ours = not connection.is_alive or self._shift.awake.stalls != stalls
            return None if is_ours else Scraped(error=error.sentence)


def _http(connection: Connection, scrape: Scrape, deadline_s: float) -> Scraped:
    body = None if scrape.body is None else json.dumps(scrape.body).encode()
    headers = {} if body is None else {"Content-Type": "application/json"}
    answer = connection.http(
        scrape.method,
        scrape.path,
        port=scrape.port,
        headers=headers,
        body=body,
        deadline=deadline_s,
    )
    if scrape.kind == Scrape.Kind.GOLDEN:
        return judge_golden(answer.status, answer.body, scrape.expect, answer.ms)
    return judge_metrics(answer.status, answer.body, scrape.keep, answer.ms)


def _exchange(connection: Connection, scrape: Scrape, deadline_s: float) -> Scraped:
    asked = exchange_of({**(scrape.body or {}), "port": scrape.port})
    answer = connection.exchange(
        asked.text,
        port=asked.port,
        address=asked.address,
        deadline=deadline_s,
        limit=ANSWER_BYTES,
    )
    return judge_exchange(answer.body, answer.ms)
