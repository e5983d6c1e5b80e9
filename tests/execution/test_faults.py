"""Real workers, real sshd, real kills: whatever dies when it likes, the node sees each start once."""

import contextlib
import fcntl
import os
import pickle
import signal
import socket
import sys
import threading
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

import django_rq
import pytest
from django.db import transaction

from console.embedded.ports import reserve_port
from fleet.execution import states
from fleet.execution.dispatch import JOB, subject_create, sweep
from fleet.execution.models import Command, Subject
from tests.children import end_child, start_child
from tests.execution.orders import fresh, order_probe, order_start, order_stop
from tests.execution.workers import ROOT, Hand, is_live, settle
from tests.fault_points import DISPATCH_POINTS, HAND_POINTS
from tests.waiting import wait_until

# Only the kernel's tables are emptied after each test: flushing all of them costs seconds.
pytestmark = [
    pytest.mark.django_db(transaction=True, available_apps=["fleet.execution"]),
    pytest.mark.faults,
]

# Counts its own starts, then lasts.
COUNTED = ["sh", "-c", 'echo "$1" >>"$HOME/starts"; sleep 60', "sh"]


@pytest.fixture(scope="module")
def fault_file(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("fault") / "armed"


@pytest.fixture(scope="module")
def standing_hand(spawn_hand, fault_file) -> Hand:
    """One worker for the whole module: starting a process is what costs here."""
    return spawn_hand(FAULT_POINT=f"@{fault_file}")


@pytest.fixture
def hand(standing_hand, redis_client) -> Iterator[Hand]:
    """The standing worker, with empty queues."""
    yield standing_hand
    for pid in [standing_hand.pid, *standing_hand.horses()]:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)
    wait_until(lambda: not standing_hand.horses(), timeout_s=40, what="an idle worker")


@pytest.fixture
def arm(fault_file) -> Callable[[str], Path]:
    """Arm a fault point of the standing worker; return the file that is there once it fired."""
    fired = fault_file.with_name(f"{fault_file.name}.fired")
    fired.unlink(missing_ok=True)

    def arm(what: str) -> Path:
        fault_file.write_text(what)
        return fired

    return arm


@pytest.fixture
def extra_hand(spawn_hand) -> Iterator[Callable[[], Hand]]:
    """A second worker, for tests that kill one."""
    made: list[Hand] = []

    def make() -> Hand:
        made.append(spawn_hand())
        return made[-1]

    yield make
    for hand in made:
        end_child(hand)


def starts(sshd) -> list[str]:
    path = sshd.home / "starts"
    return path.read_text().split() if path.exists() else []


def assert_started_once(sshd, command: Command) -> None:
    assert command.state == states.SUCCEEDED, command.explanation
    wait_until(lambda: starts(sshd), what="the command's first word")
    assert starts(sshd) == [command.subject.name]
    wait_until(
        lambda: len(sshd.node.processes(command.subject.name)) == 3, what="runner, sh and sleep"
    )
    assert command.subject.state == states.SUBJECT_LIVE


class TestHorseDies:
    @pytest.mark.parametrize("point", HAND_POINTS)
    def test_at_any_point_the_start_happens_once(self, sshd, hand, arm, point):
        fired = arm(point)
        command = order_start(sshd.host(), [*COUNTED, "s1"])
        (command,) = settle(command)
        wait_until(fired.exists, what="the kill")
        assert_started_once(sshd, command)


class TestDispatcherDies:
    @pytest.mark.parametrize("point", DISPATCH_POINTS)
    def test_the_row_alone_is_the_order(self, sshd, hand, hand_env, tmp_path, point):
        host = sshd.host()
        code = (
            "import django; django.setup()\n"
            "from fleet.execution.models import Host\n"
            "from tests.execution.orders import order_start\n"
            f"order_start(Host.objects.get(pk={host.pk}), {[*COUNTED, 's1']!r})\n"
        )
        env = {**hand_env, "FAULT_POINT": point, "PYTHONPATH": str(ROOT)}
        asker = start_child([sys.executable, "-c", code], env, tmp_path / "asker.log", ROOT)
        assert asker.wait(60) == -signal.SIGKILL, asker.log
        (command,) = settle(Command.objects.get())
        assert_started_once(sshd, command)


class TestWorkerDies:
    def test_its_horse_dies_with_it_and_another_worker_adopts(self, sshd, hand, extra_hand):
        hand.send_signal(signal.SIGSTOP)
        first = extra_hand()
        subject = subject_create(host=sshd.host(), name="s1")
        with held_lock(sshd, "s1"):
            command = order_start(subject.host, [*COUNTED, "s1"], subject=subject)
            settle(command, state=states.RUNNING)
            horses = first.horses()
            assert horses
            first.kill()
            first.wait()
            wait_until(lambda: not any(map(is_live, horses)), what="death of the horse")
        hand.send_signal(signal.SIGCONT)
        (command,) = settle(command)
        assert_started_once(sshd, command)

    def test_a_frozen_horse_that_wakes_up_late_changes_nothing(self, sshd, hand, extra_hand, arm):
        fired = arm("permitted:stop")
        command = order_start(sshd.host(), [*COUNTED, "s1"])
        settle(command, state=states.RUNNING)
        wait_until(fired.exists, what="the freeze")
        (frozen,) = hand.horses()
        extra_hand()
        (command,) = settle(command)
        assert_started_once(sshd, command)
        before = (command.fence, command.settled_at)
        os.kill(frozen, signal.SIGCONT)
        wait_until(lambda: not is_live(frozen), what="end of the woken horse")
        command = fresh(command)
        assert (command.fence, command.settled_at) == before
        assert_started_once(sshd, command)
        assert sshd.node.status("s1")["fence"] == command.fence


