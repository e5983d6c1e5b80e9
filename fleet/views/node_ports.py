"""The RDMA ports of a node as its page draws them: state, rate, MTU, GID, and what they lost."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from fleet.marks import mark_of
from fleet.models import Fact
from fleet.views.node_facts import known

SHOWN = ("device", "netdev", "state", "physical", "rate_gbps", "mtu", "active_mtu", "firmware")
# Counters of packets that came wrongly or had to be sent again.
LOSSES = (
    "out_of_sequence",
    "packet_seq_err",
    "local_ack_timeout_err",
    "roce_adp_retrans",
)


def port_table(facts: Sequence[Fact], now: datetime) -> dict[str, Any] | None:
    """Return the ports with their source; None when none was read, or what was read has expired."""
    fact = next((fact for fact in facts if fact.key == "rdma_ports"), None)
    rows = known(facts, "rdma_ports", now)
    if fact is None or not isinstance(rows, list) or not rows:
        return None
    gids, counters = known(facts, "gids", now), known(facts, "rdma_counters", now)
    return {"fact": fact, "rows": [_port(row, gids, counters) for row in rows]}


def _port(row: dict[str, Any], gids: Any, counters: Any) -> dict[str, Any]:
    read = (row.get("state"), row.get("physical"))
    health = "ok" if read == ("Active", "LinkUp") else "failed"
    if health == "failed" and not any(one and one not in ("Active", "LinkUp") for one in read):
        health = "unknown"  # a state that was not read is not a bad one
    return {
        **dict.fromkeys(SHOWN),  # an older probe did not read all of them
        **row,
        "mark": mark_of("gpu", health),
        "gid": _gid(row, gids),
        "losses": _losses(row, counters),
    }


def _gid(row: dict[str, Any], gids: Any) -> dict[str, Any] | None:
    """The first RoCE v2 GID of an IPv4 address: what NCCL is told by its index."""
    for gid in gids if isinstance(gids, list) else ():
        is_own = (gid.get("device"), gid.get("port")) == (row.get("device"), row.get("port"))
        if is_own and gid.get("version") == "v2" and gid.get("ip"):
            return gid
    return None


def _losses(row: dict[str, Any], counters: Any) -> int | None:
    """Return how often packets were lost or sent again since the port came up; None when not told."""
    told = counters.get(row.get("device")) if isinstance(counters, dict) else None
    found = [told[name] for name in LOSSES if name in told] if isinstance(told, dict) else []
    return sum(found) if found else None
