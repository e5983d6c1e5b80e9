"""`manage.py books check`: what it prints and how it ends."""

import json
import shutil

import pytest
from django.core.management import CommandError, call_command

from runbooks.services.library import BOOKS


def run(capsys, *argv):
    code = 0
    try:
        call_command("books", *argv)
    except SystemExit as end:
        code = end.code
    out, err = capsys.readouterr()
    return code, out, err


@pytest.fixture
def shelf(tmp_path):
    """A directory with one sound book and the catalogue, which is none."""
    for name in ("case-c.toml", "catalogue.toml"):
        shutil.copy(BOOKS / name, tmp_path)
    return tmp_path


def test_the_shipped_books_have_no_fault(capsys):
    code, out, err = run(capsys, "check")
    assert (code, err) == (0, "")
    assert out == "1 books, 12 steps, 0 faults\n"


def test_a_fault_stands_at_its_line_and_is_a_no(capsys, shelf):
    text = (shelf / "case-c.toml").read_text().replace('typed = "{unit}"\n', "")
    (shelf / "case-c.toml").write_text(text)
    line = text.splitlines().index('id = "stop"') + 1
    code, out, err = run(capsys, "check", str(shelf))
    assert (code, err) == (1, "")
    fault, counted = out.splitlines()
    assert fault.startswith(f"{shelf / 'case-c.toml'}:{line}: stop: typed: expected")
    assert counted == "0 books, 0 steps, 1 faults"


def test_one_file_is_enough(capsys, shelf):
    code, out, _ = run(capsys, "check", str(shelf / "case-c.toml"))
    assert (code, out) == (0, "1 books, 12 steps, 0 faults\n")


def test_json_is_exactly_one_object(capsys, shelf):
    (shelf / "other.toml").write_text("schema = \n")
    code, out, _ = run(capsys, "check", str(shelf), "--json")
    found = json.loads(out)
    assert (code, found["books"], found["steps"]) == (1, 1, 12)
    (fault,) = found["faults"]
    assert (fault["file"], fault["line"]) == (str(shelf / "other.toml"), 1)


@pytest.mark.parametrize(
    "text",
    [
        b"\xff\xfe",
        b"",
        b"phase = 3\n",
        b"phase = [1]\n",
        b"params = 3\n",
        b"[[phase]]\nid = 3\nstep = 3\n",
        b"[[phase]]\nid = 'a'\n[[phase.step]]\nid = 'x'\ndo = []\n",
        b"[[phase]]\nid = 'a'\n[[phase.step]]\nid = 'x'\ndo = 'unit_stop'\nargs = 3\ntyped = 3\n",
    ],
)
def test_nonsense_is_a_fault_and_no_crash(capsys, shelf, text):
    (shelf / "nonsense.toml").write_bytes(text)
    code, out, err = run(capsys, "check", str(shelf))
    assert (code, err) == (1, "")
    assert f"{shelf / 'nonsense.toml'}:" in out
    assert out.splitlines()[-1].startswith("1 books, 12 steps, ")


@pytest.mark.parametrize("where", ["nowhere", "."])
def test_a_place_without_books_is_wrong_use(capsys, tmp_path, where):
    code, out, err = run(capsys, "check", str(tmp_path / where))
    assert (code, out) == (2, "")
    assert "book" in err


@pytest.mark.parametrize("argv", [(), ("burn",), ("check", "a", "b")])
def test_other_words_are_refused(argv):
    with pytest.raises(CommandError):
        call_command("books", *argv)
