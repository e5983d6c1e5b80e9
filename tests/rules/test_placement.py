import pytest

from fleet.rules.inventory import BadRow
from fleet.rules.message import said
from fleet.rules.placement import NodeSeat, UnitRow, check_pool, check_unit, unit_problems

POOL = {"slug": "glm52", "shape": "PP2 x TP8", "unit_nodes": "2", "unit_gpus": "16"}
POOLS = {"glm52": check_pool(POOL), "spare": check_pool({"slug": "spare", "spare": "true"})}
NODES = {f"gpu0{n}": NodeSeat(8) for n in range(1, 7)}


def problems(*units: UnitRow, pools=POOLS, nodes=NODES, stuck=()) -> dict[str, str]:
    found = unit_problems(units, pools, nodes, dict(stuck))
    return {name: said(why) for name, why in found.items()}


def unit(number: int, *nodes: str, pool: str = "glm52") -> UnitRow:
    return UnitRow(f"glm52-r{number}", pool, nodes)


def test_a_pool_gets_its_defaults_and_its_shape_is_drawn_as_everywhere():
    pool = check_pool(POOL)
    assert (pool.name, pool.shape, pool.tone, pool.promised_units) == (
        "glm52",
        "PP2 × TP8",
        None,
        None,
    )


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("slug", "GLM"), ("slug", "a;b"), ("slug", "x" * 33), ("name", "x" * 65), ("name", "a\nb"),
        ("shape", "<b>"), ("unit_nodes", 0), ("unit_nodes", "two"), ("unit_gpus", 0), ("unit_gpus", True),
        ("spare", "perhaps"), ("tone", "red"), ("promised_units", -1), ("nodes", ["gpu01"]),
    ],
)  # fmt: skip
def test_a_broken_field_of_a_pool_is_refused_by_name(field, value):
    with pytest.raises(BadRow, match=f"^{field}"):
        check_pool({**POOL, field: value})


def test_shape_and_cards_of_a_pool_must_agree():
    with pytest.raises(BadRow, match="expected 16, the ranks of PP2 × TP8, found 8"):
        check_pool({**POOL, "unit_gpus": 8})
    with pytest.raises(BadRow, match="multiple of unit_nodes"):
        check_pool({**POOL, "shape": "", "unit_nodes": 3})


@pytest.mark.parametrize(
    ("field", "value"),
    [("name", "R 1"), ("name", ""), ("pool", None), ("nodes", "gpu01"), ("nodes", []), ("nodes", [1]),
     ("nodes", ["a", "a"]), ("position", 1)],
)  # fmt: skip
def test_a_broken_field_of_a_unit_is_refused_by_name(field, value):
    with pytest.raises(BadRow, match=f"^{field}"):
        check_unit({"name": "glm52-r1", "pool": "glm52", "nodes": ["a", "b"], field: value})


def test_units_that_agree_have_no_problem():
    assert problems(unit(1, "gpu01", "gpu02"), unit(2, "gpu03", "gpu04")) == {}


@pytest.mark.parametrize(
    ("one", "told"),
    [
        (unit(1, "gpu01", "gpu09"), "no node is called gpu09"),
        (unit(1, "gpu01"), "expected 2, as pool glm52 says, found 1"),
        (unit(1, "gpu01", "gpu02", pool="glm5"), r"expected one that holds units \(glm52\), found glm5"),
        (unit(1, "gpu01", "gpu02", pool="spare"), "expected one that holds units"),
    ],
)  # fmt: skip
def test_what_contradicts_is_told(one, told):
    import re

    assert re.search(told, problems(one)["glm52-r1"])


def test_a_node_in_two_units_is_refused_for_both():
    found = problems(unit(1, "gpu01", "gpu02"), unit(2, "gpu02", "gpu03"))
    assert set(found) == {"glm52-r1", "glm52-r2"}
    assert "gpu02 is named by 2 units" in found["glm52-r1"]


def test_a_wrong_number_of_cards_is_refused():
    nodes = {**NODES, "gpu02": NodeSeat(4)}
    assert (
        "expected 16 GPU together" in problems(unit(1, "gpu01", "gpu02"), nodes=nodes)["glm52-r1"]
    )


def test_a_retired_node_is_refused():
    nodes = {**NODES, "gpu02": NodeSeat(8, is_retired=True)}
    assert "retired" in problems(unit(1, "gpu01", "gpu02"), nodes=nodes)["glm52-r1"]


def seated(**units: str):
    """Nodes that belong to units now: gpu01="r1" stands for glm52-r1."""
    return NODES | {name: NodeSeat(8, f"glm52-{short}") for name, short in units.items()}


def test_a_node_of_a_unit_outside_the_file_is_refused():
    nodes = seated(gpu02="r7")
    found = problems(unit(1, "gpu01", "gpu02"), nodes=nodes)
    assert "gpu02 belongs to glm52-r7" in found["glm52-r1"]


def test_units_may_swap_nodes_within_one_file():
    nodes = seated(gpu01="r1", gpu02="r1", gpu03="r2", gpu04="r2")
    assert problems(unit(1, "gpu01", "gpu03"), unit(2, "gpu02", "gpu04"), nodes=nodes) == {}


def test_a_unit_that_cannot_change_keeps_its_nodes_from_all_that_wanted_them():
    nodes = seated(gpu01="r1", gpu02="r1", gpu03="r2", gpu04="r2", gpu05="r3", gpu06="r3")
    units = (
        unit(1, "gpu05", "gpu06"),
        unit(2, "gpu01", "gpu02"),
        unit(3, "gpu03", "gpu04"),
    )
    found = problems(*units, nodes=nodes, stuck={"glm52-r1": "it is ready"})
    assert set(found) == {"glm52-r1", "glm52-r2", "glm52-r3"}
