import re
from typing import NamedTuple

from fleet.rules.log_folds import fold_lines


class _Line(NamedTuple):
    at_ms: int
    rank: int | None
    level: str
    text: str


def _same(text: str, level: str) -> str:
    return re.sub(r"\d+", "#", text)


def _shape(*lines: _Line) -> list[tuple[str, list[int]]]:
    return [(row.line.text, row.ranks) for row in fold_lines(lines, _same)]


def test_it_folds_the_same_message_of_other_ranks_and_names_them() -> None:
    lines = [_Line(1000 + rank, rank, "E", f"[rank{rank}] timeout") for rank in (8, 12, 9)]
    assert _shape(*lines) == [("[rank8] timeout", [9, 12])]
    assert fold_lines(lines, _same)[0].within_s == 1


def test_it_does_not_fold_after_5_s_nor_the_same_rank_again() -> None:
    assert _shape(
        _Line(0, 1, "I", "a 1"),
        _Line(100, 1, "I", "a 2"),
        _Line(5101, 2, "I", "a 3"),
    ) == [("a 1", []), ("a 2", []), ("a 3", [])]
    assert _shape(_Line(0, 1, "I", "a"), _Line(5000, 2, "I", "a")) == [("a", [2])]
    assert fold_lines([_Line(0, 1, "I", "a"), _Line(4500, 2, "I", "a")], _same)[0].within_s == 5


def test_an_error_never_folds_into_a_line_of_another_level() -> None:
    assert _shape(_Line(0, 1, "W", "x"), _Line(1, 2, "E", "x"), _Line(2, 3, "E", "x")) == [
        ("x", []),
        ("x", [3]),
    ]


def test_lines_between_stay_and_lines_without_rank_never_fold() -> None:
    assert _shape(
        _Line(0, 1, "I", "a"),
        _Line(1, None, "I", "b"),
        _Line(2, 2, "I", "a"),
        _Line(3, None, "I", "b"),
    ) == [("a", [2]), ("b", []), ("b", [])]
