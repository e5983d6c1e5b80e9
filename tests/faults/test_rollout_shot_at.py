"""A rollout whose console is shot at by a seed: it ends as if nothing had happened, and nobody was sent away.

The proxy, the engines and the nodes are left alone: what they have at the end is held against the database.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import socket
import time
from collections import Counter
from typing import Any

import pytest
from django.utils import timezone

from console.embedded.ports import reserve_port
from fleet.execution.models import Lease
from fleet.lab import containers, procs
from fleet.models import Tick
from fleet.readings.haproxy import ProxyReading, parse_exchange
from tests.children import Child
from tests.faults.harm import HarmedConsole
from tests.flows.conftest import probe_all
from tests.flows.ledger import ledger_of, named_by_the_console
from tests.flows.pools import (
    PATIENCE_S,
    go_on_when_known,
    open_waves,
    serving,
    serving_pool,
    started,
    told,
)
from tests.needs import four_nodes, needs_haproxy

pytestmark = [
    pytest.mark.lab,
    pytest.mark.faults,
    pytest.mark.django_db(transaction=True),
    needs_haproxy,
    four_nodes,
]
UNITS = 3
# Waits for a drain that nobody reads back for a while; nothing is to be cut here.
PATIENT = {"observe_s": 1, "drain_deadline_s": 6000}
# One seed always, with fewer shots; the others take four to six minutes each.
ROUNDS = [
    pytest.param(1, 8, id="1"),
    *(pytest.param(seed, 20, id=f"{seed}", marks=pytest.mark.long) for seed in range(2, 8)),
]


class Gunner:
    """Hurts one part of a console after the other, by a seed; what it froze goes on with its next shot."""

    VICTIMS = ("worker", "conductor", "beat", "watch", "web")

    def __init__(self, seed: int, shots: int, harmed: HarmedConsole, redis: Any) -> None:
        self._random, self._harmed, self._redis = random.Random(seed), harmed, redis
        self._left = shots
        self._frozen: list[int] = []
        self._shot_at, self._next_at = timezone.now(), time.monotonic()
        self.shots: list[str] = []

    def shoot_when_due(self) -> None:
        if time.monotonic() < self._next_at:
            return
        self.thaw()
        if self._left and self._is_alive_again():
            self._left -= 1
            self._shot_at = timezone.now()
            self.shots.append(self._shot())
            # Up to 12 s of the design: who is frozen for longer than a lease finds another in its place.
            self._next_at = time.monotonic() + self._random.uniform(0.5, 4.0)

    def _is_alive_again(self) -> bool:
        """Tell whether the console has decided and seen something since the last shot."""
        ticked = Tick.objects.filter(name="rollouts", at__gt=self._shot_at).exists()
        return ticked and Lease.objects.filter(name="watch", beaten_at__gt=self._shot_at).exists()

    def thaw(self) -> None:
        for pid in self._frozen:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)
        self._frozen.clear()

    def _shot(self) -> str:
        what = self._random.choice([*self.VICTIMS, "forget", "forget", "freeze", "freeze"])
        if what == "forget":
            self._redis.flushall()
        elif what == "freeze":
            self._freeze(self._random.choice([*self._console.hands, *self._console.watches]))
        else:
            self._harmed.kill(what, [])
        return what

    def _freeze(self, child: Child) -> None:
        self._frozen = [child.pid, *procs.descendants(child.pid)]
        for pid in self._frozen:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGSTOP)

    @property
    def _console(self) -> Any:
        return self._harmed.console


@pytest.fixture
def time_scale() -> float:
    """Slow enough that a part is started again within the windows of the design, also on a busy machine."""
    return 3.0


@pytest.fixture
def harmed(bare_console, tmp_path) -> HarmedConsole:
    """Every part a process of its own: two hands, a watch, a web, a conductor and a beat."""
    holder, port = reserve_port()
    holder.close()
    harmed = HarmedConsole(bare_console, tmp_path / "never", port)
    harmed.start()
    probe_all(bare_console)
    harmed.start_conductor()
    return harmed


@pytest.mark.parametrize(("seed", "shots"), ROUNDS)
def test_it_ends_as_if_nothing_had_happened(harmed, redis_client, seed, shots):
    console = harmed.console
    pool = serving_pool(console, units=UNITS)
    gunner = Gunner(seed, shots, harmed, redis_client)
    fewest = UNITS
    with ledger_of(pool) as ledger:
        rollout = started(pool, **PATIENT)

        def has_succeeded() -> bool:
            nonlocal fewest
            gunner.shoot_when_due()
            open_waves(rollout)
            go_on_when_known(rollout)
            fewest = min(fewest, len(units_served_by(proxy_now())))
            assert not rollout.fired, f"{told(rollout)}\n{gunner.shots}"
            return rollout.state == "succeeded"

        try:
            console.until(has_succeeded, "the rollout to succeed", 3 * PATIENCE_S)
        finally:
            gunner.thaw()
    print(f"{ledger.sent} requests, {len(gunner.shots)} shots: {Counter(gunner.shots)}")
    assert ledger.sent == ledger.answered + named_by_the_console(), ledger.lost
    assert fewest >= UNITS - 1, "one unit out of service at a time"
    new = rollout.new_release_id
    assert serving(pool) == {f"dsv4-r{n}": new for n in range(1, UNITS + 1)}
    assert_proxy_is_as_wanted()
    assert_nodes_hold_what_the_database_says(console, new)


def proxy_now() -> ProxyReading:
    """What the proxy itself says, whatever the console believes."""
    from releases.models import Gateway
    from releases.services.gateway_effects import SHOW

    gateway = Gateway.objects.get()
    with socket.create_connection(("127.0.0.1", gateway.admin_port), 10) as admin:
        admin.sendall(f"{SHOW}\n".encode())
        found = b""
        while block := admin.recv(65536):
            found += block
    return parse_exchange(found.decode())


def units_served_by(proxy: ProxyReading) -> set[str]:
    """Units of the pool, its canary apart, to which new sessions are sent."""
    on = (row for row in proxy.servers if row.mode == "ready" and row.weight > 0 and row.is_up)
    return {row.name for row in on if row.name.startswith("dsv4-r")}


def assert_proxy_is_as_wanted() -> None:
    from releases.models import Gateway
    from releases.rules.gateway import differences
    from releases.selectors.gateways import gateway_routes

    proxy = proxy_now()
    assert differences(gateway_routes(Gateway.objects.get()), proxy) == []
    found = {(row.name, row.weight, row.mode) for row in proxy.servers if "dsv4" in row.backend}
    assert found == {(f"dsv4-r{n}", 100, "ready") for n in range(1, UNITS + 1)}


def assert_nodes_hold_what_the_database_says(console, release: int) -> None:
    """The nodes are the witnesses: one container a launch was ever made, and those of live launches run."""
    from releases.models import Launch

    live = Launch.objects.filter(state__in=Launch.LIVE).select_related("replica")
    assert {launch.release_id for launch in live} == {release}
    wanted = {
        (place["node"], f"{launch.replica.name}.g{launch.generation}")
        for launch in live
        for place in launch.plan["positions"]
    }
    made = [
        (host.name, one.config["labels"]["fleet.launch"], one.is_running)
        for host in console.lab.hosts()
        for one in containers.all_containers(host.directory)
    ]
    assert {(node, label) for node, label, is_running in made if is_running} == wanted
    starts = Counter(label for _, label, _ in made)
    known = {f"{one.replica.name}.g{one.generation}" for one in Launch.objects.all()}
    assert set(starts) == known, "each container belongs to a launch, and each launch was started"
    assert set(starts.values()) == {1}, "and once"
    assert len(starts) == 2 * UNITS + 1, "the old ones, the new ones and the canary"
