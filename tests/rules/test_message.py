"""Stored sentences: encoded once, read in any language, never a way in for words of a node."""

import pytest

from fleet.rules.message import said, say, say_all

CHINESE = {"%(node)s: %(why)s": "%(node)s：%(why)s", "no answer in time": "未及时应答"}


def to_chinese(text: str) -> str:
    return CHINESE.get(text, text)


def test_a_sentence_within_a_sentence_is_read_in_the_readers_language():
    stored = say("%(node)s: %(why)s", node="gpu07", why=say("no answer in time"))
    assert said(stored) == "gpu07: no answer in time"
    assert said(stored, to_chinese) == "gpu07：未及时应答"


@pytest.mark.parametrize("text", ["", "100 % done", "%(a)s", "plain"])
def test_plain_text_comes_back_as_it_is(text):
    assert said(text) == text


@pytest.mark.parametrize(
    "pattern", ["%(a)900000000s", "%(a).900000000f", "%900000000d", "%(a)s %", "%(a)*s"]
)
def test_a_forged_pattern_is_not_carried_out(pattern):
    assert said(f'{pattern}\x1f{{"a": 1}}') == f'{pattern} {{"a": 1}}'


@pytest.mark.parametrize("params", ["", "[1]", "{", '{"b": 1}', "null", "{}"])
def test_broken_parameters_leave_the_words(params):
    assert said(f"%(a)s\x1f{params}").startswith("%(a)s ")


def test_several_sentences_are_said_one_after_the_other_each_translated():
    words = {"%(n)s nodes.": "%(n)s 个节点。", "It waits.": "等待。"}
    together = say_all([say("%(n)s nodes.", n=2), "It waits.", "100 % plain"])
    assert said(together) == "2 nodes. It waits. 100 % plain"
    assert said(together, lambda text: words.get(text, text)) == "2 个节点。 等待。 100 % plain"
    assert say_all([]) == ""
    assert say_all(["It waits."]) == "It waits."
