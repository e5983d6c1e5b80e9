"""Every test that docs/promises.md names is there."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/promises.md").read_text()
NAMED = sorted(set(re.findall(r"`(tests/[\w/]+\.py(?:::\w+)+)`", PAGE)))
ROWS = [line for line in PAGE.splitlines() if line.startswith("| ") and "|---" not in line]
HEADS = ("| It cannot happen that ", "| When ")


@cache
def names_in(path: str) -> frozenset[str]:
    """The names of a file's tests as pytest writes them."""
    module = ast.parse((ROOT / path).read_text())
    classes = [node for node in module.body if isinstance(node, ast.ClassDef)]
    inside = {f"{one.name}::{name}" for one in classes for name in functions(one)}
    return frozenset(functions(module) | inside)


def functions(node: ast.Module | ast.ClassDef) -> set[str]:
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    return {child.name for child in node.body if isinstance(child, kinds)}


@pytest.mark.parametrize("name", NAMED)
def test_a_named_test_exists(name):
    path, _, test = name.partition("::")
    assert test in names_in(path)


def test_every_promise_names_a_test():
    promises = [row for row in ROWS if not row.startswith(HEADS)]
    assert len(promises) > 40
    assert [row for row in promises if "::test_" not in row] == []
