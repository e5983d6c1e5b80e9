import json

from fleet.execution.log_format import Line, LineFacts, pack_row
from fleet.log_wire import FRAME_BYTES, frames, taker, wire_lines
from fleet.rules.log_filter import parse_filter


def _rows(*texts: str, rank: int | None = 3) -> bytes:
    return b"".join(
        pack_row(Line(n, 0, 1000 + n, LineFacts(rank, "I", "NET"), text))
        for n, text in enumerate(texts, 1)
    )


def test_a_line_is_its_number_time_rank_level_part_and_text() -> None:
    lines = wire_lines(_rows('say "hi"\t\\ 中'), 7)
    assert json.loads(lines[0].json) == [7, 1001, 3, "I", "NET", 'say "hi"\t\\ 中']
    assert json.loads(wire_lines(_rows("x", rank=None), 1, 500)[0].json)[1:3] == [1501, None]


def test_one_line_with_a_control_changes_no_other() -> None:
    lines = wire_lines(_rows("plain", "\x1b[1mbold\x1b[0m \x07", "plain too"), 1)
    assert [json.loads(line.json)[5] for line in lines] == [
        "plain",
        [["bold", True], [" ␇", False]],
        "plain too",
    ]
    assert [line.text for line in lines] == ["plain", "bold ␇", "plain too"]


def test_frames_cover_every_line_and_stay_small() -> None:
    lines = wire_lines(_rows(*["中" * 5000 for _ in range(40)]), 1)
    found = [json.loads(text) for text in frames(9, lines)]
    assert all(len(text.encode()) <= FRAME_BYTES for text in frames(9, lines))
    assert [f["first_line"] for f in found][1:] == [f["first_line"] + f["count"] for f in found][
        :-1
    ]
    assert sum(f["count"] for f in found) == 40


def test_a_filtered_frame_counts_what_it_holds_back() -> None:
    lines = wire_lines(_rows("a", "b wanted", "c"), 11)
    (found,) = [json.loads(text) for text in frames(9, lines, taker(parse_filter({"q": "WANTED"})))]
    assert (found["first_line"], found["count"]) == (11, 3)
    assert [line[0] for line in found["lines"]] == [12]
    (none,) = frames(9, lines, taker(parse_filter({"rank": "5"})))
    assert json.loads(none)["count"] == 3
    assert taker(parse_filter({})) is None
