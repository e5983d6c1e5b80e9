from __future__ import annotations

import io
import json
import types

import pytest
from django.core.management import CommandError, call_command

TOPO = (
    "\tGPU0\tGPU1\tCPU Affinity\tNUMA Affinity\n"
    "GPU0\t X \tNV18\t0-47\t0\n"
    "GPU1\tNV18\t X \t0-47\t0\n"
)


def run(capsys, *argv):
    code = 0
    try:
        call_command("read", *argv)
    except SystemExit as end:
        code = end.code
    out, err = capsys.readouterr()
    return code, out, err


def test_it_prints_exactly_one_object(capsys, tmp_path):
    place = tmp_path / "topo.txt"
    place.write_text(TOPO)
    code, out, err = run(capsys, "topo", str(place))
    assert (code, err) == (0, "")
    assert out.count("\n") == 1
    found = json.loads(out)
    assert (found["kind"], found["verdict"], found["complete"]) == ("topo", "pass", True)


@pytest.mark.parametrize("argv", [("auto",), ("auto", "-"), ("topo", "-", "--json")])
def test_it_reads_stdin(capsys, monkeypatch, argv):
    monkeypatch.setattr("sys.stdin", types.SimpleNamespace(buffer=io.BytesIO(TOPO.encode())))
    code, out, _ = run(capsys, *argv)
    assert (code, json.loads(out)["kind"]) == (0, "topo")


def test_any_bytes_end_with_zero(capsys, tmp_path):
    place = tmp_path / "noise"
    place.write_bytes(bytes(range(256)) * 100)
    code, out, _ = run(capsys, "nccl-log", str(place))
    assert (code, json.loads(out)["verdict"]) == (0, "unknown")


@pytest.mark.parametrize(
    ("argv", "word"),
    [
        (("nonsense",), "Unknown kind 'nonsense'"),
        (("topo", "/no/such/file"), "No such file"),
        (("topo", "/"), "directory"),
    ],
)
def test_wrong_use_is_two_with_a_reason(capsys, argv, word):
    code, out, err = run(capsys, *argv)
    assert (code, out) == (2, "")
    assert word in err


def test_a_kind_is_required():
    with pytest.raises(CommandError, match="KIND"):
        call_command("read")
