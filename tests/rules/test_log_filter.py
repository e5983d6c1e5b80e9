import pytest

from fleet.rules.log_filter import LogFilter, parse_filter


@pytest.mark.parametrize(
    "query",
    [
        "",
        "level=warn",
        "level=error&rank=8%2C11&sub=COLL%2CNET&q=made+no+progress",
        "rank=3%2C-",
        "q=%2Fa.%2Bb%2F",
    ],
)
def test_the_address_carries_the_filter_both_ways(query: str) -> None:
    from urllib.parse import parse_qsl

    assert parse_filter(dict(parse_qsl(query))).query() == query


def test_it_leaves_out_what_it_cannot_read() -> None:
    found = parse_filter({"level": "loud", "rank": "x,-1,7,999999999,³", "sub": ",,", "q": "a\0b"})
    assert found == LogFilter(ranks=frozenset({7}), text="ab")


@pytest.mark.parametrize(
    ("query", "passes"),
    [
        ({}, True),
        ({"level": "warn"}, True),
        ({"level": "error"}, False),
        ({"rank": "11"}, True),
        ({"rank": "1"}, False),
        ({"rank": "-"}, False),
        ({"sub": "NET,COLL"}, True),
        ({"sub": "COLL"}, False),
        ({"q": "NO PROGRESS"}, True),
        ({"q": "bold red"}, True),
        ({"q": "absent"}, False),
    ],
)
def test_a_line_passes_only_when_every_part_takes_it(query: dict[str, str], passes: bool) -> None:
    line = (11, "W", "NET", "peer made no progress \x1b[1mbold\x1b[0m red")
    assert parse_filter(query).takes(*line) is passes


def test_slashes_make_a_regular_expression_of_the_text() -> None:
    assert parse_filter({"q": "/opCount [0-9a-f]+/"}).pattern == "opCount [0-9a-f]+"
    assert parse_filter({"q": "/"}).pattern == ""
    assert parse_filter({"q": "//"}).needle == "//"
    assert parse_filter({"q": "/x/"}).without("text") == LogFilter()
