import pytest

from fleet.rules.inventory import BadRow
from fleet.rules.inventory_file import BYTES_MAX, ROWS_MAX, read_inventory

WHOLE = """
# written by a person
nodes:
  - {name: gpu01, rack: NO, leaf: 010, model_root: }
pools:
  - slug: glm52
units:
  - name: glm52-r1
    nodes: [gpu01, gpu02]
"""


def test_one_file_declares_nodes_pools_and_units():
    found = read_inventory(WHOLE)
    assert found.units == [{"name": "glm52-r1", "nodes": ["gpu01", "gpu02"]}]
    assert found.pools == [{"slug": "glm52"}]


def test_a_scalar_stays_the_text_that_was_written():
    node = read_inventory(WHOLE).nodes[0]
    assert node == {"name": "gpu01", "rack": "NO", "leaf": "010", "model_root": None}


@pytest.mark.parametrize(
    "text",
    ['[{"name": "a"}]', "- name: a", '{"nodes": [{"name": "a"}]}', "{nodes: [{name: a}]}"],
)
def test_json_and_a_bare_list_of_nodes_are_read_too(text):
    assert read_inventory(text).nodes == [{"name": "a"}]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "an empty file"), ("{}", "list of nodes"), ("x", "list of nodes"), ("[1]", "list of objects"),
        ("nodes: x", "nodes: expected a list"), ("hosts: []", "found 'hosts'"), ("\0", "control characters"),
        ("nodes: [", "line 2: expected YAML"), ('[{"a"', "expected YAML"), ("nodes: []\n--- x", "one document"),
        ("nodes: []\nnodes: []", "line 2: expected each key once"), ('{"nodes": [], "nodes": []}', "each key once"),
        ("a: &x [1]\nb: *x", "an alias"), ("!!python/object/apply:os.system [id]", "a tag"),
        ("nodes: !!binary aGk=", "a tag"), ("? [a]\n: b", "plain word as a key"),
        ("[" * 100_000, "too many"), ("{a: " * 100_000, "levels"), ("nodes:\n" + "- {a: b}\n" * (ROWS_MAX + 1), "5000"),
        ("#" * (BYTES_MAX + 1), "bytes"),
    ],
)  # fmt: skip
def test_whatever_is_no_inventory_is_refused_in_words(text, told):
    with pytest.raises(BadRow, match=told):
        read_inventory(text)
