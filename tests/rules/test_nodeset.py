import pytest

from fleet.rules.nodeset import NodesetError, fold_nodeset, parse_nodeset


@pytest.mark.parametrize(
    ("text", "taken", "left"),
    [
        ("all", ["all"], []),
        ("h100-001", ["h100-001"], []),
        ("h100-001, g01 h100-002", ["h100-001", "g01", "h100-002"], []),
        ("h100-[001-003]", ["h100-001", "h100-002", "h100-003"], []),
        ("h100-[009-011,020]", ["h100-009", "h100-010", "h100-011", "h100-020"], []),
        ("g[1-2]-[3,5]", ["g1-3", "g1-5", "g2-3", "g2-5"], []),
        ("h100-001,h100-001", ["h100-001"], []),
        ("all,!h100-[001-002]", ["all"], ["h100-001", "h100-002"]),
    ],
)
def test_it_expands_names_and_ranges(text, taken, left):
    assert parse_nodeset(text) == (taken, left)


@pytest.mark.parametrize(
    "text",
    [
        "", " , ", "!h100-001", "h100-[003-001]", "h100-[1-", "h100-[a-b]", "h100-[]", "-rf",
        "h100-001;reboot", "$(id)", "h100-[1-99999]", "../x", "UPPER", "h[1-2][1-2][1-2]x" * 400,
        "[1-2]" * 60, "a[1,1]" * 31, "[1]" * 1300,
    ],
)  # fmt: skip
def test_it_refuses_what_it_cannot_read(text):
    with pytest.raises(NodesetError, match="expected"):
        parse_nodeset(text)


def test_it_folds_neighbours_and_keeps_leading_zeros():
    names = ["h100-003", "h100-001", "h100-002", "h100-010", "g01", "bench"]
    assert fold_nodeset(names) == "g01,h100-[001-003,010],bench"


def test_folding_and_expanding_are_inverse():
    names = [f"h100-{n:03d}" for n in (1, 2, 3, 7, 48)] + ["g01", "g02", "solo"]
    assert sorted(parse_nodeset(fold_nodeset(names))[0]) == sorted(names)
