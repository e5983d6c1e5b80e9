"""Style sheets and pages name the same things: no class without a rule, no rule or token that nothing uses."""

import re

import pytest

from tests.views.conftest import ROOT

SHEETS = {path.name: path.read_text() for path in sorted((ROOT / "static/css").glob("*.css"))}
CSS = re.sub(r"/\*.*?\*/", "", "\n".join(SHEETS.values()), flags=re.DOTALL)
SELECTORS = re.findall(r"([^{}]+)\{", CSS)
STYLED = {name for selector in SELECTORS for name in re.findall(r"\.([A-Za-z][\w-]*)", selector)}
TEMPLATES = {path.name: path.read_text() for path in sorted((ROOT / "templates").rglob("*.*"))}
# Classes that are put together from a word and its front part, so that no search finds them whole.
BUILT = re.compile(r"(?:by|c|t|leg)-[a-z]+|[pmd]\d{1,3}")


def said() -> set[str]:
    """Every word of templates, scripts and the strings of the code."""
    texts = [*TEMPLATES.values()]
    texts += [path.read_text() for path in (ROOT / "static/js").glob("*.js")]
    for app in ("console", "fleet", "releases"):
        for path in (ROOT / app).rglob("*.py"):
            texts += re.findall(r"[\"']([^\"'\n]*)[\"']", path.read_text())
    return {word for text in texts for word in re.findall(r"[A-Za-z][\w-]*", text)}


def classes_of(text: str) -> set[str]:
    """Every class that a template writes out; those with a part from a variable or a tag are left out."""
    plain = re.sub(r"-\{%.*?%\}|\{\{.*?\}\}", "\0", text)
    plain = re.sub(r"\{%.*?%\}", " ", plain)
    words = {word for part in re.findall(r'class="([^"]*)"', plain) for word in part.split()}
    return {word for word in words if "\0" not in word}


@pytest.mark.parametrize("name", TEMPLATES)
def test_every_class_of_a_template_has_a_rule(name):
    assert sorted(classes_of(TEMPLATES[name]) - STYLED) == []


def test_every_class_of_a_rule_is_used():
    words = said()
    assert sorted(n for n in STYLED if n not in words and not BUILT.fullmatch(n)) == []


def test_every_token_is_defined_and_used():
    defined = set(re.findall(r"(--[\w-]+)\s*:", CSS))
    used = set(re.findall(r"var\((--[\w-]+)", CSS))
    assert (sorted(used - defined), sorted(defined - used)) == ([], [])


def test_a_page_loads_the_sheet_of_each_class_it_uses():
    """Most pages have one sheet besides the common ones; a class of another room's sheet would have no look."""
    common = {"tokens.css", "console.css", "percent.css"}
    rooms = {
        name: set(re.findall(r"\.([A-Za-z][\w-]*)", " ".join(re.findall(r"([^{}]+)\{", sheet))))
        for name, sheet in SHEETS.items()
    }
    anywhere = set().union(*(rooms[name] for name in common))
    for name, text in TEMPLATES.items():
        own = set(re.findall(r"css/(\w+\.css)", text))
        if not own - common:
            continue
        have = anywhere.union(*(rooms[sheet] for sheet in own))
        parts = "".join(TEMPLATES.get(part, "") for part in included(text))
        assert sorted((classes_of(text + parts) & STYLED) - have) == [], name


def included(text: str) -> set[str]:
    todo, found = [text], set()
    while todo:
        for part in re.findall(r'\{% include "(?:[^"]*/)?([^"/]+)"', todo.pop()):
            if part not in found:
                found.add(part)
                todo.append(TEMPLATES.get(part, ""))
    return found
