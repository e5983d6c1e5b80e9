"""What a person edits of a release, as text and back."""

import pytest

from fleet.rules.message import said
from releases.rules.content import content_problems
from releases.rules.draft import PIN_FIELDS, BadField, blank_content, draft_content, draft_fields
from tests.contents import CONTENT, content_with

PROMPT = '[{"id": "a", "messages": [{"role": "user", "content": %s}], "expect": "y"}]'


def test_what_is_not_edited_comes_back_as_it_was():
    assert draft_content(draft_fields(CONTENT), CONTENT) == CONTENT


def test_a_field_that_is_not_posted_stays():
    assert draft_content({"args": "--max-num-seqs 24"}, CONTENT) == content_with(
        "args", [["--max-num-seqs", "24"]]
    )


def test_an_emptied_pin_is_kept_as_empty_and_blocks_the_seal():
    content = draft_content({"image.digest": "  "}, CONTENT)
    assert [problem.where for problem in content_problems(content)] == ["image.digest"]


def test_a_piece_that_was_never_there_can_be_filled_in():
    bare = content_with("platform", None)
    fields = {"platform.driver": "570.172.08", "platform.vbios": "96.00.89.00.01"}
    assert draft_content(fields, bare) == CONTENT | {"platform": CONTENT["platform"]}


def test_sizes_are_numbers_and_what_is_none_is_named_by_the_seal():
    fields = {"shape.tp": "4", "shape.pp": "x", "shape.gpus": "0, 1,b", "shape.ep": "yes"}
    shape = draft_content(fields, CONTENT)["shape"]
    assert (shape["tp"], shape["pp"], shape["gpus"], shape["ep"]) == (4, "x", [0, 1, "b"], True)
    assert "gpus" not in draft_content({"shape.gpus": ""}, CONTENT)["shape"]


def test_a_first_draft_lacks_every_pin_and_nothing_of_its_shape():
    blank = blank_content(2, 8)
    assert draft_content(draft_fields(blank), blank).keys() == CONTENT.keys()
    named = [problem.where for problem in content_problems(blank)]
    assert named == [*PIN_FIELDS, "golden"]


def test_lines_are_flags_and_variables():
    content = draft_content(
        {"args": '\n --enable-prefix-caching \r\n--rope {"a":1}\n', "env": "A=b=c\n\n"}, CONTENT
    )
    assert content["args"] == [["--enable-prefix-caching", None], ["--rope", '{"a":1}']]
    assert content["env"] == {"A": "b=c"}


@pytest.mark.parametrize(
    ("field", "text", "words"),
    [
        ("args", "max-model-len 9", "found max-model-len 9"),
        ("env", "NCCL_DEBUG", "found NCCL_DEBUG"),
        ("golden", "[nope", "expected JSON"),
        ("golden", "[" * 100_000, "expected JSON"),
        ("golden", '{"id": "a"}', "expected a list"),
        ("golden", '[{"id": "a", "messages": "x", "expect": "y"}]', "expected a list"),
        ("golden", PROMPT % r'"\u0000"', "without NUL"),
        ("golden", PROMPT % r'"\ud83d"', "whole characters"),
        ("golden", PROMPT % "NaN", "finite numbers"),
        ("golden", PROMPT % "1e999", "finite numbers"),
        ("golden", PROMPT % ("[" * 200 + "]" * 200), "at most 12 levels"),
    ],
)
def test_what_cannot_be_read_is_named(field, text, words):
    with pytest.raises(BadField) as caught:
        draft_content({field: text}, CONTENT)
    assert words in said(caught.value.sentence)
