"""A manifest is read or refused with every problem named; a file that is not as it says is named with its kind."""

import contextlib
import hashlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet.lab import releases as lab
from fleet.rules import shards as rules
from fleet.rules.message import said

A, B = "a" * 64, "b" * 64
TWO = [rules.Shard("model-1.safetensors", A, 10), rules.Shard("model-2.safetensors", B, 20)]
HELD = {shard.name: rules.FileFound(shard.size, shard.sha256) for shard in TWO}


def problems(text: str, index: str = "") -> list[str]:
    with pytest.raises(rules.ManifestUnreadable) as refused:
        rules.read_checksums(text, index)
    return [said(one) for one in refused.value.problems]


def test_a_checksum_list_gives_names_hashes_and_sizes_where_they_are_told():
    text = (
        f"{A}  ./model-1.safetensors\r\n{B} *model-2.safetensors\n20 model-2.safetensors\n# end\n"
    )
    found = rules.read_checksums(text)
    assert [(one.name, one.sha256, one.size) for one in found] == [
        ("model-1.safetensors", A, None),
        ("model-2.safetensors", B, 20),
    ]


def test_what_the_index_names_and_the_list_does_not_is_refused_by_name():
    index = json.dumps({"weight_map": {"x": "model-1.safetensors", "y": "model-3.safetensors"}})
    assert problems(f"{A}  model-1.safetensors\n", index) == [
        "model-3.safetensors: the index names it, the checksum list does not"
    ]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "no line of a checksum list"),
        ("hello\n", "line 1: expected 64 hex digits"),
        (f"{A}  ../etc/passwd\n", "not a name of a file below"),
        (f"{A}  -rf\n", "not a name of a file below"),
        (f"{A}  /abs\n", "not a name of a file below"),
        (f"{A}  x\n{B}  x\n", "named twice"),
        ('[{"name": "x"}]', "row 1: expected name, size and sha256"),
        ("[", "not JSON"),
    ],
)
def test_what_is_no_manifest_is_refused(text, words):
    assert words in problems(text)[0]


def test_the_manifest_of_the_rehearsed_store_has_the_hash_that_its_releases_pin():
    rows = lab.seed_manifest("glm-5.2-fp8")
    found = rules.read_checksums(json.dumps(list(rows)))
    assert rules.manifest_sha256(found) == lab.manifest_sha256(rows)
    assert rules.part_hashes(found) == lab.seed_hashes("glm-5.2-fp8")


def test_files_as_the_manifest_says_differ_in_nothing():
    assert rules.compare(TWO, HELD) == []


@pytest.mark.parametrize(
    ("found", "kind"),
    [
        (None, rules.MISSING),
        (rules.FileFound(9, A), rules.SHORT),
        (rules.FileFound(11, A), rules.LONG),
        (rules.FileFound(10, B), rules.ALTERED),
        (rules.FileFound(10), rules.UNREAD),
    ],
)
def test_a_bad_file_is_named_with_its_kind_and_must_be_copied_again(found, kind):
    name = TWO[0].name
    held = {key: file for key, file in {**HELD, name: found}.items() if file}
    (one,) = rules.compare(TWO, held)
    assert (one.name, one.kind) == (name, kind)
    assert name in said(one.text)
    assert rules.bad_files([one]) == [name]


def test_an_extra_file_is_told_and_forbids_nothing_and_our_own_are_none():
    held = {
        **HELD,
        "old.bin": rules.FileFound(1, A),
        ".ready": rules.FileFound(1),
        ".partial/model-2.safetensors": rules.FileFound(5),
    }
    found = rules.compare(TWO, held)
    assert [(one.name, one.kind) for one in found] == [("old.bin", rules.EXTRA)]
    assert rules.bad_files(found) == []


def test_what_a_check_printed_is_read_and_a_torn_line_is_nothing():
    text = f"F 10 model-1.safetensors\nsha256sum: x: Input/output error\nH {A} model-1.safetensors\nF 20 mod"
    assert rules.read_found(text) == {"model-1.safetensors": rules.FileFound(10, A)}


def test_a_manifest_is_made_from_a_seed_node_only_when_every_file_was_read():
    shards, wrong = rules.made_from(HELD)
    assert (wrong, shards) == ([], TWO)
    _, wrong = rules.made_from({**HELD, "model-3.safetensors": rules.FileFound(5)})
    assert [said(text) for text in wrong] == [
        "model-3.safetensors was not read to its end, so nothing is known of it."
    ]
    _, wrong = rules.made_from({})
    assert wrong


def test_a_checksum_list_without_sizes_gets_them_from_a_node_that_agrees_only():
    bare = [rules.Shard(shard.name, shard.sha256) for shard in TWO]
    assert rules.made_from(HELD, bare) == (TWO, [])
    _, wrong = rules.made_from({**HELD, TWO[0].name: rules.FileFound(10, B)}, bare)
    assert "altered" in said(wrong[0])


def test_the_marker_names_the_revision_and_the_manifest():
    record = json.loads(rules.ready_record("glm", "c" * 40, TWO))
    assert record["revision"] == "c" * 40
    assert record["manifest_sha256"] == rules.manifest_sha256(TWO)
    assert (record["files"], record["bytes"]) == (2, 30)


@given(st.text(), st.text())
def test_no_text_makes_a_reader_fall_over(text, index):
    rules.read_found(text)
    with contextlib.suppress(rules.ManifestUnreadable):
        found = rules.read_checksums(text, index)
        assert all(rules.is_name(one.name) for one in found)


@given(st.dictionaries(st.sampled_from(["a", "b", "c"]), st.binary(max_size=4)))
def test_compare_is_empty_only_for_the_very_bytes(held):
    contents = {"a": b"1", "b": b"22"}
    wanted = [
        rules.Shard(name, hashlib.sha256(raw).hexdigest(), len(raw))
        for name, raw in contents.items()
    ]
    found = {
        name: rules.FileFound(len(raw), hashlib.sha256(raw).hexdigest())
        for name, raw in held.items()
    }
    bad = set(rules.bad_files(rules.compare(wanted, found)))
    assert bad == {name for name in contents if held.get(name) != contents[name]}
