"""Every sample of the shared corpus, held against what was worked out by reading it.

A number that `expected` names is a field of `values` with that name; what a sentence says stands in this folder's
corpus_cases.toml, one table a sample:

    ["bench/001"]
    verdict = "unknown"                 # of the report
    complete = true                     # of the report
    values = { "a.b" = 1 }              # further values, by their path
    renamed = { down = "ports.down" }   # a key of `expected` that has another name here
    told = { event = "xid-79" }         # a key whose sentence a finding says (one id or several)
    absent = ["failed"]                 # paths that are missing or null: unknown is no zero
    never = ["xid-20034"]               # findings that would be wrong
    not_given = { gbit = "why" }        # a key that the text does not hold, or that is no reading's work
"""

from __future__ import annotations

import io
import json
import math
import tomllib
from pathlib import Path
from typing import Any

import pytest

from fleet.readings.kinds import read_as, recognise
from fleet.readings.report import Report
from fleet.readings.text import decode

CASES: dict[str, dict[str, Any]] = tomllib.loads(
    Path(__file__).with_name("corpus_cases.toml").read_text()
)
WORDS = {
    "verdict", "complete", "values", "renamed", "told", "absent", "never", "not_given",
}  # fmt: skip
# How a verdict written by hand begins, and what the report must say then.
VERDICTS = (
    ("FAIL", "fail"),
    ("CRASH", "fail"),
    ("INVALID", "unknown"),
    ("INCOMPLETE", "unknown"),
    ("NOT CHECKED", "unknown"),
)


@pytest.mark.parametrize("name", CASES)
def test_a_sample_says_what_was_read_in_it(shared_dir, name):
    case = CASES[name]
    assert set(case) <= WORDS, f"only {sorted(WORDS)} are words of a case"
    kind = name.split("/")[0]
    raw = (shared_dir / "corpus" / f"{name}.txt").read_bytes()
    expected = json.loads((shared_dir / "corpus" / f"{name}.json").read_text())["expected"]
    report = read_as(kind, io.BytesIO(raw))
    assert recognise(decode(raw)) == kind
    assert_case(case, report)
    assert_expected(case, expected, report)


def test_every_sample_has_its_case_and_every_case_its_sample(shared_dir):
    corpus = shared_dir / "corpus"
    samples = {str(path.relative_to(corpus).with_suffix("")) for path in corpus.glob("*/*.txt")}
    assert set(CASES) == samples


def assert_case(case: dict[str, Any], report: Report) -> None:
    ids = {finding.id for finding in report.findings}
    if "verdict" in case:
        assert report.verdict == case["verdict"], report.findings
    if "complete" in case:
        assert report.complete is case["complete"]
    for path, value in case.get("values", {}).items():
        assert_same(at(report.values, path), value, path)
    for path in case.get("absent", []):
        assert at(report.values, path) is None, path
    assert not ids & set(case.get("never", []))


def assert_expected(case: dict[str, Any], expected: dict[str, Any], report: Report) -> None:
    ids = {finding.id for finding in report.findings}
    renamed, told, not_given = (case.get(word, {}) for word in ("renamed", "told", "not_given"))
    for word, keys in (("renamed", renamed), ("told", told), ("not_given", not_given)):
        assert set(keys) <= set(expected), f"{word} names keys that the sample has not"
    for key, value in expected.items():
        if key in not_given:
            assert not_given[key], f"{key}: why is it not given?"
        elif key in told:
            wanted = told[key] if isinstance(told[key], list) else [told[key]]
            assert set(wanted) <= ids, f"{key}: {value}"
        elif key in renamed:
            assert_same(at(report.values, renamed[key]), value, key)
        elif key == "must_not":
            assert case.keys() & {"verdict", "complete", "values", "absent", "never"}, value
        elif key == "complete":
            assert report.complete is value
        elif key == "verdict":
            assert_verdict(case, str(value))
        else:
            assert_same(at(report.values, key), value, key)


def assert_verdict(case: dict[str, Any], sentence: str) -> None:
    """A verdict is a sentence: what it means for the report is written into the case, and some words bind."""
    assert "verdict" in case, sentence
    for begin, wanted in VERDICTS:
        if begin in sentence.split(";")[0].split("(")[0]:
            assert case["verdict"] == wanted, sentence
            return


def at(values: Any, path: str) -> Any:
    """Return what stands at a path such as `ranks.0.host`; None where nothing stands."""
    found = values
    for word in path.split("."):
        if isinstance(found, list | tuple) and word.isdigit() and int(word) < len(found):
            found = found[int(word)]
        elif hasattr(found, "get"):
            found = found.get(word)
        else:
            return None
    return found


def assert_same(found: Any, wanted: Any, what: str) -> None:
    """Equal, numbers to nine digits; every key that is wanted, more may stand beside it."""
    if isinstance(wanted, dict):
        for key, value in wanted.items():
            assert_same(
                at(found, str(key)) if "." not in str(key) else found.get(key),
                value,
                f"{what}.{key}",
            )
    elif isinstance(wanted, list):
        assert isinstance(found, list | tuple), f"{what}: {found!r}"
        assert len(found) == len(wanted), f"{what}: {found!r}"
        for number, value in enumerate(wanted):
            assert_same(found[number], value, f"{what}.{number}")
    elif (
        isinstance(wanted, float) and isinstance(found, int | float) and not isinstance(found, bool)
    ):
        assert math.isclose(found, wanted, rel_tol=1e-9), f"{what}: {found!r}, expected {wanted!r}"
    else:
        assert type(found) is type(wanted) or not isinstance(found, bool), f"{what}: {found!r}"
        assert found == wanted, f"{what}: {found!r}, expected {wanted!r}"
