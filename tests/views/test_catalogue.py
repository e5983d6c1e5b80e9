import ast
import re

import pytest

from console import catalogues, messages
from tests.views.conftest import ROOT
from tests.views.template_text import unwrapped

_HOLDER = re.compile(r"%\((\w+)\)[sd]|\{(\w+)\}")
# Where a text that was collected elsewhere is said: a table of sentences, or a word of a state machine.
SAYS_WORDS = {
    "fleet/execution/message.py",
    "fleet/execution/shim_words.py",
    "fleet/readings/told.py",
    "releases/services/releases.py",
    "releases/services/rollout_facts.py",
    "runbooks/services/incidents.py",
}
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


def test_no_sentence_stands_where_the_collector_cannot_see_it():
    """What say() and tell() get is a text or a constant of the module: anything else stays English for ever."""
    assert [
        place for place in _hidden_sentences() if place.partition(":")[0] not in SAYS_WORDS
    ] == []


def _hidden_sentences() -> list[str]:
    collected = {place for places in messages.collect().values() for place in places}
    found = []
    for path in sorted(path for app in messages.APPS for path in (ROOT / app).rglob("*.py")):
        name = path.relative_to(ROOT).as_posix()
        if not name.startswith(messages._UNTRANSLATED):
            tree = ast.parse(path.read_text(encoding="utf-8"))
            found += [f"{name}:{node.lineno}" for node in ast.walk(tree) if _says(node)]
    return sorted(set(found) - collected)


def _says(node: ast.AST) -> bool:
    is_call = isinstance(node, ast.Call) and bool(node.args)
    return is_call and getattr(node.func, "id", "") in {"say", "tell"}


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
