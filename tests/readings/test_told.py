import json

from fleet.execution.message import said, say
from fleet.readings.told import sentence_of, tell

GERMAN = {"%(count)s cards, %(why)s": "%(count)s Karten, %(why)s", "one is missing": "eine fehlt"}


def in_german(text: str) -> str:
    return said(text, lambda words: GERMAN.get(words, words))


def test_words_are_english_and_keep_their_sentence():
    words = tell("%(count)s cards, %(why)s", count=7, why=tell("one is missing"))
    assert words == "7 cards, one is missing"
    assert in_german(sentence_of(words)) == "7 Karten, eine fehlt"


def test_they_are_a_string_to_json():
    assert json.dumps({"text": tell("%(count)s cards", count=8)}) == '{"text": "8 cards"}'


def test_words_of_a_text_cannot_pass_for_a_sentence():
    forged = say("one is missing", extra=1)
    words = tell("%(count)s cards, %(why)s", count=1, why=forged)
    assert "\x1f" not in words
    assert in_german(sentence_of(words)).startswith("1 Karten, one is missing ")


def test_plain_words_are_stored_as_words():
    assert sentence_of("8 cards\x1f{}") == "8 cards {}"
