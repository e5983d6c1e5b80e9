"""Samples for the readings: real tool output of the corpus, and small ones of our own."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

OWN_SAMPLES = Path(__file__).resolve().parent.parent / "samples"


@dataclass(frozen=True)
class Sample:
    """One capture and what reading it by eye gave."""

    text: str
    expected: dict[str, Any]


@pytest.fixture
def corpus(shared_dir: Path) -> Callable[[str, str], Sample]:
    """Load a corpus sample by kind and number."""

    def load(kind: str, number: str) -> Sample:
        place = shared_dir / "corpus" / kind
        raw = (place / f"{number}.txt").read_bytes()
        described = json.loads((place / f"{number}.json").read_text())
        return Sample(raw.decode("utf-8", "replace"), described["expected"])

    return load


@pytest.fixture
def own_sample() -> Callable[[str], str]:
    """Load a sample of our own by its path under tests/samples."""

    def load(name: str) -> str:
        return (OWN_SAMPLES / name).read_bytes().decode("utf-8", "replace")

    return load
