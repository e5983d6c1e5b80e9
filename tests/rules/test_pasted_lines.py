from fleet.readings.report import Finding, Report
from fleet.rules.pasted_lines import (
    HEAD_LINES,
    NAMED_LINES,
    RUN_LINES,
    TAIL_LINES,
    WHOLE_LINES,
    Span,
    line_count,
    lines_of,
    marks_of,
    runs,
    spans,
)


def report(*findings: Finding, unread: tuple[int, ...] = ()) -> Report:
    return Report("topo", "matrix", True, "unknown", "", findings, {}, unread)


def test_lines_are_counted_as_the_readings_count_them():
    assert [line_count(raw) for raw in (b"", b"a", b"a\n", b"a\n\n", b"a\r\nb")] == [0, 1, 1, 2, 2]


def test_a_short_text_is_drawn_whole():
    assert spans(0, []) == []
    assert spans(WHOLE_LINES, [3]) == [Span(1, WHOLE_LINES, True)]


def test_of_a_long_text_both_ends_and_each_marked_line_are_drawn():
    found = spans(100_000, [50_000, 50_004, 99_999])
    assert found == [
        Span(1, HEAD_LINES, True),
        Span(HEAD_LINES + 1, 49_997, False),
        Span(49_998, 50_002, True),
        Span(50_003, 50_006, True),
        Span(50_007, 100_000 - TAIL_LINES, False),
        Span(100_001 - TAIL_LINES, 100_000, True),
    ]


def test_every_line_is_in_exactly_one_span():
    for marked in ([1], [61, 62, 63], [958, 1000], [0, 1001, -4], list(range(1, 1001, 7))):
        found = spans(1000, marked)
        assert [n for s in found for n in range(s.first, s.last + 1)] == list(range(1, 1001))


def test_lines_keep_their_numbers():
    raw = b"".join(b"line %d\r\n" % n for n in range(1, 1001))
    got = list(lines_of(raw, spans(1000, [500])))
    assert (500, b"line 500") in got
    assert all(text == b"line %d" % n for n, text in got)
    assert len(got) == HEAD_LINES + TAIL_LINES + 5


def test_the_worst_word_of_a_line_stands():
    found = marks_of(
        report(
            Finding("a", "info", "", (1, 2)),
            Finding("b", "error", "", (2,)),
            Finding("c", "warn", "", (2, 3)),
            unread=(3, 4),
        )
    )
    assert found == {1: "info", 2: "error", 3: "warn", 4: "unread"}


def test_a_finding_of_many_lines_marks_the_first():
    found = marks_of(report(Finding("a", "warn", "", tuple(range(1, 201)))))
    assert sorted(found) == list(range(1, NAMED_LINES + 1))


def lines(*texts: str) -> list[tuple[int, str]]:
    return list(enumerate(texts, 1))


def test_a_long_run_of_the_same_form_is_one_fold_between_its_first_and_last():
    rows = lines("head", *(f"rank {n} on node" for n in range(16)), "tail")
    assert runs(rows, []) == [(2, 15)]


def test_a_short_run_blank_lines_and_a_gap_make_no_fold():
    assert runs(lines(*(f"rank {n}" for n in range(RUN_LINES - 1))), []) == []
    assert runs(lines(*[""] * 40), []) == []
    parted = [(n if n < 8 else n + 100, f"rank {n}") for n in range(1, 16)]
    assert runs(parted, []) == []


def test_a_marked_line_is_in_no_fold():
    rows = lines(*(f"rank {n}" for n in range(40)))
    folds = runs(rows, [20])
    assert folds == [(1, 17), (21, 38)]
