"""Real nodes for the watch: lab hosts as rows, subjects started through the shim, lines numbered by a shell."""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from fleet.execution import wire
from fleet.execution.models import Host, LogStream, Subject
from fleet.execution.remote import Connection, connect

LAYOUT = {"position": 0, "gpus_per_node": 8, "tp": 8, "pp": 1, "dp": 1}


@pytest.fixture
def hosts(lab: Any, transactional_db: None) -> list[Host]:
    """The lab's two nodes with their pinned keys."""
    return [
        Host.objects.create(
            name=row["name"],
            address=row["address"],
            port=row["ssh_port"],
            user=row["user"],
            host_key=row["host_key"],
            key_state=Host.Key.PINNED,
        )
        for row in lab.inventory()
    ]


class Node:
    """A connection to a node for a test's own calls."""

    def __init__(self, host: Host):
        self.host = host
        self.connection: Connection = connect(host, deadline=60)
        self.fence = 1

    def call(self, verb: str, name: str, lines: list[str]) -> dict[str, Any]:
        answer, body = self.connection.shim(verb, name, self.fence, lines, deadline=60)
        body.close()
        return answer

    def start(
        self,
        name: str,
        argv: list[str],
        *directives: str,
        epoch: int = 1,
        is_new: bool = True,
    ) -> Subject:
        """Start a subject on the node and write its rows, as a hand does."""
        lines = [f";epoch {epoch}", *directives, *wire.argument_lines(argv)]
        answer = self.call("start", name, lines)
        assert answer["answer"] in ("STARTED", "DONE"), answer
        if not is_new:
            Subject.objects.filter(name=name).update(state="live", epoch=epoch, rc=None)
            return Subject.objects.get(name=name)
        subject = Subject.objects.create(
            host=self.host, name=name, state="live", epoch=epoch, boot_id=answer["boot_id"]
        )
        LogStream.objects.create(subject=subject, layout=LAYOUT)
        return subject

    def stop(self, name: str) -> dict[str, Any]:
        return self.call("stop", name, [";grace 1"])


@pytest.fixture
def node(hosts: list[Host]) -> Iterator[Node]:
    """The first node; whatever a test started on it is stopped."""
    one = Node(hosts[0])
    yield one
    for subject in Subject.objects.filter(host=hosts[0]):
        one.fence += 1_000_000
        with contextlib.suppress(Exception):
            one.stop(subject.name)
    one.connection.close()


@pytest.fixture
def start_watch(run_child: Callable[..., Any], settings: Any) -> Callable[..., Any]:
    """Start a watch on this run's database."""

    def start(**env: str) -> Any:
        return run_child(["manage.py", "watch"], SSH_KEY_FILE=str(settings.SSH_KEY_FILE), **env)

    return start
