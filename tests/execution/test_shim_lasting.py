"""What lasts on a node: an output within its cap, a container that outlives its client, and what is forgotten."""

import os
import signal
import subprocess

import pytest

from tests.execution.local_node import LocalNode
from tests.waiting import wait_until

ID = "b" * 64
# A daemon whose one container is a child of nobody, and a client that prints what it says.
DOCKER = r"""
[ -e "$HOME/silent" ] && exit 1
case $1 in
run)
    echo running >"$HOME/box"
    (unset FLOTILLA_SUBJECT; setsid sh -c '
        i=0; while [ ! -e "$HOME/end" ]; do
            i=$((i+1)); date +%s.%N >>"$HOME/times"; echo "n $i" >>"$HOME/boxlog"; sleep 0.05
        done
        echo exited >"$HOME/box"' &) >/dev/null 2>&1 </dev/null
    until [ -s "$HOME/boxlog" ]; do sleep 0.05; done
    exec tail -n +1 -f "$HOME/boxlog" ;;
logs)
    n=$(awk -v since="$4" '$1 < since' "$HOME/times" | wc -l)
    while state=$(cat "$HOME/box"); do
        to=$(wc -l <"$HOME/boxlog"); sed -n "$((n + 1)),${to}p" "$HOME/boxlog"; n=$to
        [ "$state" = running ] || exit 0
        sleep 0.1
    done ;;
ps) [ ! -e "$HOME/box" ] || echo ID ;;
inspect) case $3 in *Status*) cat "$HOME/box" ;; *) echo 7 ;; esac ;;
stop) true >"$HOME/end"; while [ "$(cat "$HOME/box")" = running ]; do sleep 0.1; done ;;
esac
"""


def tool(node: LocalNode, name: str, text: str) -> None:
    bin_dir = node.home / "bin"
    bin_dir.mkdir(exist_ok=True)
    if not node.path.startswith(str(bin_dir)):
        node.path = f"{bin_dir}:{node.path}"
    (bin_dir / name).write_text(f"#!/bin/sh\n{text}")
    (bin_dir / name).chmod(0o755)


class TestCap:
    def start(self, node: LocalNode, script: str) -> None:
        answer = node.start("s1", 1, ["sh", "-c", script], ";epoch 1", ";cap 200000", ";every 1")
        assert answer["answer"] == "STARTED"

    def floor(self, node: LocalNode) -> int:
        return node.status("s1")["floor"]

    def test_an_output_above_its_cap_gives_its_older_half_back(self, node: LocalNode):
        self.start(node, "seq 1 200000; echo end; exec sleep 100")
        floor = wait_until(lambda: self.floor(node), what="a floor")
        whole = "".join(f"{n}\n" for n in range(1, 200001)).encode() + b"end\n"
        assert floor == (len(whole) - 100_000) // 4096 * 4096
        wait_until(
            lambda: node.file("s1", "out").stat().st_blocks * 512 < 200_000, what="blocks freed"
        )
        assert node.out("s1")[floor:] == whole[floor:]
        answer, body = node.call("logs", "s1", 0, [f";offset {floor}"])
        assert (answer["floor"], answer["size"]) == (floor, len(whole))
        assert body == whole[floor:]

    def test_a_small_output_is_left_alone_and_nothing_watches_an_ended_one(self, node: LocalNode):
        self.start(node, "seq 1 1000; sleep 2")
        wait_until(lambda: node.status("s1")["answer"] == "DONE", what="its end")
        assert self.floor(node) == 0

        def watchers() -> bytes:
            found = subprocess.run(["ps", "-eo", "args"], capture_output=True, check=True).stdout
            return b"\n".join(
                line for line in found.splitlines() if str(node.home).encode() in line
            )

        wait_until(lambda: b"_bound" not in watchers(), what="the watcher of the output gone")

    def test_a_new_epoch_begins_without_a_floor(self, node: LocalNode):
        self.start(node, "seq 1 100000; exec sleep 100")
        floor = wait_until(lambda: self.floor(node), what="a floor")
        node.stop("s1", 2)
        node.start("s1", 3, ["echo", "again"], ";epoch 2")
        assert self.floor(node) == 0
        assert node.call("logs", "s1", 0, [";epoch 1"])[0]["floor"] == floor


