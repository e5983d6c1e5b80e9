"""Containers for the engine's tests: one serving pair for all that only look, and fresh ones."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.lab_engine.units import Container, Units


@pytest.fixture
def units(tmp_path: Path) -> Iterator[Units]:
    """Start containers in this; all are ended, and nothing may be left."""
    started = Units(tmp_path)
    yield started
    started.end()


@pytest.fixture(scope="session")
def shared_pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Container, Container]]:
    """A serving GLM-5.2 unit that no test harms."""
    started = Units(tmp_path_factory.mktemp("unit"))
    yield started.serving_pair("--enable-auto-tool-choice", env={"NCCL_DEBUG": "INFO"})
    started.end()


@pytest.fixture
def head(shared_pair: tuple[Container, Container]) -> Container:
    return shared_pair[0]


@pytest.fixture
def follower(shared_pair: tuple[Container, Container]) -> Container:
    return shared_pair[1]
