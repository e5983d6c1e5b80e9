"""Desired traffic, the orders that bring it about, and the life of a drain: without a proxy."""

import pytest

from fleet.readings.haproxy import ProxyReading, ServerCounts, ServerRow
from fleet.rules.message import said
from releases.rules import gateway as rules


def server(unit: str, weight: int = 100, mode: str = rules.READY) -> rules.Server:
    return rules.Server(unit, "127.0.13.1", 8000, weight, mode)


def route(*old: rules.Server, new: tuple[rules.Server, ...] = ()) -> rules.Route:
    sets = (rules.BackendSet("a", "REL-0001", old), rules.BackendSet("b", "REL-0002", new))
    return rules.Route("glm52", ("glm-5.2",), sets)


def reading(*rows: ServerRow, counts: tuple[ServerCounts, ...] = (), **shares: int) -> ProxyReading:
    return ProxyReading(rows, counts, shares, True, True, ())


def row(unit: str, weight: int = 100, mode: str = "ready", slot: str = "a") -> ServerRow:
    return ServerRow(f"be_glm52_{slot}", unit, "127.0.13.1", 8000, weight, mode, True)


@pytest.mark.parametrize(
    ("old", "new", "share"),
    [((100, 100), (), 0), ((100, 100), (2,), 99), ((0, 0), (5,), 10_000), ((0,), (0,), 0)],
)
def test_the_share_of_new_sessions_follows_from_the_weights(old, new, share):
    asked = route(
        *(server(f"r{i}", weight) for i, weight in enumerate(old)),
        new=tuple(server(f"n{i}", weight) for i, weight in enumerate(new)),
    )
    assert rules.share_of_second(asked) == share


def test_a_unit_that_only_drains_counts_no_share():
    asked = route(server("r1", 100, rules.DRAIN), new=(server("n1", 10),))
    assert rules.share_of_second(asked) == 10_000


def test_nothing_is_ordered_when_the_proxy_agrees():
    asked = route(server("r1"))
    seen = reading(row("r1"), **rules.map_values(asked))
    assert rules.order_lines((asked,), seen, "m") == []
    assert rules.differences((asked,), seen) == []


def test_a_torn_read_back_agrees_with_nothing():
    torn = ProxyReading((), (), {}, True, False, ())
    assert rules.differences((route(),), torn)[0].what == "the read-back"


def test_a_server_nobody_wants_is_closed_before_it_is_deleted():
    asked = route(server("r1"))
    counts = ServerCounts("be_glm52_a", "r9", 1, 0, 5, 0, 0, 0, 0, 0, "MAINT")
    maps = rules.map_values(asked)
    live = reading(row("r1"), row("r9"), **maps)
    assert rules.order_lines((asked,), live, "m") == ["set server be_glm52_a/r9 state maint"]
    busy = reading(row("r1"), row("r9", mode="maint"), counts=(counts,), **maps)
    assert rules.order_lines((asked,), busy, "m") == []
    idle = reading(row("r1"), row("r9", mode="maint"), **maps)
    assert rules.order_lines((asked,), idle, "m") == ["del server be_glm52_a/r9"]


def drain(**facts) -> rules.DrainSeen:
    defaults = {
        "state": rules.DRAINING,
        "mode": "drain",
        "running_by_proxy": 0,
        "running_by_engine": 0.0,
        "is_fresh": True,
        "is_over_deadline": False,
    }
    return rules.DrainSeen(**{**defaults, **facts})


@pytest.mark.parametrize(
    ("facts", "to"),
    [
        ({}, rules.CLOSING),
        ({"running_by_proxy": 3}, None),
        ({"running_by_engine": 2.0}, None),
        ({"running_by_engine": None}, None),
        ({"running_by_proxy": None}, None),
        ({"is_fresh": False}, None),
        ({"mode": "ready"}, None),
        ({"running_by_proxy": 3, "is_over_deadline": True}, rules.CLOSING),
        ({"state": rules.CLOSING, "mode": "maint"}, rules.DRAINED),
        ({"state": rules.CLOSING, "mode": "drain"}, None),
        ({"state": rules.CLOSING, "mode": "maint", "running_by_engine": None}, None),
        (
            {
                "state": rules.CLOSING,
                "mode": "maint",
                "running_by_proxy": 2,
                "is_over_deadline": True,
            },
            rules.CUT,
        ),
    ],
)
def test_a_drain_is_over_only_by_proof_or_by_its_deadline(facts, to):
    move = rules.decide_drain(drain(**facts))
    assert move.to == to
    assert move.to is None or move.to in rules.DRAIN_MOVES[drain(**facts).state]
    assert said(move.explanation)
