"""Each fault shows in the views it should show in, and in no other."""

import re
from datetime import UTC, datetime
from pathlib import Path

import pytest

from fleet.lab import faults, power, views
from fleet.lab.fabric import read_fabric
from fleet.lab.fault import COUNTER_VIEWS
from fleet.lab.node import Lab
from fleet.lab.place import LabError

NEEDS = dict.fromkeys(("rank.kill", "rank.hang"), "no rank runs on GPU") | dict.fromkeys(
    ("shard.corrupt", "shard.missing"), "has no model-00001"
)
OF_NODES = [fault for fault in faults.TABLE if "node" in fault.kinds]
NOW = datetime(2026, 11, 29, 18, 38, 30, tzinfo=UTC)


def all_views(node_dir: Path) -> dict[str, str]:
    folders = (node_dir / "view", node_dir / "root" / "proc")
    files = [path for folder in folders for path in folder.rglob("*") if path.is_file()]
    texts = {str(path.relative_to(node_dir)): path.read_text() for path in files}
    texts.update(sysfs_of(node_dir))
    # The snapshot's own time is the one thing that moves with every version.
    texts["view/smi.tsv"] = re.sub(r"\d{4}/\d\d/\d\d \S+", "TIME", texts["view/smi.tsv"])
    return texts


def sysfs_of(node_dir: Path) -> dict[str, str]:
    found = {}
    for folder in (node_dir / "root" / "sys" / "class").glob("*/*"):
        for path in folder.resolve().rglob("*"):
            if path.is_file():
                name = folder.relative_to(node_dir) / path.relative_to(folder.resolve())
                found[str(name)] = path.read_text()
    assert found
    return found


def tells_of_the_past(name: str) -> bool:
    return name in (*faults.KERNEL_VIEWS, *COUNTER_VIEWS) or "counters/" in name


