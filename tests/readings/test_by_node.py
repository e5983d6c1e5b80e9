"""Outputs of several nodes in one text: read node by node where lines name theirs, mixed where they do not."""

import io

import pytest

from fleet.readings.kinds import read_as, recognise
from fleet.readings.report import Report

LIST = "".join(
    f"GPU {n}: NVIDIA H100 80GB HBM3 (UUID: GPU-{n:08d}-0000-0000-0000-000000000000)\n"
    for n in range(8)
)


def read(kind: str, text: str) -> Report:
    return read_as(kind, io.BytesIO(text.encode()))


def named(text: str, *names: str, glue: str = ": ") -> str:
    """Print a text once for each node, woven line by line as pdsh does."""
    return "".join(f"{name}{glue}{row}\n" for row in text.splitlines() for name in names)


def test_equal_cards_of_three_nodes_pass():
    text = named(LIST, "h100-001", "h100-002", "h100-003.dc1")
    assert recognise(text) == "nvidia-smi"
    found = read("auto", text)
    assert (found.verdict, found.complete) == ("pass", True)
    assert found.values["node_count"] == 3
    assert found.values["nodes"]["h100-002"]["gpu_count"] == 8
    assert found == read("nvidia-smi", text)


def test_one_failed_node_fails_and_its_lines_are_those_of_the_whole_text():
    lost = "Unable to determine the device handle for GPU0000:3B:00.0: GPU is lost.  Reboot the system to recover this GPU\n"  # noqa: E501
    text = named(LIST, "h100-001") + named(LIST + lost, "h100-002")
    found = read("auto", text)
    assert found.verdict == "fail"
    assert "1 failed (h100-002)" in found.summary
    error = next(f for f in found.findings if f.severity == "error")
    assert error.text.startswith("h100-002: ")
    assert text.splitlines()[error.lines[0] - 1].endswith("recover this GPU")


@pytest.mark.parametrize(
    "said",
    [
        "pdsh@login1: h100-003: ssh exited with exit code 255\n",
        "clush: h100-[003-004]: exited with exit code 255\n",
    ],
)
def test_a_node_that_did_not_answer_keeps_the_others_from_passing(said):
    found = read("auto", named(LIST, "h100-001", "h100-002") + said)
    assert found.verdict == "unknown"
    assert "node_failed" in {f.id for f in found.findings}


def test_a_cut_text_passes_no_node():
    text = named(LIST, "h100-001", "h100-002")
    found = read("nvidia-smi", text.rstrip("\n"))
    assert (found.verdict, found.complete) == ("unknown", False)
    for at in range(1, len(text) - 1, 7):
        if not text[:at].endswith("\n"):
            assert read("nvidia-smi", text[:at]).verdict == "unknown", at


def test_lines_without_a_node_among_named_ones_are_not_parted():
    text = named(LIST, "h100-001", "h100-002") + LIST
    assert read("nvidia-smi", text).verdict != "pass"


@pytest.mark.parametrize("kind", ["topo", "nvidia-smi", "fabric", "ib-write-bw"])
def test_every_sample_reads_the_same_behind_a_node_name(shared_dir, kind):
    """Where the sample is whole and its form survives: leading blanks and blank lines are kept by the launchers."""
    passed = 0
    for path in sorted((shared_dir / "corpus" / kind).glob("*.txt")):
        text = path.read_bytes().decode("utf-8", "replace").replace("\r", "")
        alone = read(kind, text)
        if alone.verdict != "pass":
            continue
        passed += 1
        both = read(kind, named(text, "h100-001", "h100-002"))
        assert both.verdict == "pass", path.name
        assert both.values["nodes"]["h100-001"] == dict(alone.values), path.name
    assert passed


@pytest.mark.parametrize("kind", ["topo", "nvidia-smi", "fabric", "ib-write-bw"])
def test_no_failure_hides_behind_a_node_name(shared_dir, kind):
    for path in sorted((shared_dir / "corpus" / kind).glob("*.txt")):
        text = path.read_bytes().decode("utf-8", "replace").replace("\r", "")
        if read(kind, text).verdict == "fail":
            assert read(kind, named(text, "h100-001")).verdict != "pass", path.name


def test_lines_of_two_nodes_without_names_are_never_a_pass(shared_dir):
    """As `xargs -P` prints them: woven, with nothing that tells them apart."""
    second = LIST.replace("GPU-0000", "GPU-1111")
    woven = "".join(
        a + "\n" + b + "\n" for a, b in zip(LIST.splitlines(), second.splitlines(), strict=True)
    )
    assert read("nvidia-smi", woven).verdict == "unknown"
    for kind in ("topo", "fabric", "nvidia-smi"):
        for path in sorted((shared_dir / "corpus" / kind).glob("*.txt")):
            rows = path.read_bytes().decode("utf-8", "replace").splitlines()
            woven = "".join(f"{row}\n{row}\n" for row in rows)
            assert read(kind, woven).verdict != "pass", path.name
