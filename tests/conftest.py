"""Fixtures that every test may ask for."""

from __future__ import annotations

from pathlib import Path

import pytest

_SHARED = Path(__file__).resolve().parent / "../../shared"


@pytest.fixture(scope="session")
def shared_dir() -> Path:
    """The directory of reference material beside the repository; tests skip when it is absent."""
    if not _SHARED.is_dir():
        pytest.skip(f"reference material not found at {_SHARED.resolve()}")
    return _SHARED.resolve()
