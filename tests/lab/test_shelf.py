"""Faults of model files change one file of one node and nothing else, and can be undone."""

import json
import subprocess
from datetime import UTC, datetime
from pathlib import Path

import pytest

from fleet.lab import birth, faults, releases
from fleet.lab.node import Lab
from fleet.lab.place import LabError
from tests.needs import needs_rsync

MODEL = "deepseek-v4-flash"
NAME = "model-00002-of-00046.safetensors"


@pytest.fixture
def site(lab_dir: Path):
    lab = Lab(lab_dir).lay_out(2, weights="seeded")
    return faults.open_site(lab.directory, lab.host("h100-001"), datetime.now(UTC), {})


def wrong(directory: Path) -> dict[str, str]:
    models = birth.model_directory(directory / "root" / "models", MODEL)
    contents = releases.model_files(MODEL)
    found = {name: (models / name).read_bytes() for name in contents if (models / name).exists()}
    return {
        name: "missing" if name not in found else "other bytes"
        for name, raw in contents.items()
        if found.get(name) != raw
    }


@pytest.mark.parametrize(
    ("fault", "what"), [("shard.corrupt", "other bytes"), ("shard.missing", "missing")]
)
def test_one_file_of_one_node_is_harmed_and_comes_back(site, fault: str, what: str) -> None:
    row = faults.find_fault(fault)
    faults.put_on(site, row, faults.read_arguments(row, {"n": 2}), "f-1")
    models = birth.model_directory(site.directory / "root" / "models", MODEL)

    assert wrong(site.directory) == {NAME: what}
    assert (models / ".ready").exists()
    assert wrong(site.directory.parent / "h100-002") == {}
    faults.take_off(site, None)
    assert wrong(site.directory) == {}


def test_a_shard_or_model_that_is_none_is_refused(site) -> None:
    row = faults.find_fault("shard.corrupt")
    for words, why in (({"n": 47}, "shards 1 to 46"), ({"model": "gpt"}, "no model gpt")):
        with pytest.raises(LabError, match=why):
            faults.put_on(site, row, faults.read_arguments(row, words), "f-1")


@needs_rsync
def test_a_full_disk_fails_the_copy_as_a_real_one_does(site, tmp_path: Path) -> None:
    (tmp_path / "small").write_bytes(b"x" * 100)
    (tmp_path / "large").write_bytes(b"x" * 9000)
    row = faults.find_fault("disk.full")
    faults.put_on(site, row, faults.read_arguments(row, {}), "f-1")
    assert json.loads((site.directory / "faults.json").read_text())[0]["name"] == "disk.full"

    def copy(name: str) -> subprocess.CompletedProcess:
        argv = [str(site.lab / "bin" / "rsync"), str(tmp_path / name), str(tmp_path / "to") + "/"]
        return subprocess.run(
            argv, env=site.host.environment(), capture_output=True, text=True, check=False
        )

    done = copy("large")
    assert done.returncode == 11
    assert "No space left on device (28)" in done.stdout
    assert copy("small").returncode == 0
    faults.take_off(site, None)
    assert copy("large").returncode == 0
