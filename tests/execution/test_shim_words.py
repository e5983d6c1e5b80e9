"""The shim's own sentences are known, translatable, and found again in what a node answers."""

import re

import pytest

from fleet.execution import wire
from fleet.execution.message import said
from fleet.execution.shim_words import SENTENCES, sentence_of

_SPOKEN = re.compile(
    r'(?:\b(?:die \S+|refuse|why=|doubt=) ?)"((?:[^"$]|\$\w+|\$\{\w+:-\w+\}|\$\(plain "[^"]*"\))+)"'
)
_VARIABLE = re.compile(r'\$\(plain "[^"]*"\)|\$\{\w+[^}]*\}|\$\w+')


def spoken() -> list[str]:
    """Every sentence of the shim, with a word in the place of each variable."""
    text = wire.shim_text().decode()
    found = [_VARIABLE.sub("x1", sentence) for sentence in _SPOKEN.findall(text)]
    return [sentence for sentence in found if sentence not in ("x1", "")]


def test_the_shim_is_read():
    assert len(spoken()) > 35


@pytest.mark.parametrize("sentence", sorted(set(spoken())))
def test_every_sentence_of_the_shim_is_known(sentence):
    assert any(
        re.fullmatch(re.sub(r"%\\\(\w+\\\)s", ".*", re.escape(pattern)), sentence)
        for pattern in SENTENCES
    )


def test_a_sentence_with_facts_is_read_in_another_language():
    stored = sentence_of("its process 4711 is gone and no exit code was recorded")
    pattern = "its process %(pid)s is gone and no exit code was recorded"
    chinese = {pattern: "进程 %(pid)s 已消失"}
    assert said(stored) == "its process 4711 is gone and no exit code was recorded"
    assert said(stored, lambda text: chinese.get(text, text)) == "进程 4711 已消失"


@pytest.mark.parametrize("words", ["", "rm: no", "%(pid)s %s", "container a is b\nc"])
def test_foreign_words_pass_through(words):
    assert sentence_of(words) == words


def test_words_of_a_node_never_pass_for_a_sentence_of_ours():
    forged = '%(a)900000000s\x1f{"a": 1}'
    assert len(said(sentence_of(forged))) < 100