class TestRedisForgets:
    def test_flushall_delays_and_loses_nothing(self, sshd, hand, redis_client):
        host = sshd.host()
        settle(order_probe(host))  # the worker is there
        hand.send_signal(signal.SIGSTOP)
        commands = [order_start(host, [*COUNTED, f"s{n}"], f"s{n}") for n in range(5)]
        redis_client.flushall()
        hand.send_signal(signal.SIGCONT)
        commands = settle(*commands)
        assert {command.state for command in commands} == {states.SUCCEEDED}
        wait_until(lambda: len(starts(sshd)) == 5, what="five starts")
        assert sorted(starts(sshd)) == [f"s{n}" for n in range(5)]

    def test_double_and_forged_jobs_do_no_harm(self, sshd, hand, redis_client):
        command = order_start(sshd.host(), [*COUNTED, "s1"])
        queue = django_rq.get_queue("start")
        for ids in ([command.pk], [command.pk], [999999], ["x", None], []):
            queue.enqueue_call(JOB, args=(ids,))
        planted = sshd.directory / "planted"
        data = zlib.compress(pickle.dumps(("os.system", None, (f"touch {planted}",), {})))
        fields = {
            "data": data,
            "created_at": "2026-01-01T00:00:00Z",
            "origin": "start",
            "status": "queued",
        }
        redis_client.hset("rq:job:evil", mapping=fields)
        redis_client.rpush("rq:queue:start", "evil")
        (command,) = settle(command)
        wait_until(lambda: queue.count == 0, what="an empty queue")
        settle(order_probe(sshd.host("again")))  # the worker still works
        assert_started_once(sshd, fresh(command))
        assert not planted.exists()


class TestNodeDoesNotAnswer:
    def test_a_refused_connection_is_tried_until_the_node_is_there(self, make_sshd, hand):
        sshd = make_sshd(start=False)
        command = order_start(sshd.host(), [*COUNTED, "s1"])
        wait_until(lambda: fresh(command).attempt >= 2 or sweep() < 0, what="two attempts")
        assert "refused" in fresh(command).explanation
        sshd.start()
        (command,) = settle(command)
        assert_started_once(sshd, command)

    def test_a_silent_daemon_frees_the_hand(self, sshd, hand):
        with silent_listener() as port:
            host = sshd.host("silent")
            type(host).objects.filter(pk=host.pk).update(port=port)
            command = order_probe(host)
            wait_until(
                lambda: "does not speak SSH" in fresh(command).explanation,
                timeout_s=40,
                what="the reason",
            )
            other = order_probe(sshd.host("good"))
            assert settle(other)[0].state == states.SUCCEEDED


class TestManyAtOnce:
    @pytest.mark.parametrize("nodes", [6, pytest.param(24, marks=pytest.mark.long)])
    def test_two_hands_start_24_subjects_that_last_a_minute(
        self, make_sshd, hand, extra_hand, nodes
    ):
        sshds = [make_sshd() for _ in range(nodes)]
        extra_hand()
        each = 24 // nodes
        hosts = [sshd.host() for sshd in sshds]
        names = [(host, f"s{n}-{k}") for n, host in enumerate(hosts) for k in range(each)]
        with transaction.atomic():  # one job; a real wave is committed at once too
            commands = [order_start(host, [*COUNTED, name], name) for host, name in names]
        commands = settle(*commands)
        assert {command.state for command in commands} == {states.SUCCEEDED}
        # All live together, though none has ended: nothing waits in a hand.
        assert Subject.objects.filter(state=states.SUBJECT_LIVE).count() == 24
        for number, sshd in enumerate(sshds):
            mine = [f"s{number}-{k}" for k in range(each)]
            wait_until(lambda sshd=sshd: len(starts(sshd)) == each, what=f"{each} starts")
            assert sorted(starts(sshd)) == mine
            assert {sshd.node.status(name)["answer"] for name in mine} == {"RUNNING"}


class TestStopOutranks:
    def test_a_stop_is_taken_before_older_work(self, sshd, hand):
        hand.send_signal(signal.SIGSTOP)
        host = sshd.host()
        start = order_start(host, [*COUNTED, "s1"])
        sshd.node.start("s1", 1, [*COUNTED, "s1"])
        probes = [order_probe(host, f"p{n}") for n in range(3)]
        Command.objects.filter(pk=start.pk).update(state=states.SUCCEEDED)
        stop = order_stop(start.subject, grace_s=1)
        hand.send_signal(signal.SIGCONT)
        settle(stop, *probes)
        assert fresh(stop).claimed_at < min(fresh(probe).claimed_at for probe in probes)


class held_lock:
    """Holds the node's lock of a subject, so that every verb on it waits."""

    def __init__(self, sshd, subject: str) -> None:
        directory = sshd.home / ".flotilla" / "subjects" / subject
        directory.mkdir(parents=True)
        self.file = (directory / "lock").open("w")

    def __enter__(self) -> None:
        fcntl.flock(self.file, fcntl.LOCK_EX)

    def __exit__(self, *_: object) -> None:
        self.file.close()


class silent_listener:
    """Accepts connections and never says a word."""

    def __enter__(self) -> int:
        holder, port = reserve_port()
        holder.close()
        self.server = socket.create_server(("127.0.0.1", port))
        self.kept: list[socket.socket] = []
        self.thread = threading.Thread(target=self._accept)
        self.thread.start()
        return port

    def _accept(self) -> None:
        while True:
            try:
                self.kept.append(self.server.accept()[0])
            except OSError:
                return

    def __exit__(self, *_: object) -> None:
        self.server.shutdown(socket.SHUT_RDWR)
        self.server.close()
        self.thread.join()
        for one in self.kept:
            one.close()
