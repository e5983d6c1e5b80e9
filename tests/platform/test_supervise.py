"""The supervisor on a tree of small shells: order, exit codes, and nothing left behind."""

import secrets
import signal
import sys

import pytest

from console.embedded.leftovers import find_marked
from tests.children import Child


@pytest.fixture
def token():
    return secrets.token_hex(8)


@pytest.fixture
def start_tree(run_child, tmp_path, token, wait_until):
    def start(*words: str) -> Child:
        argv = [sys.executable, "-m", "tests.platform.tiny_tree", token, str(tmp_path), *words]
        tree = run_child(argv)
        wait_until(lambda: "ready\n" in tree.log, what="the tree to come up")
        return tree

    return start


def marked(token: str) -> list[int]:
    return find_marked([f"FLOTILLA_SUPERVISOR={token}"])


def test_it_stops_the_last_wave_first_and_exits_0(start_tree, tmp_path, token):
    tree = start_tree()
    tree.send_signal(signal.SIGINT)
    assert tree.wait(timeout=20) == 0
    assert (tmp_path / "stopped").read_text().split() == ["top", "middle", "base"]
    assert marked(token) == []


def test_it_prefixes_every_line_with_the_name(start_tree):
    tree = start_tree()
    assert [line for line in tree.log.splitlines() if "is up" in line] == [
        f"{name:<10} | {name} is up" for name in ("base", "middle", "top")
    ]


def test_the_end_of_one_child_ends_all_with_its_code(start_tree, token):
    tree = start_tree("0.2")
    assert tree.wait(timeout=20) == 7
    assert marked(token) == []


def test_a_killed_supervisor_leaves_nothing(start_tree, token, wait_until):
    tree = start_tree()
    assert len(marked(token)) >= 3
    tree.kill()
    wait_until(lambda: not marked(token), timeout_s=15, what="the tree to vanish")


def test_a_child_that_ignores_its_signal_is_killed(run_child, tmp_path, token, wait_until):
    script = f"""
import sys
from console.embedded.supervise import Service, StopAsked, Supervisor
supervisor = Supervisor({token!r})
stubborn = ["sh", "-c", "trap '' TERM; echo deaf; while :; do sleep 0.1; done"]
supervisor.start(Service("stubborn", stubborn, grace_s=0.3, ready_text="deaf"))
supervisor.wait_ready("stubborn")
print("ready", flush=True)
try:
    supervisor.watch()
except StopAsked:
    supervisor.stop()
"""
    tree = run_child([sys.executable, "-c", script])
    wait_until(lambda: "ready\n" in tree.log, what="the stubborn child")
    tree.send_signal(signal.SIGTERM)
    assert tree.wait(timeout=20) == 0
    assert "stubborn did not end within" in tree.log
    assert marked(token) == []


def test_what_a_grandchild_in_its_own_session_started_is_found(run_child, token, wait_until):
    script = f"""
from console.embedded.supervise import Service, Supervisor
supervisor = Supervisor({token!r})
supervisor.run_once(Service("task", ["sh", "-c", "setsid sleep 300 & exit 0"], is_task=True))
print("ready", flush=True)
supervisor.stop()
"""
    tree = run_child([sys.executable, "-c", script])
    assert tree.wait(timeout=20) == 0
    assert marked(token) == []


def test_a_failing_task_is_reported_with_its_code(run_child, token):
    script = f"""
import sys
from console.embedded.supervise import ChildEnded, Service, Supervisor
supervisor = Supervisor({token!r})
try:
    supervisor.run_once(Service("migrate", ["sh", "-c", "printf partial; exit 5"], is_task=True))
except ChildEnded as problem:
    print(problem, flush=True)
supervisor.stop()
"""
    tree = run_child([sys.executable, "-c", script])
    assert tree.wait(timeout=20) == 0
    assert "migrate ended with exit code 5" in tree.log
    assert "migrate    | partial" in tree.log
