"""Contrast of the pairs that carry text or signs, computed from the tokens (WCAG 2.2: 4.5 for text, 3 for parts)."""

import re

import pytest

from tests.views.conftest import ROOT

_TOKEN = re.compile(r"--([\w-]+): light-dark\((#[0-9a-f]{6}), (#[0-9a-f]{6})\)")
_SAME = re.compile(r"--([\w-]+): (#[0-9a-f]{6});")
TEXT = [
    ("fg", "bg", 7.0), ("fg", "panel", 7.0), ("fg-2", "bg", 7.0), ("fg-2", "panel", 7.0), ("fg-2", "panel-2", 6.5),
    ("fg-3", "bg", 4.5), ("fg-3", "panel", 4.5), ("fg-3", "inset", 4.5),
    ("accent", "panel", 4.5), ("accent", "accent-bg", 4.5),
    ("btn-fg", "btn", 4.5), ("p52-t", "inset", 4.5),
    *((tone, "panel", 4.5) for tone in ("ok", "run", "hold", "warn", "crit", "idle")),
    *((tone, f"{tone}-bg", 4.5) for tone in ("ok", "run", "hold", "warn", "crit")),
    ("add-fg", "add-bg", 4.5), ("del-fg", "del-bg", 4.5),
]  # fmt: skip
PARTS = [
    ("p51", "panel"),
    ("p52", "panel"),
    ("pds", "panel"),
    ("psp", "panel"),
    ("ctl-line", "panel"),
]


def tokens() -> tuple[dict[str, str], dict[str, str]]:
    text = (ROOT / "static/css/tokens.css").read_text(encoding="utf-8")
    light = {name: first for name, first, _second in _TOKEN.findall(text)}
    dark = {name: second for name, _first, second in _TOKEN.findall(text)}
    same = dict(_SAME.findall(text))
    return {**same, **light}, {**same, **dark}


def luminance(colour: str) -> float:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def ratio(first: str, second: str) -> float:
    high, low = sorted((luminance(first), luminance(second)), reverse=True)
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
@pytest.mark.parametrize(("front", "back", "least"), TEXT)
def test_text_stands_out(theme, front, back, least):
    colours = tokens()[theme]
    assert ratio(colours[front], colours[back]) >= least


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
@pytest.mark.parametrize(("front", "back"), PARTS)
def test_parts_stand_out(theme, front, back):
    colours = tokens()[theme]
    assert ratio(colours[front], colours[back]) >= 3.0
