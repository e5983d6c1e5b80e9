"""What is measured on a rehearsed node: all_reduce over its cards, a read of its model disk."""

import json
from datetime import UTC, datetime

import pytest

from fleet.lab import faults, releases
from fleet.lab.node import Lab
from fleet.readings.disk_read import parse_disk_read
from fleet.readings.nccl_tests import NcclTestsReader
from fleet.readings.verdicts.nccl_tests import report_tests
from fleet.rules.acceptance_steps import allreduce_argv, read_argv

NOW = datetime(2026, 11, 29, 18, 38, 30, tzinfo=UTC)
IMAGE = releases.SEED_RELEASES["glm52"]["image"]


def put(lab: Lab, name: str, **given) -> None:
    fault = faults.find_fault(name)
    site = faults.open_site(lab.directory, lab.host("h100-001"), NOW, {"launch": 600.0})
    faults.put_on(site, fault, faults.read_arguments(fault, given), "f-1")


def words(argv: list[str]) -> str:
    return " ".join(f"'{word}'" for word in argv)


def all_reduce(run, gpus: int = 8):
    return run(words(allreduce_argv(IMAGE, "accept-1", "fc-accept-1", gpus)))


def report_of(text: str):
    reader = NcclTestsReader()
    reader.feed([line.encode() for line in text.splitlines()])
    reader.finish()
    return report_tests(reader)


def busbw(run) -> float:
    done = all_reduce(run)
    assert done.returncode == 0, done.stderr
    report = report_of(done.stdout)
    assert report.complete
    return report.values["avg_busbw"]


def test_all_reduce_prints_a_whole_table_that_its_reader_accepts(run, paper: Lab) -> None:
    done = all_reduce(run)

    report = report_of(done.stdout)
    assert (done.returncode, report.complete, report.unread) == (0, True, ())
    assert report.values["ranks"] == 8
    assert 440 < report.values["avg_busbw"] < 474
    assert "[0000:4e:00] NVIDIA H100 80GB HBM3" in done.stdout
    assert (paper.directory / "unknown.log").read_text() == ""


@pytest.mark.parametrize(
    ("fault", "given", "low", "high"),
    [
        ("gpu.throttle", {}, 0.55, 0.62),
        ("nvlink.down", {}, 0.92, 0.95),
        ("nvlink.down", {"all": 1}, 0.04, 0.07),
    ],
)
def test_a_card_that_is_held_back_or_lost_links_slows_all_of_them(
    run, paper: Lab, fault: str, given: dict, low: float, high: float
) -> None:
    gold = busbw(run)
    put(paper, fault, **given)
    assert low < busbw(run) / gold < high


def test_a_missing_card_is_refused_as_the_tool_refuses_it(run, paper: Lab) -> None:
    put(paper, "gpu.missing")
    done = all_reduce(run)
    assert done.returncode == 1
    assert "8 requested but only 7 were found" in done.stdout


def test_a_card_that_waits_for_its_reset_breaks_the_test_off(run, paper: Lab) -> None:
    put(paper, "gpu.xid48")
    done = all_reduce(run)
    assert done.returncode == 2
    assert report_of(done.stdout).verdict == "fail"


def read_disk(run, paper: Lab, tool: str = "fio"):
    root = paper.host("h100-001").directory / "root" / "models"
    (root / "shard.safetensors").write_bytes(b"x" * 8192)
    argv = read_argv(str(root))
    if tool == "dd":  # a node without fio
        argv[2] = argv[2].replace("command -v fio", "command -v no-such-program")
    argv[2] = argv[2].replace("'%s %p\\n'", '"%s %p\\n"')
    return run(words(argv))


@pytest.mark.parametrize("tool", ["fio", "dd"])
def test_the_model_disk_reads_at_the_rate_of_its_slowest_member(run, paper: Lab, tool: str) -> None:
    done = read_disk(run, paper, tool)
    found = parse_disk_read(done.stdout + done.stderr)
    assert (done.returncode, found.tool, round(found.gbs, 1)) == (0, tool, 12.0)

    put(paper, "nvme.slow")
    done = read_disk(run, paper, tool)
    assert round(parse_disk_read(done.stdout + done.stderr).gbs, 1) == 1.1
    assert (paper.directory / "unknown.log").read_text() == ""


def test_dd_of_any_other_file_is_the_real_one(run) -> None:
    done = run("echo 12345678 | dd bs=1 count=4 2>/dev/null")
    assert done.stdout == "1234"


def test_a_form_of_fio_that_is_not_rehearsed_says_so(run, paper: Lab) -> None:
    done = run("fio --name=w --rw=write --filename=$NODE_SYSROOT/models/x --output-format=json")
    assert done.returncode == 1
    assert "h100-001 fio" in (paper.directory / "unknown.log").read_text()
    (paper.directory / "unknown.log").write_text("")


def test_the_rates_are_json_numbers_of_the_state(paper: Lab) -> None:
    state = json.loads((paper.host("h100-001").directory / "state.json").read_text())
    assert sum(disk["read_gbs"] for disk in state["disks"] if disk["is_model"]) == 12.0
