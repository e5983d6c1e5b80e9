"""Nodes for the kernel's tests: the shim alone, and plain OpenSSH daemons on free ports of loopback."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.execution.local_node import LocalNode, local_node
from tests.execution.plain_sshd import SSHD, PlainSshd, plain_sshds


@pytest.fixture
def node() -> Iterator[LocalNode]:
    with local_node() as node:
        yield node


@pytest.fixture
def make_sshd(settings: Any) -> Iterator[Callable[..., PlainSshd]]:
    """Make a plain SSH daemon that the console's key of this test opens."""
    if not Path(SSHD).exists():
        pytest.skip("OpenSSH's sshd is not installed; run `make install` as root")
    with plain_sshds() as make:
        settings.SSH_KEY_FILE = make.key
        settings.NODE_CIDRS = ["127.0.0.0/8"]
        yield make


@pytest.fixture
def sshd(make_sshd: Callable[..., PlainSshd]) -> PlainSshd:
    return make_sshd()
