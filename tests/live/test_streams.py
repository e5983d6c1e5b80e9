import datetime as dt

import pytest

from fleet.execution import streams, watch_lease
from fleet.execution.log_format import Line, LineFacts
from fleet.execution.models import Host, LogChunk, LogStream, Subject
from fleet.execution.watch_store import Superseded, open_writer

pytestmark = pytest.mark.django_db(transaction=True)

T0 = 1_764_441_000_000


@pytest.fixture
def stream() -> LogStream:
    host = Host.objects.create(name="h1", address="127.0.13.1", user="fleet")
    subject = Subject.objects.create(host=host, name="ln-0001-n0", state="live")
    return LogStream.objects.create(subject=subject)


@pytest.fixture
def fence() -> watch_lease.Fence:
    held = watch_lease.lease_claim("me")
    assert held is not None
    return held


def _lines(first: int, last: int, *, size: int = 40, level: str = "I") -> list[Line]:
    text = "x" * size
    return [
        Line(n, n * 50, T0 + n, LineFacts(n % 8, level, "ENG"), f"{n} {text}")
        for n in range(first, last + 1)
    ]


def test_it_grows_the_last_chunk_until_it_is_full_and_loses_no_line(
    stream: LogStream, fence: watch_lease.Fence
) -> None:
    writer, _ = open_writer(stream.pk, fence)
    for first in range(1, 5001, 100):
        writer.write(_lines(first, first + 99))
    chunks = list(LogChunk.objects.filter(stream=stream))
    assert [c.first_line for c in chunks[1:]] == [c.first_line + c.line_count for c in chunks[:-1]]
    assert [c.offset for c in chunks[1:]] == [c.end_offset for c in chunks[:-1]]
    assert len(chunks) > 3
    found = streams.lines_after(stream, 0, 10_000)
    assert [line.number for line in found] == list(range(1, 5001))
    assert found[4998].text == f"4999 {'x' * 40}"
    assert found[0].at == dt.datetime.fromtimestamp((T0 + 1) / 1000, dt.UTC)
    stream.refresh_from_db()
    assert (stream.line_count, stream.end_offset) == (5000, 250_000)


def test_it_finds_lines_by_number_in_both_directions(
    stream: LogStream, fence: watch_lease.Fence
) -> None:
    writer, _ = open_writer(stream.pk, fence)
    writer.write(_lines(1, 3000))
    for line, limit in ((0, 5), (1, 1), (1500, 700), (2999, 10), (3000, 10)):
        after = [one.number for one in streams.lines_after(stream, line, limit)]
        assert after == list(range(line + 1, min(3000, line + limit) + 1))
        before = [one.number for one in streams.lines_before(stream, line, limit)]
        assert before == list(range(max(1, line - limit), line))
    one = streams.line_at(stream, 2718)
    assert one is not None
    assert one.text.startswith("2718 ")
    assert streams.line_at(stream, 3001) is None


def test_a_resumed_writer_goes_on_in_the_same_chunk_and_counts_levels(
    stream: LogStream, fence: watch_lease.Fence
) -> None:
    writer, texts = open_writer(stream.pk, fence)
    assert texts == []
    writer.write(_lines(1, 10))
    resumed, texts = open_writer(stream.pk, fence)
    assert [text.split()[0] for text in texts] == [str(n) for n in range(1, 11)]
    resumed.write(_lines(11, 12, level="E") + _lines(13, 13, level="W"))
    chunk = LogChunk.objects.get(stream=stream)
    assert (chunk.line_count, chunk.error_count, chunk.warn_count) == (13, 2, 1)
    assert chunk.rank_counts["3"] == [2, 0, 1]
    stream.refresh_from_db()
    assert (stream.error_count, stream.warn_count, stream.first_error_line) == (2, 1, 11)
    assert streams.line_at(stream, 11).level == "E"


def test_a_writer_that_is_behind_changes_nothing(
    stream: LogStream, fence: watch_lease.Fence
) -> None:
    late, _ = open_writer(stream.pk, fence)
    quick, _ = open_writer(stream.pk, fence)
    quick.write(_lines(1, 10))
    with pytest.raises(Superseded):
        late.write(_lines(1, 12))
    assert [line.number for line in streams.lines_after(stream, 0, 99)] == list(range(1, 11))


def test_a_writer_without_the_lease_changes_nothing(
    stream: LogStream, fence: watch_lease.Fence
) -> None:
    old, _ = open_writer(stream.pk, fence)
    assert watch_lease.lease_claim("other") is None
    fence.release()
    newer = watch_lease.lease_claim("other")
    assert newer is not None
    assert newer.number > fence.number
    with pytest.raises(Superseded):
        old.write(_lines(1, 2))
    with pytest.raises(watch_lease.LeaseLost):
        fence.renew()
    new, _ = open_writer(stream.pk, newer)
    new.write(_lines(1, 3))
    assert LogStream.objects.get().line_count == 3


def test_a_new_epoch_starts_at_offset_0_and_numbers_go_on(
    stream: LogStream, fence: watch_lease.Fence
) -> None:
    writer, _ = open_writer(stream.pk, fence)
    writer.write(_lines(1, 5))
    mark = Line(6, 0, T0 + 6, LineFacts(None, "W", "WATCH"), "the file was cut")
    writer.write([mark, Line(7, 30, T0 + 7, LineFacts(), "new")], writer.position.next_epoch(0))
    chunks = list(LogChunk.objects.order_by("first_line"))
    assert [(c.epoch, c.offset, c.first_line) for c in chunks] == [(0, 0, 1), (1, 0, 6)]
    assert [line.text for line in streams.lines_after(stream, 5, 9)] == ["the file was cut", "new"]
