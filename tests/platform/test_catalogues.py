"""Catalogues compiled without GNU gettext are read by Python's own gettext."""

import gettext
import io

import pytest

from console import catalogues

SOURCE = r"""
msgid ""
msgstr ""
"Content-Type: text/plain; charset=UTF-8\n"
"Plural-Forms: nplurals=2; plural=(n != 1);\n"

#: fleet/views.py:1
msgid "Stop the unit"
msgstr "停止该单元"

msgctxt "verb"
msgid "Probe"
msgstr ""
"探"
"测 \"now\""

msgid "%(n)s node"
msgid_plural "%(n)s nodes"
msgstr[0] "%(n)s 个节点"
msgstr[1] "%(n)s 个节点们"

#, fuzzy
msgid "Guess"
msgstr "猜"

msgid "Untranslated"
msgstr ""
"""


@pytest.fixture
def translations():
    return gettext.GNUTranslations(io.BytesIO(catalogues.encode(catalogues.parse(SOURCE))))


def test_it_translates_contexts_plurals_and_joined_lines(translations):
    assert translations.gettext("Stop the unit") == "停止该单元"
    assert translations.pgettext("verb", "Probe") == '探测 "now"'
    assert translations.ngettext("%(n)s node", "%(n)s nodes", 5) == "%(n)s 个节点们"


def test_it_leaves_out_fuzzy_and_empty_messages(translations):
    assert translations.gettext("Guess") == "Guess"
    assert translations.gettext("Untranslated") == "Untranslated"


def test_it_names_the_line_that_it_cannot_read():
    with pytest.raises(ValueError, match="zh:3: expected a keyword"):
        catalogues.parse('msgid "a"\nmsgstr "b"\nmsgstr "open\n', "zh")


def test_it_compiles_only_what_changed(tmp_path):
    folder = tmp_path / "zh_Hans" / "LC_MESSAGES"
    folder.mkdir(parents=True)
    (folder / "django.po").write_text(SOURCE, encoding="utf-8")
    assert catalogues.compile_all(tmp_path) == [folder / "django.mo"]
    assert catalogues.compile_all(tmp_path) == []
