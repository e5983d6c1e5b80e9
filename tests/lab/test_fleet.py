"""The reference fleet and its seeded releases."""

import json
from hashlib import sha256
from pathlib import Path

import pytest

from fleet.lab import birth, fabric, releases
from fleet.lab.node import Lab


def test_the_reference_fleet_is_whole() -> None:
    places = fabric.fleet_places(48, "127.0.13")

    assert [p.number for p in places if not p.unit] == [7, 8, 23, 24, 39, 40]
    units = fabric.units_of(48)
    assert {pool: sum(u.startswith(pool) for u in units) for pool in fabric.REFERENCE} == {
        "glm51": 7,
        "glm52": 7,
        "dsv4": 14,
    }
    assert sorted(n for members in units.values() for n in members) == [
        p.number for p in places if p.unit
    ]
    node = places[27]
    assert (node.name, node.address, node.leaf, node.rack, node.rack_unit) == (
        "h100-028", "127.0.13.28", 4, "R08", 21,
    )  # fmt: skip
    assert (node.unit, node.position) == ("glm52-r4", 1)


def test_a_unit_stays_on_one_leaf_and_a_rack_has_four_nodes() -> None:
    places = fabric.fleet_places(48, "127.0.13")
    by_number = {place.number: place for place in places}

    for members in fabric.units_of(48).values():
        assert len({by_number[number].leaf for number in members}) == 1
    racks = [place.rack for place in places]
    assert {rack: racks.count(rack) for rack in racks} == {f"R{n:02d}": 4 for n in range(1, 13)}


@pytest.mark.parametrize(
    ("size", "units"),
    [
        (2, {"glm52-r1": (1, 2)}),
        (4, {"glm52-r1": (1, 2), "dsv4-r1": (3,)}),
        (8, {"glm51-r1": (1, 2), "glm52-r1": (3, 4), "dsv4-r1": (5,), "dsv4-r2": (6,)}),
    ],
)
def test_a_small_fleet_has_whole_units_only(size: int, units: dict) -> None:
    assert fabric.units_of(size) == units


def test_a_fleet_has_at_most_48_nodes() -> None:
    with pytest.raises(ValueError, match="1 to 48"):
        fabric.fleet_places(49, "127.0.13")


@pytest.mark.parametrize("slug", releases.SEED_RELEASES)
def test_the_files_on_a_node_are_those_of_the_manifest(slug: str, lab_dir: Path) -> None:
    lab = Lab(lab_dir).lay_out(1, weights="seeded")
    release = releases.SEED_RELEASES[slug]
    root = lab.host("h100-001").directory / "root" / "models"
    directory = birth.model_directory(root, release["model"])

    found = {
        path.name: sha256(path.read_bytes()).hexdigest()
        for path in directory.iterdir()
        if path.name != ".ready"
    }

    manifest = releases.seed_manifest(release["model"])
    assert found == {row["name"]: row["sha256"] for row in manifest}
    ready = json.loads((directory / ".ready").read_text())
    assert ready["manifest_sha256"] == release["manifest_sha256"]
    assert ready["files"] == len(manifest)
    assert ready["bytes"] == sum(row["size"] for row in manifest)
    assert release["hashes"]["tokenizer"] == found["tokenizer.json"]


def test_releases_name_their_image_by_digest_and_their_flags_exist() -> None:
    flags = Path(birth.PACKAGE) / "stubs" / "flags"
    for release in releases.SEED_RELEASES.values():
        assert release["image"].endswith(f"@{release['image_digest']}")
        names = json.loads((flags / f"{release['vllm_version']}.json").read_text())
        known = {alias for row in names.values() for alias in row["all"]}
        assert {word for word in release["args"] if word.startswith("--")} <= known


@pytest.mark.parametrize(
    ("first", "second"), [("glm-5.1-fp8", "glm-5.2-fp8"), ("glm-5.2-fp8", "glm-5.2-fp8/2")]
)
def test_revisions_differ_in_every_shard(first: str, second: str) -> None:
    one, other = releases.model_files(first), releases.model_files(second)
    shards = [name for name in one if name.endswith(".safetensors")]

    assert len(shards) == 141
    assert all(one[name] != other[name] for name in shards)
    assert max(map(len, one.values())) < 16_384
