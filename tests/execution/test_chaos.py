"""A minute of kills, freezes and losses at random; afterwards the rows and the nodes agree, and nothing ran twice."""

import contextlib
import os
import random
import signal
import time

import pytest
from django.db import transaction
from django.db.models.functions import Now

from fleet.execution import states
from fleet.execution.dispatch import command_cancel, sweep
from fleet.execution.models import Command
from tests.execution.orders import fresh, order_start, order_stop
from tests.execution.workers import settle
from tests.waiting import wait_until

pytestmark = [
    pytest.mark.django_db(transaction=True, available_apps=["fleet.execution"]),
    pytest.mark.faults,
    pytest.mark.long,
]

CHAOS_S = float(os.environ.get("CHAOS_S", "60"))
NODES, SUBJECTS = 6, 48
COUNTED = ["sh", "-c", 'echo "$1" >>"$HOME/starts"; setsid sleep 600 & sleep 600', "sh"]


class Chaos:
    """Hurts whoever it meets, by a seed."""

    def __init__(self, seed: int, sshds, spawn_hand, redis_client) -> None:
        self.random = random.Random(seed)
        self.sshds = sshds
        self.spawn_hand = spawn_hand
        self.redis = redis_client
        self.hands = [spawn_hand() for _ in range(2)]
        self.frozen: list[int] = []

    def hurt(self) -> None:
        act = self.random.choice(
            [
                self.flush,
                self.kill_horse,
                self.freeze_horse,
                self.kill_hand,
                self.cut_node,
                self.thaw,
            ]
        )
        act()

    def flush(self) -> None:
        self.redis.flushall()

    def _horses(self) -> list[int]:
        return [pid for hand in self.hands for pid in hand.horses()]

    def kill_horse(self) -> None:
        self._signal(signal.SIGKILL)

    def freeze_horse(self) -> None:
        self.frozen += self._signal(signal.SIGSTOP)

    def _signal(self, number: int) -> list[int]:
        horses = self._horses()
        if not horses:
            return []
        pid = self.random.choice(horses)
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)
        return [pid]

    def kill_hand(self) -> None:
        index = self.random.randrange(len(self.hands))
        self.hands[index].kill()
        self.hands[index].wait()
        self.hands[index] = self.spawn_hand()

    def cut_node(self) -> None:
        sshd = self.random.choice(self.sshds)
        if sshd.process:
            sshd.stop()
        else:
            sshd.start()

    def thaw(self) -> None:
        for pid in self.frozen:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)
        self.frozen.clear()

    def peace(self) -> None:
        self.thaw()
        for sshd in self.sshds:
            if not sshd.process:
                sshd.start()


@pytest.mark.parametrize("seed", [1, 2])
def test_after_any_minute_rows_and_nodes_agree(make_sshd, spawn_hand, redis_client, seed):
    sshds = [make_sshd() for _ in range(NODES)]
    hosts = [sshd.host() for sshd in sshds]
    chaos = Chaos(seed, sshds, spawn_hand, redis_client)
    begun = time.monotonic()
    starts, stops = [], []
    while time.monotonic() - begun < CHAOS_S:
        if len(starts) < SUBJECTS:
            with transaction.atomic():
                for _ in range(3):
                    n = len(starts)
                    argv = [*COUNTED, f"s{n}"]
                    starts.append(order_start(hosts[n % NODES], argv, f"s{n}", deadline_s=600))
        elif starts and chaos.random.random() < 0.5:
            victim = fresh(chaos.random.choice(starts))
            if chaos.random.random() < 0.5:
                stops.append(order_stop(victim.subject, grace_s=1))
            else:
                stops.append(command_cancel(command=victim))
        chaos.hurt()
        until = time.monotonic() + chaos.random.random()
        while time.monotonic() < until:
            sweep()
            time.sleep(0.05)
    chaos.peace()
    everything = list(Command.objects.all())
    Command.objects.exclude(state__in=states.TERMINAL).update(due_at=Now())
    settle(*everything, within_s=300)
    assert not Command.objects.filter(lease_until__lt=Now()).exists()
    stopped = {fresh(command).subject.name for command in stops}
    for sshd in sshds:
        path = sshd.home / "starts"
        names = path.read_text().split() if path.exists() else []
        assert len(names) == len(set(names)), "something was started twice"
    for command in map(fresh, starts):
        name, node = command.subject.name, sshds[hosts.index(command.host)].node
        alive = node.processes(name)
        if name in stopped or command.state == states.CANCELLED:
            assert not alive, (command.state, command.explanation)
        else:
            assert command.state == states.SUCCEEDED, command.explanation
            wait_until(
                lambda node=node, name=name: len(node.processes(name)) == 4, what="its processes"
            )
            assert command.subject.state == states.SUBJECT_LIVE