class TestAttach:
    @pytest.fixture
    def engine(self, node: LocalNode) -> LocalNode:
        """A subject whose docker client prints what its container says."""
        tool(node, "docker", DOCKER.replace("ID", ID))
        argv = ["docker", "run", "--name", "fc-x", "image"]
        assert node.start("s1", 1, argv, ";epoch 1", ";container fc-x")["answer"] == "STARTED"
        wait_until(lambda: b"n 3\n" in node.out("s1"), what="lines of the container")
        yield node
        (node.home / "end").touch()

    def kill_client(self, node: LocalNode) -> None:
        os.kill(node.status("s1")["pid"], signal.SIGKILL)

    def test_a_container_that_outlives_its_client_is_followed_under_a_new_epoch(self, engine):
        before = engine.status("s1")
        self.kill_client(engine)
        after = wait_until(
            lambda: (s := engine.status("s1"))["epoch"] == 2 and s["pid"] != before["pid"] and s,
            what="the second epoch",
        )
        assert (after["answer"], after["rc"]) == ("RUNNING", None)
        last = len(engine.out("s1").splitlines())
        wait_until(lambda: len(engine.out("s1").splitlines()) > last + 3, what="more lines")
        (engine.home / "end").touch()
        done = wait_until(
            lambda: (s := engine.status("s1"))["answer"] == "DONE" and s, what="its end"
        )
        assert done["rc"] == 7, "the container's, not the client's"
        first, second = engine.file("s1", "out.1").read_bytes(), engine.out("s1")
        numbers = [int(line.split()[1]) for line in (first + second).splitlines()]
        total = len((engine.home / "boxlog").read_text().splitlines())
        assert sorted(set(numbers)) == list(range(1, total + 1))

    def test_it_never_looks_ended_while_it_is_not_known(self, engine):
        self.kill_client(engine)
        seen = {engine.status("s1")["answer"] for _ in range(20)}
        assert seen == {"RUNNING"}

    def test_a_stop_ends_it_after_the_client_died(self, engine):
        self.kill_client(engine)
        wait_until(lambda: engine.status("s1")["epoch"] == 2, what="the second epoch")
        assert engine.stop("s1", 2, 1, ";container fc-x")["answer"] == "GONE"
        assert (engine.home / "box").read_text() == "exited\n"
        assert engine.processes("s1") == []
        assert engine.status("s1")["answer"] == "DONE"

    def test_a_docker_that_is_silent_keeps_it_open_until_it_answers(self, engine):
        (engine.home / "silent").touch()
        self.kill_client(engine)
        assert engine.status("s1")["answer"] == "RUNNING"
        (engine.home / "silent").unlink()
        wait_until(lambda: engine.status("s1")["epoch"] == 2, what="the second epoch")

    def test_a_container_that_ended_with_its_client_gives_its_own_code(self, engine):
        (engine.home / "end").touch()
        wait_until(lambda: (engine.home / "box").read_text() == "exited\n", what="its end")
        self.kill_client(engine)
        done = wait_until(
            lambda: (s := engine.status("s1"))["answer"] == "DONE" and s, what="its end"
        )
        assert (done["rc"], done["epoch"]) == (7, 1)

    def test_a_run_that_docker_refuses_ends_at_once_with_its_code(self, node: LocalNode):
        tool(node, "docker", "exit 125\n")
        node.start("s1", 1, ["docker", "run", "image"], ";epoch 1", ";container fc-x")
        done = wait_until(
            lambda: (s := node.status("s1"))["answer"] == "DONE" and s, what="its end"
        )
        assert (done["rc"], done["epoch"]) == (125, 1)


class TestForget:
    def forget(self, node: LocalNode, fence: int, *directives: str) -> dict:
        return node.call("stop", "s1", fence, [";forget 1", ";guard 1", *directives])[0]

    def test_what_ended_is_forgotten_and_no_older_start_brings_it_back(self, node: LocalNode):
        node.start("s1", 5, ["true"])
        node.start("s2", 6, ["true"])
        wait_until(lambda: node.status("s1")["answer"] == "DONE", what="its end")
        assert self.forget(node, 9)["answer"] == "GONE"
        assert not node.file("s1", "").exists()
        assert node.file("s2", "rc").exists()
        late = node.start("s1", 7, ["touch", str(node.home / "twice")])
        assert late["answer"] == "FENCED"
        assert not (node.home / "twice").exists()
        assert node.start("s3", 10, ["true"])["answer"] in ("STARTED", "DONE")

    def test_what_lives_is_kept_and_goes_on(self, node: LocalNode):
        node.start("s1", 5, ["sleep", "100"])
        assert self.forget(node, 9)["answer"] == "BUSY"
        assert node.status("s1")["answer"] == "RUNNING"

    def test_leftovers_of_an_ended_command_keep_it(self, node: LocalNode):
        node.start("s1", 5, ["sh", "-c", "setsid sleep 100 & exit 0"])
        wait_until(lambda: node.status("s1")["answer"] == "DONE", what="its end")
        assert self.forget(node, 9)["answer"] == "BUSY"
        assert node.file("s1", "rc").exists()

    @pytest.mark.parametrize(
        ("text", "word"), [("echo abc\n", "BUSY"), ("exit 1\n", "UNCONFIRMED"), ("true\n", "GONE")]
    )
    def test_only_a_container_that_is_proved_gone_lets_it_go(self, node: LocalNode, text, word):
        node.start("s1", 5, ["true"])
        wait_until(lambda: node.status("s1")["answer"] == "DONE", what="its end")
        tool(node, "docker", text)
        assert self.forget(node, 9, ";container fc-x")["answer"] == word

    def test_forgetting_twice_is_harmless(self, node: LocalNode):
        node.start("s1", 5, ["true"])
        wait_until(lambda: node.status("s1")["answer"] == "DONE", what="its end")
        assert [self.forget(node, fence)["answer"] for fence in (9, 10)] == ["GONE", "GONE"]
        assert (node.home / ".flotilla" / "floor").read_text() == "10\n"