@pytest.mark.parametrize("fault", OF_NODES, ids=lambda fault: fault.name)
def test_a_fault_shows_where_its_row_says_and_nowhere_else(
    paper: Lab, fault: faults.Fault, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(power, "start_listeners", lambda *_: None)
    host = paper.host("h100-001")
    before = all_views(host.directory)
    site = faults.open_site(paper.directory, host, NOW, {"launch": 600.0})

    if fault.name in NEEDS:
        with pytest.raises(LabError, match=NEEDS[fault.name]):
            faults.put_on(site, fault, dict(fault.arguments), "f-0001")
    else:
        faults.put_on(site, fault, dict(fault.arguments), "f-0001")

    after = all_views(host.directory)
    for sign in fault.signs:
        assert re.search(sign.pattern, after[sign.view], re.MULTILINE), sign
    allowed = {*fault.also, *(sign.view for sign in fault.signs)}
    changed = {name for name in before | after if before.get(name) != after.get(name)}
    assert {name for name in changed if not is_below(name, allowed)} == set()


def is_below(name: str, places: set[str]) -> bool:
    return any(name == place or name.startswith(f"{place}/") for place in places)


@pytest.mark.parametrize(
    "fault",
    [fault for fault in OF_NODES if fault.undo and fault.name not in NEEDS],
    ids=lambda fault: fault.name,
)
def test_clearing_brings_every_view_back(
    paper: Lab, fault: faults.Fault, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(power, "start_listeners", lambda *_: None)
    host = paper.host("h100-001")
    before = all_views(host.directory)
    site = faults.open_site(paper.directory, host, NOW, {"launch": 600.0})
    faults.put_on(site, fault, dict(fault.arguments), "f-0001")

    told = faults.take_off(site, "f-0001")

    assert [row["is_cleared"] for row in told] == [True]
    assert site.state["faults"] == []
    after = all_views(host.directory)
    if fault.name == "node.dead":
        for name in (faults.BOOT_ID, *faults.BOOT_VIEWS):
            before.pop(name, None)
            after.pop(name, None)
    for name in [name for name in after if tells_of_the_past(name)]:
        del before[name], after[name]
    assert after == before


def test_a_lost_gpu_is_the_same_card_in_every_view(paper: Lab) -> None:
    host = paper.host("h100-001")
    site = faults.open_site(paper.directory, host, NOW, {})
    faults.put_on(site, faults.find_fault("gpu.xid79"), {"gpu": 3, "sticky": 0}, "f-0001")
    gpu = site.state["gpu"][3]

    texts = all_views(host.directory)

    assert gpu["uuid"] not in texts["view/smi.L"]
    assert f"{gpu['uuid']} lost" in texts["view/docker.gpus"]
    assert gpu["uuid"] in texts["view/kernel.iso"]
    assert texts["view/smi.L.rc"] == "15\n"


def test_a_reboot_brings_a_lost_gpu_back_unless_it_is_sticky(paper: Lab) -> None:
    from fleet.lab.state import power_cycled

    host = paper.host("h100-001")
    site = faults.open_site(paper.directory, host, NOW, {})
    faults.put_on(site, faults.find_fault("gpu.xid79"), {"gpu": 1, "sticky": 0}, "f-0001")
    faults.put_on(site, faults.find_fault("gpu.missing"), {"gpu": 2, "sticky": 1}, "f-0002")

    after = power_cycled(site.state, "reboot", NOW)

    assert [gpu["health"] for gpu in after["gpu"]] == ["ok", "ok", "missing", *["ok"] * 5]
    assert [row["id"] for row in after["faults"]] == ["f-0002"]
    assert after["boot"]["id"] != site.state["boot"]["id"]


def test_faults_of_the_fabric_lie_beside_the_nodes_and_are_cleared_one_by_one(paper: Lab) -> None:
    gold = read_fabric(paper.directory)
    host = paper.host("h100-001")
    site = faults.open_site(paper.directory, host, NOW, {})
    for number, name in enumerate(("net.loss", "cable.slow", "leaf.oversub", "pfc.storm")):
        fault = faults.find_fault(name)
        faults.put_on(site, fault, dict(fault.arguments), f"f-{number}")

    hurt = read_fabric(paper.directory)
    faults.take_off(site, "net.loss")
    left = read_fabric(paper.directory)
    faults.take_off(site, None)

    assert hurt["loss_ratio"] == {"h100-001/mlx5_3": 0.001}
    assert hurt["paused"] == ["h100-001/mlx5_3"]
    assert hurt["leaves"][0]["oversub"] == 2.0
    assert [row["gbps"] for row in hurt["cables"]][:5] == [400, 400, 400, 200, 400]
    assert left == {**hurt, "loss_ratio": {}}
    assert read_fabric(paper.directory) == gold


def test_a_reboot_keeps_a_bad_cable_and_forgets_heat(paper: Lab) -> None:
    from fleet.lab.state import power_cycled

    host = paper.host("h100-001")
    site = faults.open_site(paper.directory, host, NOW, {})
    for number, name in enumerate(("nic.rate", "gpu.throttle", "gpu.xid94", "driver.mismatch")):
        fault = faults.find_fault(name)
        faults.put_on(site, fault, dict(fault.arguments), f"f-{number}")

    after = power_cycled(site.state, "reboot", NOW)

    assert [row["name"] for row in after["faults"]] == ["nic.rate"]
    assert after["nic"][3]["rate_gbps"] == 200
    gpu = after["gpu"][3]
    assert (gpu["clock"]["sm"], gpu["ecc"]["uncorrected"], gpu["reasons"]) == (345, 0, 1)
    assert gpu["remapped"] == {**gpu["remapped"], "pending": False, "uncorrectable": 1}
    assert after["driver"]["library"] == after["driver"]["version"]
    assert "Xid" not in str(after["kernel_log"])


def test_a_fault_of_a_part_that_is_not_there_is_refused(paper: Lab) -> None:
    site = faults.open_site(paper.directory, paper.host("h100-001"), NOW, {})
    for name, wrong in (("gpu.throttle", {"gpu": 8}), ("nic.rate", {"nic": 9}),
                        ("nic.down", {"phys": "Asleep"}), ("nic.rate", {"gbps": 300})):  # fmt: skip
        fault = faults.find_fault(name)
        with pytest.raises(LabError):
            faults.put_on(site, fault, {**fault.arguments, **wrong}, "f-0001")


def test_writing_views_touches_only_what_changed(paper: Lab) -> None:
    host = paper.host("h100-001")
    state = paper.state("h100-001")
    assert views.write_views(host.directory, state) == []

    state["docker"]["state"] = "hung"

    assert views.write_views(host.directory, state) == ["view/docker.state"]


def test_the_same_seed_gives_the_same_fleet(paper: Lab, tmp_path: Path) -> None:
    twin = Lab(tmp_path / "lab").lay_out(2)

    mine, other = paper.state("h100-002"), twin.state("h100-002")

    assert mine["gpu"] == other["gpu"]
    assert mine["boot"]["id"] == other["boot"]["id"]
    assert mine["serial"] != paper.state("h100-001")["serial"]


def test_the_topology_is_a_full_matrix_with_an_underlined_header(paper: Lab) -> None:
    text = (paper.host("h100-001").directory / "view" / "topo.m").read_text()
    header, *rows = text.split("\n\nLegend:")[0].splitlines()

    assert header.startswith("\t\x1b[4mGPU0\t")
    assert header.endswith("GPU NUMA ID\x1b[0m")
    assert len(rows) == 17
    # The cell before the last one is empty in each row and has no title.
    assert {row.count("\t") for row in rows} == {header.count("\t") + 1}
    assert rows[3].split("\t")[12] == "PIX"
    assert rows[3].split("\t")[16] == "SYS"
