"""A fault point that is renamed in the code fails here at once, not as a wait in vain in the long set."""

import ast
from collections.abc import Iterator
from functools import cache
from itertools import product
from pathlib import Path

from fleet.execution.wire import VERBS
from releases.rules.launch import LAUNCH_MOVES
from tests.fault_points import (
    ACCEPTANCE_POINTS,
    CONDUCTOR_POINTS,
    GATE_POINTS,
    HAND_POINTS,
    ROLLOUT_POINTS,
    WEB_POINT,
)

ROOT = Path(__file__).resolve().parents[1]
LISTED = {
    *HAND_POINTS,
    *CONDUCTOR_POINTS,
    *GATE_POINTS,
    *ACCEPTANCE_POINTS,
    *ROLLOUT_POINTS,
    WEB_POINT,
}
# What stands between the braces of a point's name, and the values it takes: a state after a move.
VALUES = {"verb": VERBS, "launch.state": frozenset().union(*LAUNCH_MOVES.values())}


@cache
def points() -> dict[str, set[str]]:
    """Every call of fault_point in the product: its place, and the names it can have."""
    found = {}
    for app in ("fleet", "releases", "runbooks", "console"):
        for path in sorted((ROOT / app).rglob("*.py")):
            source = path.read_text()
            if "fault_point(" in source:
                for call in calls(ast.parse(source)):
                    found[f"{path.relative_to(ROOT)}:{call.lineno}"] = set(names(call.args[0]))
    return found


def calls(tree: ast.Module) -> Iterator[ast.Call]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "fault_point":
            yield node


def names(argument: ast.expr) -> Iterator[str]:
    """Every name of a constant or an f-string; a field without known values is a KeyError."""
    pieces = argument.values if isinstance(argument, ast.JoinedStr) else [argument]
    choices = [
        [piece.value] if isinstance(piece, ast.Constant) else VALUES[ast.unparse(piece.value)]
        for piece in pieces
    ]
    yield from map("".join, product(*choices))


def test_every_listed_point_is_in_the_code():
    assert set().union(*points().values()) >= LISTED


def test_every_point_in_the_code_is_listed():
    """Of a name with a field one value is enough: not every verb or state is worth a kill."""
    assert [place for place, found in points().items() if not found & LISTED] == []


def test_no_point_is_named_in_two_places():
    named = [name for found in points().values() for name in found]
    assert sorted(set(named) & LISTED) == sorted(name for name in named if name in LISTED)
