"""Nodes for the kernel's tests: the shim alone, and plain OpenSSH daemons on free ports of loopback."""

from collections.abc import Iterator

import pytest

from tests.execution.local_node import LocalNode, local_node


@pytest.fixture
def node() -> Iterator[LocalNode]:
    with local_node() as node:
        yield node
