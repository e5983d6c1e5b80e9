"""What the proxy shall do and whether it does: desired state, the orders that bring it about, differences. Pure.

Two revision slots a pool: each revision has its own backend, so that a session never drifts to another revision
while its own can serve. A pool's share of new sessions per revision follows from the weights of its units.
Not in charge of talking to a proxy, nor of its configuration file (releases/gateways/haproxy.py).
Source: GATEWAY.md (state drain keeps old sessions, maint moves them), manual A 6.3, 12.7.
"""

from dataclasses import dataclass, replace

from fleet.readings.haproxy import ProxyReading, ServerRow
from fleet.rules.message import say

SLOTS = ("a", "b")
READY, DRAIN, MAINT = "ready", "drain", "maint"
SHARE_WHOLE = 10_000  # a share of new sessions is counted in hundredths of a percent
WEIGHT_MAX = 100


@dataclass(frozen=True)
class Server:
    """Rank 0 of a unit behind the proxy. `weight`: percent of a full unit's new sessions, 0 to 100."""

    unit: str
    address: str
    port: int
    weight: int
    mode: str = READY


@dataclass(frozen=True)
class BackendSet:
    """The units that serve one revision."""

    slot: str
    release: str
    servers: tuple[Server, ...]

    @property
    def weight(self) -> int:
        return sum(server.weight for server in self.servers if server.mode == READY)


@dataclass(frozen=True)
class Route:
    """One pool: under which model names it is asked for, and its revisions."""

    pool: str
    models: tuple[str, ...]
    sets: tuple[BackendSet, ...]


@dataclass(frozen=True)
class Difference:
    """One thing that the proxy does not do as desired."""

    unit: str
    what: str
    desired: str
    found: str

    def explain(self) -> str:
        """Return the difference as a sentence that can be translated."""
        return say(
            "%(unit)s: %(what)s is %(found)s, desired %(desired)s.",
            unit=self.unit,
            what=self.what,
            found=self.found,
            desired=self.desired,
        )


def backend_name(pool: str, slot: str) -> str:
    """Return the proxy's name of a revision's backend."""
    return f"be_{pool}_{slot}"


def without_servers(routes: tuple[Route, ...]) -> tuple[Route, ...]:
    """Return what a proxy can be told only by starting it: its pools and under which names they are asked for."""
    return tuple(replace(route, sets=()) for route in routes)


def share_of_second(route: Route) -> int:
    """Return what slot b gets of the pool's new sessions, 0 to SHARE_WHOLE."""
    weights = {one.slot: one.weight for one in route.sets}
    total = sum(weights.values())
    return round(SHARE_WHOLE * weights.get(SLOTS[1], 0) / total) if total else 0


# How a slot treats its own sessions: closed sends them elsewhere, keep holds them while it drains,
# open holds them while any of its servers is up.
CLOSED, KEEP, OPEN = 0, 1, 2


def slot_mode(one: BackendSet) -> int:
    """Return CLOSED, KEEP or OPEN from the modes of a revision's servers."""
    modes = {server.mode for server in one.servers}
    return OPEN if READY in modes else KEEP if DRAIN in modes else CLOSED


def map_values(route: Route) -> dict[str, int]:
    """Return what the proxy's map shall hold of a pool: its share for slot b, and how each slot stands."""
    sets = {one.slot: one for one in route.sets}
    values = {route.pool: share_of_second(route)}
    for slot in SLOTS:
        values[f"{route.pool}.{slot}"] = slot_mode(sets[slot]) if slot in sets else CLOSED
    return values


def order_lines(routes: tuple[Route, ...], seen: ProxyReading, share_map: str) -> list[str]:
    """Return the runtime orders that turn what was seen into what is desired; none when they agree.

    Weights are absolute, so an order given twice changes nothing. A server that nobody wants is first
    put into maintenance and only deleted once nothing runs on it.
    """
    lines: list[str] = []
    found = {(row.backend, row.name): row for row in seen.servers}
    running = {(row.backend, row.name): row.running + row.waiting for row in seen.counts}
    wanted = set()
    for route in routes:
        for one in route.sets:
            backend = backend_name(route.pool, one.slot)
            for server in one.servers:
                wanted.add((backend, server.unit))
                lines += _server_orders(backend, server, found.get((backend, server.unit)))
        lines += [
            f"set map {share_map} {key} {value}"
            for key, value in map_values(route).items()
            if seen.shares.get(key) != value
        ]
    for (backend, name), row in found.items():
        if (backend, name) not in wanted and backend.startswith("be_"):
            lines += _removal_orders(row, running.get((backend, name), 0))
    return lines


def _server_orders(backend: str, server: Server, row: ServerRow | None) -> list[str]:
    name = f"{backend}/{server.unit}"
    if row is None:
        return [
            f"add server {name} {server.address}:{server.port} weight {server.weight}"
            " check inter 1s fall 3 rise 1",
            f"enable health {name}",
            f"set server {name} state {server.mode}",
        ]
    lines = []
    if (row.address, row.port) != (server.address, server.port):
        lines.append(f"set server {name} addr {server.address} port {server.port}")
    if row.weight != server.weight:
        lines.append(f"set server {name} weight {server.weight}")
    if row.mode != server.mode:
        lines.append(f"set server {name} state {server.mode}")
    return lines


