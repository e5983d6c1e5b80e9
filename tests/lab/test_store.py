"""The lab's store: a real rsync daemon that gives models away, takes nothing, and ends with the lab."""

import subprocess
from pathlib import Path

import pytest

from fleet.lab import procs, releases, store
from fleet.lab.keeping import keeper_of
from fleet.lab.node import Lab
from fleet.rules import copier
from tests.lab.conftest import claimed_block
from tests.needs import needs_rsync
from tests.waiting import wait_until

pytestmark = [
    pytest.mark.lab,
    needs_rsync,
]
MODEL = releases.MODELS["deepseek-v4-flash"]


@pytest.fixture
def own_block():
    with claimed_block() as name:
        yield name


def rsync(lab: Lab, *words: str) -> subprocess.CompletedProcess[str]:
    where = lab.store()
    url = f"rsync://{where['address']}:{where['port']}/models/{MODEL.slug}/{MODEL.revision}"
    own = lab.host("h100-001").address  # only the lab's own block is let in
    argv = ["rsync", "-a", f"--address={own}", *(word.replace("STORE", url) for word in words)]
    return subprocess.run(argv, capture_output=True, text=True, timeout=30, check=False)


def test_it_gives_a_model_away_and_takes_nothing(two: Lab, tmp_path: Path) -> None:
    assert two.store()["daemon"] == "up"
    assert two.store()["address"] not in {row["address"] for row in two.inventory()}
    assert rsync(two, "STORE/", f"{tmp_path}/got/").returncode == 0
    for name, content in releases.model_files(MODEL.key).items():
        assert (tmp_path / "got" / name).read_bytes() == content
    (tmp_path / "bad").write_text("x")
    refused = rsync(two, f"{tmp_path}/bad", "STORE/")
    assert refused.returncode != 0
    assert "read only" in refused.stdout + refused.stderr
    assert not list((two.directory / "store").rglob("bad"))


def test_the_consoles_own_copier_pulls_a_list_of_files_from_it(two: Lab, tmp_path: Path) -> None:
    where, host = two.store(), two.host("h100-001")
    source = (where["address"], where["port"], f"models/{MODEL.slug}/{MODEL.revision}")
    names = ["config.json", "tokenizer.json"]
    argv = copier.pull_argv(str(tmp_path / "got"), source, 9999, host.address, names, again=False)
    done = subprocess.run(
        argv, env=host.environment(), capture_output=True, text=True, timeout=30, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert sorted(path.name for path in (tmp_path / "got").iterdir()) == names


def test_other_addresses_than_the_labs_own_are_not_let_in(two: Lab, tmp_path: Path) -> None:
    where = two.store()
    url = f"rsync://{where['address']}:{where['port']}/models/{MODEL.slug}/{MODEL.revision}/"
    argv = ["rsync", "-a", "--address=127.0.0.1", url, f"{tmp_path}/got/"]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 5
    assert not (tmp_path / "got" / "config.json").exists()


def test_it_ends_with_the_lab_and_comes_back_with_it(lab_dir: Path, own_block: str) -> None:
    with_store = Lab(lab_dir).up(1, block=own_block, weights="none")
    before = store.daemon(lab_dir)
    assert len(before) == 1
    with_store.down(keep=True)
    assert not any(procs.is_alive(*one) for one in before.items())
    with_store.up(1)
    assert store.daemon(lab_dir).keys() != before.keys()
    assert with_store.status()["store"]["daemon"] == "up"


def test_nothing_of_it_outlives_a_killed_keeper(lab_dir: Path, own_block: str) -> None:
    lab = Lab(lab_dir).up(1, block=own_block, weights="none")
    daemon = store.daemon(lab_dir)
    for pid, ticks in keeper_of(lab_dir).items():
        procs.send_signal(pid, ticks, 9)
    wait_until(
        lambda: not any(procs.is_alive(*one) for one in daemon.items()),
        what="the daemon to be gone",
    )
    lab.down()


def test_a_machine_without_rsync_has_a_lab_without_a_store(
    lab_dir: Path, own_block: str, monkeypatch
) -> None:
    monkeypatch.setattr(store, "find_rsync", lambda: "")
    lab = Lab(lab_dir).up(1, block=own_block, weights="none")
    assert lab.store()["daemon"] == "missing"
