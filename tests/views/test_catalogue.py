import re

import pytest

from console import catalogues, messages
from tests.views.conftest import ROOT
from tests.views.template_text import unwrapped

_HOLDER = re.compile(r"%\((\w+)\)[sd]|\{(\w+)\}")
TEMPLATES = sorted((ROOT / "templates").rglob("*.html"))


def test_it_has_chinese_words_for_every_message():
    assert [message.text for message in messages.missing("zh_Hans")] == []


def test_it_has_no_fuzzy_entry():
    assert "#, fuzzy" not in messages.catalogue_path("zh_Hans").read_text(encoding="utf-8")


def test_it_keeps_every_placeholder():
    done = catalogues.parse(messages.catalogue_path("zh_Hans").read_text(encoding="utf-8"))
    wrong = [
        message.text
        for message in messages.collect()
        if set(_HOLDER.findall(message.text))
        != set(_HOLDER.findall(done.get(message.key, message.text)))
    ]
    assert wrong == []


@pytest.mark.parametrize(
    "path", TEMPLATES, ids=lambda path: path.relative_to(ROOT / "templates").as_posix()
)
def test_it_wraps_every_visible_text(path):
    assert unwrapped(path.read_text(encoding="utf-8")) == []


def test_it_notices_text_that_is_not_wrapped():
    assert unwrapped('<p title="Stop it">{% translate "ok" %} Danger</p>') == [
        "Stop",
        "it",
        "Danger",
    ]


def test_it_lets_wrapped_text_and_names_pass():
    text = '{% blocktranslate %}Any words{% endblocktranslate %}<kbd>Ctrl K</kbd><b lang="zh">中文</b> UTC'
    assert unwrapped(text) == []


def test_it_collects_stored_sentences_and_plurals(tmp_path):
    (tmp_path / "templates").mkdir()
    (tmp_path / "templates" / "a.html").write_text(
        '{% load i18n %}{% translate "One" %}{% blocktranslate count n=n %}{{ n }} x{% plural %}'
        "{{ n }} xs{% endblocktranslate %}"
    )
    (tmp_path / "fleet").mkdir()
    (tmp_path / "fleet" / "a.py").write_text(
        'from x import say\nWHY = "Why %(n)s"\nsay(WHY)\nsay("Two")\n'
    )
    found = {message.text for message in messages.collect(tmp_path)} - set(messages.STATE_WORDS)
    assert found == {"One", "%(n)s x", "Why %(n)s", "Two"}