def _removal_orders(row: ServerRow, running: int) -> list[str]:
    name = f"{row.backend}/{row.name}"
    if row.mode != MAINT:
        return [f"set server {name} state maint"]
    return [f"del server {name}"] if running == 0 else []


def differences(routes: tuple[Route, ...], seen: ProxyReading) -> list[Difference]:
    """Name everything that the read-back has otherwise than desired; empty means they agree."""
    if not seen.is_whole:
        return [Difference("gateway", "the read-back", "whole", "torn or missing")]
    found = {(row.backend, row.name): row for row in seen.servers}
    told: list[Difference] = []
    for route in routes:
        for one in route.sets:
            for server in one.servers:
                row = found.pop((backend_name(route.pool, one.slot), server.unit), None)
                told += _of_server(server, row)
        told += [
            Difference(key, "map", str(value), str(seen.shares.get(key, "missing")))
            for key, value in map_values(route).items()
            if seen.shares.get(key) != value
        ]
    told += [
        Difference(row.name, row.backend, "absent", row.mode)
        for (backend, _), row in found.items()
        if backend.startswith("be_")
    ]
    return told


def _of_server(server: Server, row: ServerRow | None) -> list[Difference]:
    if row is None:
        return [Difference(server.unit, "server", f"{server.address}:{server.port}", "absent")]
    pairs = (
        ("address", f"{server.address}:{server.port}", f"{row.address}:{row.port}"),
        ("weight", str(server.weight), str(row.weight)),
        ("mode", server.mode, row.mode),
    )
    return [
        Difference(server.unit, what, desired, found)
        for what, desired, found in pairs
        if desired != found
    ]


# -- what a unit is by what was read back of it


def unit_state(weight: int, mode: str, state: str) -> str:
    """Return ready, serving or draining for a running unit; `state` is what it is now.

    A closed server is one that drained, or one whose traffic was taken away at once: it goes on as that.
    """
    if mode == READY:
        return "serving" if weight > 0 else "ready"
    if mode == DRAIN or state == "draining":
        return "draining"
    return "ready"


# -- drains

DRAINING, CLOSING, DRAINED, CUT = "draining", "closing", "drained", "cut"
CANCELLED = "cancelled"  # put back into traffic before it was over
DRAIN_MOVES: dict[str, frozenset[str]] = {
    DRAINING: frozenset({CLOSING, CUT, CANCELLED}),
    CLOSING: frozenset({DRAINED, CUT, CANCELLED}),
    DRAINED: frozenset(),
    CUT: frozenset(),
    CANCELLED: frozenset(),
}


@dataclass(frozen=True)
class DrainSeen:
    """What is known of a drain. Counts are None when they could not be read: unknown is not zero."""

    state: str
    mode: str | None  # as read back
    running_by_proxy: int | None
    running_by_engine: float | None
    is_fresh: bool  # read back after the last order
    is_over_deadline: bool


@dataclass(frozen=True)
class DrainMove:
    to: str | None
    explanation: str


def decide_drain(seen: DrainSeen) -> DrainMove:
    """Decide the next move of a drain: out for new sessions, then closed, then proved empty.

    Closed (maintenance) comes before the proof, because a session of the table may ask again at any moment
    while the unit only drains.
    """
    if not seen.is_fresh or seen.mode is None or seen.running_by_proxy is None:
        if seen.is_over_deadline and seen.state == DRAINING:
            return DrainMove(CLOSING, say("The deadline is over; closing without a read-back."))
        return DrainMove(None, say("Waiting for the proxy to be read back."))
    count = seen.running_by_proxy
    if seen.state == DRAINING:
        return _draining(seen, count)
    if seen.mode != MAINT:
        return DrainMove(None, say("Waiting for the proxy to close it."))
    if count == 0 and seen.running_by_engine == 0:
        return DrainMove(DRAINED, say("Nothing runs any more, by the proxy and by the engine."))
    if seen.is_over_deadline:
        return DrainMove(CUT, say("The deadline is over; requests cut: %(count)s.", count=count))
    return DrainMove(None, _still(seen))


def _draining(seen: DrainSeen, count: int) -> DrainMove:
    if seen.mode == READY:
        return DrainMove(None, say("Waiting for the proxy to take it out for new sessions."))
    if (count == 0 and seen.running_by_engine == 0) or seen.is_over_deadline:
        return DrainMove(CLOSING, say("Closing it for its old sessions too."))
    return DrainMove(None, _still(seen))


def _still(seen: DrainSeen) -> str:
    by_engine = "-" if seen.running_by_engine is None else round(seen.running_by_engine)
    return say(
        "Requests that run, by the proxy: %(proxy)s, by the engine: %(engine)s.",
        proxy=seen.running_by_proxy,
        engine=by_engine,
    )
