"""Books: the shipped one loads, and every fault is told at its step."""

from pathlib import Path

import pytest

from runbooks.rules.book import fill, read_book, read_catalogue

BOOKS = Path(__file__).resolve().parents[2] / "runbooks" / "books"
CATALOGUE = read_catalogue((BOOKS / "catalogue.toml").read_text())
CASE_C = (BOOKS / "case-c.toml").read_text()


@pytest.mark.parametrize("path", sorted(BOOKS.glob("*.toml")), ids=lambda path: path.stem)
def test_every_shipped_book_loads_and_is_short(path):
    if path.stem == "catalogue":
        return
    text = path.read_text()
    book, faults = read_book(text, CATALOGUE, path.name)
    assert faults == []
    assert book.steps
    assert len(text.splitlines()) <= 120


@pytest.mark.parametrize(
    ("old", "new", "step", "told"),
    [
        ('do = "weight_set"', 'do = "weight_sett"', "weight-zero", "not in the catalogue"),
        ('do = "evidence_freeze"', 'do = "node_cordon"', "stop", "expected evidence_freeze before"),
        ('typed = "{unit}"\n', "", "stop", "because the step is destructive"),
        ('unit = "asked", ', "", "weight-zero", "{unit}: not declared"),
        ('read = "rank_alive_all"', 'read = "unit_stop"', "alive", "not in the catalogue"),
        ('zh = "止损"', 'zh = ""', "contain", "expected zh too"),
        ("percent = 0 }", "percent = 0, rank = 3 }", "weight-zero", "args.rank: not an argument"),
        (", percent = 0 }", " }", "weight-zero", "args.percent: expected"),
        ('id = "alive"', 'id = "freeze"', "freeze", "a name of its own"),
        ("version = 1", 'version = "1"', "", "version: expected a number"),
        ("schema = 1", "schema = 2", "", "schema: expected 1"),
        ("rto_target_s", "rto_target", "", "not a key of a book"),
    ],
)
def test_a_fault_is_told_at_its_step(old, new, step, told):
    assert old in CASE_C
    book, faults = read_book(CASE_C.replace(old, new, 1), CATALOGUE, "case-c.toml")
    assert book is None
    assert any(fault.step == step and told in fault.text for fault in faults), faults
    assert all(str(fault).startswith(f"case-c.toml:{fault.line}: ") for fault in faults)


@pytest.mark.parametrize("who", ["auto", "anybody"])
def test_a_question_is_for_a_person(who):
    step = f"""
[[phase.step]]
id = "look"
ask = {{ en = "Is the card warm?", zh = "卡是热的吗？" }}
who = "{who}"
"""
    text = CASE_C + step
    book, (fault,) = read_book(text, CATALOGUE, "case-c.toml")
    assert book is None
    assert (fault.step, fault.text) == (
        "look",
        f"who: expected one of operator, approver, found {who!r}",
    )
    book, faults = read_book(text.replace(who, "approver"), CATALOGUE, "case-c.toml")
    assert (book.steps[-1].who, faults) == ("approver", [])


def test_a_file_that_is_no_toml_names_its_line():
    book, (fault,) = read_book("schema = 1\nid = \n", CATALOGUE, "case-c.toml")
    assert book is None
    assert fault.line == 2


def test_parameters_are_filled_and_a_missing_one_is_an_error():
    assert fill(["{unit}", 3], {"unit": "glm52-r1"}) == ["glm52-r1", 3]
    with pytest.raises(KeyError):
        fill("{node}", {"unit": "glm52-r1"})
