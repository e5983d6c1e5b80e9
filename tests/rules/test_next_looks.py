import io

import pytest

from fleet.readings.kinds import KINDS, read_as
from fleet.readings.report import Finding, Report
from fleet.rules.next_looks import LOOKS_MOST, TAKEN_BY, next_looks


def report(kind: str, *findings: Finding, complete: bool = True) -> Report:
    return Report(kind, "any", complete, "unknown", "", findings)


def commands(found: Report) -> list[str]:
    return [look.command for look in next_looks(found)]


def test_a_clean_output_asks_for_nothing():
    assert next_looks(report("topo")) == []


@pytest.mark.parametrize("kind", KINDS)
def test_a_torn_output_is_taken_again_first(kind):
    assert commands(report(kind, complete=False)) == [TAKEN_BY[kind]]


def test_looks_of_the_worst_finding_come_first_and_none_twice():
    found = report(
        "kernel-log",
        Finding("nic", "warn", ""),
        Finding("xid_79", "error", ""),
        Finding("xid_48", "error", ""),
    )
    got = commands(found)
    assert got[0].startswith("nvidia-smi -q -d ECC")
    assert "ibstat" in got
    assert len(got) == len(set(got)) <= LOOKS_MOST


def test_what_is_found_in_another_kind_asks_for_nothing():
    assert next_looks(report("topo", Finding("xid_79", "error", ""))) == []


def test_no_look_changes_a_node():
    """Only tools that read; a test that runs says that it needs free cards."""
    changing = ("reset", "-pm", "rm ", "kill", "restart", "set ", "modprobe", "mlxfwreset")
    for kind in KINDS:
        for look in next_looks(
            report(kind, *(Finding(i, "error", "") for i in ("nic", "oom", "ecc")))
        ):
            assert not any(word in look.command for word in changing)
            assert look.needs_idle == look.command.startswith(("all_reduce", "ib_write", "NCCL_"))


def test_every_failed_sample_has_a_next_look(shared_dir):
    without = []
    for path in sorted((shared_dir / "corpus").glob("*/*.txt")):
        found = read_as(path.parent.name, io.BytesIO(path.read_bytes()))
        if found.verdict == "fail" and not next_looks(found):
            without.append((path.parent.name, path.name, [f.id for f in found.findings]))
    assert without == []
