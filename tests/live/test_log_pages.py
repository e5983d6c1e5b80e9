import time

import pytest

from fleet.execution.log_format import Line, LineFacts
from fleet.execution.models import Host, LogStream, Subject
from fleet.execution.watch_lease import lease_claim
from fleet.execution.watch_store import ChunkWriter, open_writer
from fleet.rules.log_filter import LogFilter, parse_filter
from fleet.selectors import logs
from fleet.selectors.log_search import BadPattern, SlowPattern, match_lines
from fleet.selectors.logs import LogSource

pytestmark = pytest.mark.django_db(transaction=True)

T0 = 1_764_441_000_000
ALL = LogFilter()


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy machine must not cut a search short here; what a slow one looks like has tests of its own."""
    monkeypatch.setattr(logs, "SEARCH_S", 60.0)
    monkeypatch.setattr(logs, "_LONGEST_MATCH_S", 30.0)


@pytest.fixture
def sources() -> list[LogSource]:
    """Two nodes whose lines alternate: 0.1 at T0, 1.1 at T0+1, 0.2 at T0+2 ...; rank = line % 8 (+ 8)."""
    fence = lease_claim("test")
    assert fence is not None
    found = []
    for position in (0, 1):
        host = Host.objects.create(name=f"h{position}", address="127.0.13.1", user="fleet")
        subject = Subject.objects.create(host=host, name=f"s{position}", state="live")
        stream = LogStream.objects.create(subject=subject)
        writer, _ = open_writer(stream.pk, fence)
        _write(writer, position, 3000)
        ranks = tuple(range(position * 8, position * 8 + 8))
        found.append(LogSource(stream.pk, position, host.name, ranks))
    return found


def _write(writer: ChunkWriter, position: int, count: int) -> None:
    lines = []
    for n in range(1, count + 1):
        level = "E" if n == 777 else "W" if n % 1000 == 0 else "I"
        facts = LineFacts(n % 8 + position * 8, level, "NET" if n % 2 else "COLL")
        text = f"line {n} of {position}" + (" NEEDLE" if n in (5, 1500) else "") + " x" * 60
        lines.append(Line(n, n * 100, T0 + 2 * (n - 1) + position, facts, text))
    writer.write(lines)


def _keys(page: logs.LogPage) -> list[str]:
    return [one.key for one in page.lines]


def test_the_newest_lines_are_merged_by_time_then_position(sources: list[LogSource]) -> None:
    page = logs.page_before(sources, {}, ALL, 5)
    assert _keys(page) == ["0.2998", "1.2998", "0.2999", "1.2999", "0.3000", "1.3000"][1:]
    assert page.has_older
    assert not page.has_newer
    assert page.after == {s.stream_id: 3000 for s in sources}


def test_walking_back_and_forth_shows_every_line_once(sources: list[LogSource]) -> None:
    seen: list[str] = []
    page = logs.page_before(sources, {}, ALL, 700)
    while True:
        seen = _keys(page) + seen
        if not page.has_older:
            break
        page = logs.page_before(sources, page.before, ALL, 700)
    expected = [f"{p}.{n}" for n in range(1, 3001) for p in (0, 1)]
    assert seen == expected
    forth: list[str] = []
    page = logs.page_after(sources, {}, ALL, 900)
    while page.lines:
        forth += _keys(page)
        page = logs.page_after(sources, page.after, ALL, 900)
    assert forth == expected
    assert not page.has_newer


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ({"level": "error"}, ["0.777", "1.777"]),
        ({"level": "warn", "rank": "8"}, ["1.1000", "1.2000", "1.3000"]),
        ({"q": "needle"}, ["0.5", "1.5", "0.1500", "1.1500"]),
        ({"q": "/line 15(00|01) of 1\\b/"}, ["1.1500", "1.1501"]),
        ({"q": "needle", "sub": "NET"}, ["0.5", "1.5"]),
        ({"rank": "99"}, []),
    ],
)
def test_a_filter_finds_the_same_lines_from_both_ends(
    sources: list[LogSource], query: dict[str, str], found: list[str]
) -> None:
    wanted = parse_filter(query)
    newest = logs.page_before(sources, {}, wanted)
    assert _keys(newest) == found
    assert not newest.has_older
    assert _keys(logs.page_after(sources, {}, wanted)) == found


def test_a_page_opens_around_a_line_even_when_the_filter_hides_it(sources: list[LogSource]) -> None:
    page = logs.page_around(sources, 1, 777, ALL, 6)
    assert page is not None
    assert _keys(page) == ["0.776", "1.776", "0.777", "1.777", "0.778", "1.778", "0.779"]
    hidden = logs.page_around(sources, 0, 778, parse_filter({"level": "error"}), 6)
    assert hidden is not None
    assert _keys(hidden) == ["0.777", "1.777", "0.778"]
    assert logs.page_around(sources, 0, 9999, ALL) is None
    assert logs.page_around(sources, 7, 1, ALL) is None


def test_a_hostile_expression_is_stopped_by_the_clock() -> None:
    texts = ["a" * 16000 + "!"] * 50
    begun = time.monotonic()
    with pytest.raises(SlowPattern):
        match_lines(r"^(a+)(a+)(a+)\1\2\3a!$", texts, 0.2)
    assert time.monotonic() - begun < 10
    assert match_lines("a", ["b", "a"], 1.0) == [1]  # the connection goes on


def test_an_expression_that_does_not_parse_is_explained() -> None:
    with pytest.raises(BadPattern, match="invalid regular expression"):
        match_lines("(", ["a"], 1.0)
    assert match_lines(r"\bword\b", ["a word here", "swords"], 1.0) == [0]
