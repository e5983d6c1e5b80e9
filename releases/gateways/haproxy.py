"""Renders the configuration with which an HAProxy comes up serving what is desired. Pure.

Weights, modes and shares of a running proxy are changed through its runtime API (releases/rules/gateway.py);
this file is what a restart begins with, so that it needs no console.
Source: GATEWAY.md; every directive tried with HAProxy 2.6.12 on 2026-11-30.
"""

from dataclasses import dataclass

from releases.rules.gateway import (
    CLOSED,
    DRAIN,
    MAINT,
    OPEN,
    SHARE_WHOLE,
    SLOTS,
    BackendSet,
    Route,
    Server,
    backend_name,
    map_values,
)

SHARE_MAP = "shares.map"
CONFIG = "haproxy.cfg"
SESSION_HEADER = "x-session-id"


@dataclass(frozen=True)
class Place:
    """Where the proxy listens and what it bears. Sizes in bytes, times in seconds.

    Memory is body_bytes times connections: both are bounded.
    """

    bind: str
    port: int
    admin_port: int
    body_bytes: int = 2 * 1024 * 1024
    connections: int = 1000
    answer_s: int = 1800
    queue_s: int = 10
    sessions: int = 100_000
    session_s: int = 3600


def render_config(place: Place, routes: tuple[Route, ...]) -> str:
    """Return haproxy.cfg. The working directory of the proxy holds SHARE_MAP."""
    parts = [_head(place), _frontend(place, routes)]
    for route in routes:
        parts.append(_sessions(place, route))
        sets = {one.slot: one for one in route.sets}
        parts += [
            _backend(place, route.pool, slot, sets.get(slot) or BackendSet(slot, "", ()))
            for slot in SLOTS
        ]
    return "\n".join([*parts, _NO_MODEL]) + "\n"


def render_shares(routes: tuple[Route, ...]) -> str:
    """Return the map file: shares and slot modes of every pool."""
    return "".join(
        f"{key} {value}\n" for route in routes for key, value in map_values(route).items()
    )


_NO_MODEL = """backend be-none
  http-request return status 404 content-type application/json string \
'{"error":{"message":"no pool serves this model","type":"NotFoundError","code":404}}'"""


def _head(place: Place) -> str:
    return f"""global
  maxconn {place.connections}
  tune.bufsize {place.body_bytes}
  stats socket ipv4@127.0.0.1:{place.admin_port} level admin
defaults
  mode http
  timeout connect 5s
  timeout client {place.answer_s}s
  timeout server {place.answer_s}s
  timeout queue {place.queue_s}s
  timeout http-request 30s
  # A prompt is sent once: only a connection that never came about is tried again.
  retries 1
  option redispatch
  retry-on conn-failure"""


def _frontend(place: Place, routes: tuple[Route, ...]) -> str:
    lines = [
        "frontend llm",
        f"  bind {place.bind}:{place.port}",
        "  option http-buffer-request",
        f"  http-request return status 413 content-type application/json string "
        f'\'{{"error":{{"message":"the body is longer than {place.body_bytes} bytes",'
        f'"type":"BadRequestError","code":413}}}}\' if {{ req.body_size gt {place.body_bytes * 9 // 10} }}',
        "  http-request set-var(txn.model) req.body,json_query('$.model')",
        f"  http-request set-var(txn.session) req.hdr({SESSION_HEADER})"
        f" if {{ req.hdr({SESSION_HEADER}) -m found }}",
    ]
    for route in routes:
        lines += _routing(route)
    return "\n".join([*lines, "  default_backend be-none"])


def _routing(route: Route) -> list[str]:
    """A session keeps its revision while that has a server; a new one is dealt by the shares."""
    pool, (first, second) = route.pool, (backend_name(route.pool, slot) for slot in SLOTS)
    here, known = f"{{ var(txn.pool) -m str {pool} }}", "{ var(txn.rev) -m found }"
    names = " ".join(route.models)
    return [
        f"  http-request set-var(txn.pool) str({pool}) if {{ var(txn.model) -m str {names} }}",
        f"  http-request track-sc0 var(txn.session) table ses_{pool}"
        f" if {{ var(txn.session) -m found }} {here}",
        f"  http-request set-var(txn.rev) sc_get_gpt0(0) if {{ sc_get_gpt0(0) gt 0 }} {here}",
        *_leaving(pool, first, 1, SLOTS[0]),
        *_leaving(pool, second, 2, SLOTS[1]),
        f"  http-request set-var(txn.share) str({pool}),map_str_int({SHARE_MAP},0) if {here}",
        f"  http-request set-var(txn.dice) rand({SHARE_WHOLE}),sub(txn.share) if {here}",
        f"  http-request set-var(txn.rev) int(2) if {here} !{known} {{ var(txn.dice) -m int lt 0 }}",
        f"  http-request set-var(txn.rev) int(1) if {here} !{known}",
        f"  http-request sc-set-gpt0(0) var(txn.rev) if {here} {{ var(txn.session) -m found }}",
        f"  use_backend {first} if {here} {{ var(txn.rev) -m int 1 }}",
        f"  use_backend {second} if {here} {{ var(txn.rev) -m int 2 }}",
    ]


def _leaving(pool: str, backend: str, revision: int, slot: str) -> list[str]:
    """A revision that is closed, or open with no server up, cannot keep its sessions."""
    mine = f"{{ var(txn.pool) -m str {pool} }} {{ var(txn.rev) -m int {revision} }}"
    return [
        f"  http-request set-var(txn.slot) str({pool}.{slot}),map_str_int({SHARE_MAP},{OPEN})"
        f" if {mine}",
        f"  http-request unset-var(txn.rev) if {mine} {{ var(txn.slot) -m int {CLOSED} }}",
        f"  http-request unset-var(txn.rev) if {mine} {{ var(txn.slot) -m int {OPEN} }}"
        f" {{ nbsrv({backend}) eq 0 }}",
    ]


def _sessions(place: Place, route: Route) -> str:
    return (
        f"backend ses_{route.pool}\n  stick-table type string len 64 size {place.sessions}"
        f" expire {place.session_s}s store gpt0"
    )


def _backend(place: Place, pool: str, slot: str, one: BackendSet) -> str:
    lines = [
        f"backend {backend_name(pool, slot)}",
        "  balance roundrobin",
        "  option httpchk GET /health",
        f"  stick-table type string len 64 size {place.sessions} expire {place.session_s}s",
        f"  stick on req.hdr({SESSION_HEADER})",
    ]
    return "\n".join([*lines, *(_server(server) for server in one.servers)])


def _server(server: Server) -> str:
    line = (
        f"  server {server.unit} {server.address}:{server.port} weight {server.weight}"
        " check inter 1s fall 3 rise 1"
    )
    # A file knows no state drain; weight 0 takes no new session and keeps the old ones.
    if server.mode == DRAIN:
        line = line.replace(f" weight {server.weight}", " weight 0")
    return f"{line} disabled" if server.mode == MAINT else line
