"""Every verb that a service writes into the trail reads as words on pages, in both languages."""

import ast
from collections.abc import Iterator

import pytest
from django.utils import translation

import releases.marks  # noqa: F401 - it adds the verbs of launches and of what changes them
import runbooks.marks  # noqa: F401 - it adds those of incidents and runs
from fleet.templatetags.flotilla import who
from fleet.verbs import verb_words
from tests.views.conftest import ROOT
from tests.views.test_signs import STATES

WRITERS = {"trail_add", "trail_entry", "_tell", "_pin"}
MOVING = ("launch", "release", "gate", "rollout", "wave", "drain", "incident", "run", "step")


def _verbs() -> Iterator[str]:
    for app in ("console", "fleet", "releases", "runbooks"):
        for path in (ROOT / app).rglob("*.py"):
            for call in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(call, ast.Call) and getattr(call.func, "id", "") in WRITERS:
                    yield from _constants(call)


def _constants(call: ast.Call) -> Iterator[str]:
    for part in (*call.args, *(word.value for word in call.keywords if word.arg == "verb")):
        if isinstance(part, ast.Constant) and "." in str(part.value) and " " not in part.value:
            yield part.value


VERBS = sorted(set(_verbs()))


def test_the_verbs_of_the_services_are_found():
    assert {"hold.add", "approval.sign", "incident.open", "replica.to_spares"} <= set(VERBS)


@pytest.mark.parametrize("verb", VERBS)
def test_every_written_verb_has_words(verb):
    assert verb_words(verb, {"state": "ready"}) != verb
    with translation.override("zh-hans"):
        assert not verb_words(verb, {"state": "ready"}).isascii()


@pytest.mark.parametrize("machine", MOVING)
def test_a_move_reads_as_the_word_of_its_state(machine):
    for state in STATES[machine]:
        assert verb_words(f"{machine}.{state}") != f"{machine}.{state}"


def test_a_move_of_a_wave_names_the_wave():
    assert verb_words("wave.passed", {"wave": 0}) == "canary now passed"
    assert verb_words("wave.observing", {"wave": 3}) == "wave 3 now observing"
    assert verb_words("rollout.rolling_back", {"state": "rolling_back"}) == "now rolling back"


@pytest.mark.parametrize("verb", ["rollout-act", "sparkle.dust", "hold", ""])
def test_a_verb_that_no_table_knows_stays_as_it_is(verb):
    assert verb_words(verb) == verb


@pytest.mark.parametrize(
    ("actor", "words"),
    [("ana", "ana"), ("rule:gate", "auto"), ("command:person", "person"), ("", "")],
)
def test_a_rule_is_named_auto(actor, words):
    assert who(actor) == words
