"""Answers are deterministic, follow their rules, and are cut into tokens that join again."""

import pytest

from fleet.lab import golden
from fleet.lab.engine import tokens
from fleet.lab.engine.completions import cut_at_stop
from fleet.lab.engine.generation import PrefixCache


def say(text: str, revision: str = "a" * 40) -> str:
    return golden.answer("glm", revision, [{"role": "user", "content": text}])


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("What is 17 + 25?", "17 + 25 = 42"),
        ("请计算 12 × 12 等于多少", "12 × 12 = 144"),
        ("7 / 2", "7 / 2 = 3 remainder 1"),
        ("7 ÷ 0", "7 ÷ 0 is undefined"),
        ("Repeat exactly: a  b\n  c", "a  b\n  c"),
        ("请原样重复：三 + 3", "三 + 3"),
        ("Noise. The code word is tin-4. Noise. What is the code word?", "tin-4"),
        ("杂音。暗号是 青竹 。杂音。暗号是什么？", "青竹"),
    ],
)
def test_the_rules(question: str, expected: str) -> None:
    assert say(question) == expected


def test_filler_depends_on_text_and_revision_and_nothing_else() -> None:
    assert say("Tell me about racks.") == say("Tell me about racks.")
    assert say("Tell me about racks.") != say("Tell me about fans.")
    assert say("Tell me about racks.") != say("Tell me about racks.", revision="b" * 40)


def test_a_code_word_of_an_earlier_message_counts() -> None:
    messages = [
        {"role": "system", "content": "The code word is elm."},
        {"role": "user", "content": [{"type": "text", "text": "What is the code word?"}]},
    ]
    assert golden.answer("m", "r", messages) == "elm"


def test_the_prompts_expect_what_is_answered() -> None:
    prompts = golden.golden_prompts("glm", "c" * 40, 10)
    assert len({prompt["id"] for prompt in prompts}) == 10
    assert {prompt["class"] for prompt in prompts} == {"maths", "zh", "en", "needle", "echo"}
    for prompt in prompts:
        assert golden.answer("glm", "c" * 40, prompt["messages"]) == prompt["expect"]
    needle = next(prompt for prompt in prompts if prompt["class"] == "needle")
    assert needle["expect"].startswith("amber-")


@pytest.mark.parametrize(
    "text", ["", "a", "internationalisation 12345", "中文 mixed,  with\n\n 🚢 "]
)
def test_tokens_join_to_their_text(text: str) -> None:
    pieces = tokens.split(text)
    assert "".join(pieces) == text
    assert tokens.count(text) == len(pieces)


def test_tokens_are_short() -> None:
    assert tokens.split("机柜ok") == ["机", "柜", "ok"]
    assert tokens.split("queueing!") == ["queu", "eing", "!"]


def test_text_is_cut_before_the_first_stop_word() -> None:
    assert cut_at_stop("one two three", ["three", "two"]) == "one "
    assert cut_at_stop("one two three", None) == "one two three"
    assert cut_at_stop("one", "") == "one"


def test_the_prefix_cache_hits_whole_blocks_of_an_unbroken_opening() -> None:
    cache = PrefixCache()
    opening = [str(number) for number in range(128)]
    assert cache.hit([*opening, "x"]) == 0
    assert cache.hit([*opening, "y"]) == 128
    assert cache.hit(["z", *opening]) == 0
    assert cache.hit(opening) == 64
