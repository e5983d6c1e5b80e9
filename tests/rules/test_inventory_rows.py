"""Rows keep their lines, whatever form they were written in, and a row of many nodes comes apart."""

import pytest

from fleet.rules.inventory import BadRow
from fleet.rules.inventory_export import write_csv, write_yaml
from fleet.rules.inventory_file import ROWS_MAX, Inventory, read_inventory
from fleet.rules.inventory_rows import line_of
from fleet.rules.message import said
from fleet.rules.missing import BLOCKED, KEPT, PROPOSED, judge_missing
from fleet.rules.placement import check_unit

CSV = """name,address,user,leaf,rack
gpu01,10.0.0.1,fleet,1,R01

gpu02,10.0.0.300,fleet,1,R01
"""
YAML = """nodes:
- name: gpu01
  address: 10.0.0.1
- name: gpu02

  address: 10.0.0.300
"""
JSON = '[{"name": "gpu01"},\n {"name": "gpu02",\n  "address": "10.0.0.300"}]'


@pytest.mark.parametrize(("text", "line"), [(CSV, 4), (YAML, 6), (JSON, 3)])
def test_a_refusal_finds_its_line(text, line):
    row = read_inventory(text, numbered=True).nodes[1]
    assert row["name"] == "gpu02"
    assert line_of(row, "address: expected an IP address") == line
    assert line_of(dict(row), "address: expected") == 0, "nobody counted"


def test_json_that_is_no_yaml_is_read_without_lines():
    found = read_inventory('{"nodes": [\n\t{"name": "a",\n\t"rack":"R\\/1"}]}', numbered=True)
    assert found.nodes == [{"name": "a", "rack": "R/1"}]


def test_an_empty_cell_is_a_field_that_was_left_out():
    text = "\ufeffName;Address;user;leaf;rack;ssh_port\r\ngpu01;10.0.0.1;fleet;1;R01;\r\n"
    assert read_inventory(text).nodes == [
        {"name": "gpu01", "address": "10.0.0.1", "user": "fleet", "leaf": "1", "rack": "R01", "ssh_port": None}
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("name,address,colour\n", "line 1: expected columns .*found 'colour'"),
        ("name,address,user,leaf\n", "line 1: expected a column rack"),
        ("name,address,user,leaf,rack,name\n", "each column once"),
        (f"{CSV}gpu03,10.0.0.3\n", "line 5: expected 5 cells, as the head says, found 2"),
        (CSV + '"gpu03\n', "line 5: expected CSV"),
    ],
)
def test_what_is_no_table_is_refused_with_its_line(text, told):
    with pytest.raises(BadRow, match=told):
        read_inventory(text)


def test_a_row_of_many_nodes_is_one_row_for_each():
    text = "- {name: 'gpu[01-03]', address: '10.0.0.[9-11]', rack: R01}"
    assert [(row["name"], row["address"], row["rack"]) for row in read_inventory(text).nodes] == [
        ("gpu01", "10.0.0.9", "R01"),
        ("gpu02", "10.0.0.10", "R01"),
        ("gpu03", "10.0.0.11", "R01"),
    ]


@pytest.mark.parametrize(
    ("row", "told"),
    [
        ("{name: 'gpu[01-03]', address: 10.0.0.1}", "address: expected a range of 3 addresses"),
        ("{name: 'gpu[3-1]', address: '10.0.0.[1-3]'}", "name: expected a rising range"),
        ("{name: 'gpu[1-3]', address: 'fe80::[1-3]'}", "name: in address: expected"),
        ("{name: 'gpu[1-3]', address: '10.0.0.[1-3]', host_key: ssh-ed25519 A}", "host_key: expected none"),
    ],
)  # fmt: skip
def test_a_range_that_cannot_be_taken_apart_says_why(row, told):
    (found,) = read_inventory(f"- {row}", numbered=True).nodes
    assert said(found.problem).startswith(told)
    assert line_of(found) == 1


def test_ranges_together_are_limited_like_rows():
    row = "- {name: 'a[1-3000]', address: '10.0.0.[1-3000]'}\n"
    with pytest.raises(BadRow, match=f"expected at most {ROWS_MAX}, found 6000"):
        read_inventory(row * 2)


@pytest.mark.parametrize("nodes", ["gpu[01-02]", ["gpu[01-02]"], ["gpu01", "gpu[02]"]])
def test_a_unit_takes_a_node_set(nodes):
    row = {"name": "glm52-r1", "pool": "glm52", "nodes": nodes}
    assert check_unit(row).nodes == ("gpu01", "gpu02")


def test_a_unit_refuses_a_set_that_cannot_be_read():
    with pytest.raises(BadRow, match="nodes: expected a rising range"):
        check_unit({"name": "a", "pool": "p", "nodes": ["gpu[2-1]"]})


NODE = {
    "name": "gpu01",
    "address": "10.0.0.1",
    "ssh_port": 22,
    "leaf": 1,
    "rack": "010",
    "host_key": "",
}


def test_what_is_written_is_read_back():
    pool = {"slug": "glm52", "name": "GLM-5.2 池", "shape": "PP2 × TP8", "spare": False}
    unit = {"name": "r1", "pool": "glm52", "nodes": ["gpu01", "gpu02"]}
    text = write_yaml(Inventory([NODE], [pool], [unit]))
    found = read_inventory(text)
    assert found.units == [unit]
    assert found.pools == [pool | {"spare": "false"}]
    assert found.nodes[0]["rack"] == "010"
    assert "host_key" not in found.nodes[0]
    assert text.splitlines()[1].startswith("- {name: gpu01, address: 10.0.0.1,"), "a line a node"


def test_an_empty_fleet_is_written_and_csv_comes_back():
    assert read_inventory(write_yaml(Inventory())) == Inventory()
    row = NODE | {"user": "fleet", "host_key": "ssh-ed25519 AAAA"}
    assert read_inventory(write_csv([row])).nodes[0]["host_key"] == "ssh-ed25519 AAAA"


@pytest.mark.parametrize(
    ("words", "outcome"),
    [
        ({"misses": 0}, KEPT),
        ({"misses": 0, "unit": "r1"}, KEPT),
        ({"misses": 1}, PROPOSED),
        ({"misses": 1, "unit": "r1"}, BLOCKED),
        ({"misses": 4, "holders": ["bo"]}, BLOCKED),
    ],
)
def test_a_missing_node_goes_only_after_two_imports_and_free_of_people(words, outcome):
    found = judge_missing(**words)
    assert found.outcome == outcome
    assert found.explanation
