"""What the watch saw, written down: reachability, subjects, scrapes, heartbeats. Every write is fenced.

A row that somebody else moved to its end in the meantime is left alone. Signals tell what changed.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import Any

from django.db.models import F
from django.db.models.functions import Coalesce, Now

from fleet.execution import signals, states
from fleet.execution.message import said_within, say
from fleet.execution.models import Host, LogStream, Scrape, Subject
from fleet.execution.results import subject_seen
from fleet.execution.verdicts import AnswerLies, seen_in
from fleet.execution.watch_lease import Fence
from fleet.execution.watch_reach import OK
from fleet.execution.watch_scrape import Scraped, token_counters

logger = logging.getLogger(__name__)

_OPEN = (states.SUBJECT_NEW, states.SUBJECT_LIVE, states.SUBJECT_UNKNOWN)
_EXPLANATION_CAP = 1000


def record_answers(fence: Fence, host_ids: Iterable[int]) -> None:
    """These nodes answered within the last period."""
    rows = fence.guard(Host.objects.filter(pk__in=list(host_ids)))
    back = list(rows.exclude(reach=OK).values_list("pk", flat=True))
    rows.update(reach=OK, misses=0, missed_since=None, seen_at=Now(), explanation="")
    for pk in back:
        signals.host_moved.send(sender=Host, host_id=pk, reach=OK)


def record_silence(fence: Fence, host_id: int, reach: str, misses: int, why: str) -> None:
    """A node gave no answer for so many periods in a row."""
    rows = fence.guard(Host.objects.filter(pk=host_id))
    is_new = rows.exclude(reach=reach).exists()
    rows.update(
        reach=reach,
        misses=misses,
        missed_since=Coalesce(F("missed_since"), Now()),
        explanation=said_within(why, _EXPLANATION_CAP),
    )
    if is_new:
        signals.host_moved.send(sender=Host, host_id=host_id, reach=reach)


def record_boot(fence: Fence, host_id: int, boot_id: str) -> bool:
    """Note the boot id of a node; tell whether it was started again since the last one."""
    rows = fence.guard(Host.objects.filter(pk=host_id))
    known = rows.values_list("boot_id", flat=True).first()
    if known is None or known == boot_id:
        return False
    rows.update(boot_id=boot_id)
    if known:
        signals.host_moved.send(sender=Host, host_id=host_id, reach="")
    return bool(known)


def record_statuses(fence: Fence, statuses: Mapping[int, dict[str, Any]]) -> None:
    """Write the shim's answers on subjects: who runs, who ended and how."""
    running = [pk for pk, status in statuses.items() if status["answer"] == "RUNNING"]
    rows = fence.guard(Subject.objects.filter(pk__in=running, state__in=_OPEN))
    rows.exclude(state=states.SUBJECT_LIVE).update(state=states.SUBJECT_LIVE, explanation="")
    rows.update(observed_at=Now())
    epochs = dict(rows.values_list("pk", "epoch"))
    for pk, status in statuses.items():
        is_other = pk in epochs and status.get("epoch") != epochs[pk]
        if status["answer"] in ("DONE", "LOST") or is_other:
            _record_seen(fence, pk, status)
        elif status["answer"] == "ABSENT":
            _record_absence(fence, pk)


def _record_seen(fence: Fence, subject_id: int, status: dict[str, Any]) -> None:
    try:
        seen = seen_in(status)
    except AnswerLies as error:
        logger.warning("subject %s: the node's answer is not believed: %s", subject_id, error)
        return
    fence.check()
    subject_seen(subject_id, seen)


def _record_absence(fence: Fence, subject_id: int) -> None:
    rows = fence.guard(Subject.objects.filter(pk=subject_id, state=states.SUBJECT_LIVE))
    if rows.update(
        state=states.SUBJECT_UNKNOWN,
        observed_at=Now(),
        explanation=say("the node has no record of this subject; was its home emptied?"),
    ):
        moved = {"subject_id": subject_id, "state": states.SUBJECT_UNKNOWN}
        signals.subject_moved.send(sender=Subject, **moved)


def record_complete(fence: Fence, stream_id: int) -> None:
    """The subject ended and every byte of its output is stored."""
    rows = fence.guard(LogStream.objects.filter(pk=stream_id, is_complete=False))
    if rows.update(is_complete=True, captured_at=Now()):
        signals.stream_grew.send(sender=LogStream, stream_id=stream_id)


def record_heartbeat(fence: Fence, stream_ids: Iterable[int]) -> None:
    """These streams are being captured, whether or not they say something."""
    rows = LogStream.objects.filter(pk__in=list(stream_ids), is_complete=False)
    fence.guard(rows).update(captured_at=Now())


def record_scrape(fence: Fence, scrape_id: int, result: Scraped) -> None:
    """Write the result of a scrape; a failure counts up, a success starts anew."""
    scrape = Scrape.objects.filter(pk=scrape_id).first()
    if scrape is None:
        return
    fields: dict[str, Any] = {
        "tried_at": Now(),
        "status": result.status,
        "latency_ms": result.latency_ms,
        "error": said_within(result.error, _EXPLANATION_CAP),
        "found": result.found,
        "misses": 0 if result.is_ok else scrape.misses + 1,
    }
    if result.is_ok:
        fields["ok_at"] = Now()
    if result.values:
        fields["values"] = result.values
        if token_counters(result.values) != token_counters(scrape.values):
            fields["progress_at"] = Now()
    if result.is_ok and scrape.kind == Scrape.Kind.EXCHANGE:
        fields["answer"] = result.answer
    if fence.guard(Scrape.objects.filter(pk=scrape_id)).update(**fields):
        topic = scrape.topic if _is_news(scrape, result) else ""
        settled = {"scrape_id": scrape_id, "is_ok": result.is_ok, "topic": topic}
        signals.scrape_settled.send(sender=Scrape, **settled)


def _is_news(scrape: Scrape, result: Scraped) -> bool:
    """A first failure, an answer after failures, or another answer than before."""
    if not result.is_ok:
        return scrape.misses == 0
    return scrape.misses > 0 or result.answer != scrape.answer
