"""Reads what HAProxy's runtime API answers: `show servers state`, `show stat`, `show map`. Pure.

One exchange may ask for several; each answer is found by its own header, so their order does not matter.
Source: HAProxy management guide 2.6, section 9.3; tried with 2.6.12 on 2026-11-30.
"""

import csv
import re
from dataclasses import dataclass

_STATE_HEADER, _STAT_HEADER = "# be_id be_name", "# pxname,svname"
_MAP_ROW = re.compile(r"0x[0-9a-f]+ (\S+) (\S+)")
# Bits of srv_admin_state: forced maintenance, inherited maintenance, from the configuration, by name resolution.
_MAINT_BITS, _DRAIN_BITS = 0x01 | 0x02 | 0x04 | 0x20, 0x08 | 0x10


@dataclass(frozen=True)
class ServerRow:
    """A server as the proxy has it: `mode` is what was ordered, `is_up` what its health check found."""

    backend: str
    name: str
    address: str
    port: int
    weight: int
    mode: str  # ready, drain, maint
    is_up: bool


@dataclass(frozen=True)
class ServerCounts:
    """What `show stat` counts of a server since the proxy started; `running` and `waiting` are now."""

    backend: str
    name: str
    running: int
    waiting: int
    sessions: int
    answers_5xx: int
    connect_errors: int
    response_errors: int
    retries: int
    redispatches: int
    status: str


@dataclass(frozen=True)
class ProxyReading:
    """All that one exchange told. `unread` are lines that no table has a place for: refusals of the proxy."""

    servers: tuple[ServerRow, ...]
    counts: tuple[ServerCounts, ...]
    shares: dict[str, int]
    has_state: bool
    has_stat: bool
    unread: tuple[str, ...]

    @property
    def is_whole(self) -> bool:
        """Both tables were there; a torn answer proves nothing."""
        return self.has_state and self.has_stat


def parse_exchange(text: str) -> ProxyReading:
    """Read one exchange of `show servers state`, `show stat` and `show map`; unknown lines are kept."""
    servers, counts, unread = [], [], []
    shares: dict[str, int] = {}
    columns: list[str] = []
    has_state = has_stat = False
    table = ""
    for line in text.splitlines():
        if line.startswith(_STATE_HEADER):
            table, columns, has_state = "state", line[2:].split(), True
        elif line.startswith(_STAT_HEADER):
            table, columns, has_stat = "stat", line[2:].rstrip(",").split(","), True
        elif not line.strip():
            table = ""
        elif row := _MAP_ROW.fullmatch(line):
            if row[2].isdigit():
                shares[row[1]] = int(row[2])
            else:
                unread.append(line)
        elif table == "state" and (server := _server_row(columns, line.split())):
            servers.append(server)
        elif table == "stat" and (count := _counts_row(columns, next(csv.reader([line])))):
            counts.append(count)
        elif table != "stat" and line != "1":  # 1 is the version of the state format
            unread.append(line)
    return ProxyReading(tuple(servers), tuple(counts), shares, has_state, has_stat, tuple(unread))


def _server_row(columns: list[str], cells: list[str]) -> ServerRow | None:
    if len(cells) != len(columns):
        return None
    row = dict(zip(columns, cells, strict=True))
    try:
        admin = int(row["srv_admin_state"])
        return ServerRow(
            backend=row["be_name"],
            name=row["srv_name"],
            address=row["srv_addr"],
            port=int(row["srv_port"]),
            weight=int(row["srv_uweight"]),
            mode="maint" if admin & _MAINT_BITS else "drain" if admin & _DRAIN_BITS else "ready",
            is_up=row["srv_op_state"] == "2",
        )
    except (KeyError, ValueError):
        return None


def _counts_row(columns: list[str], cells: list[str]) -> ServerCounts | None:
    row = dict(zip(columns, cells, strict=False))
    if row.get("svname") in (None, "FRONTEND", "BACKEND"):
        return None
    try:
        return ServerCounts(
            backend=row["pxname"],
            name=row["svname"],
            running=int(row["scur"] or 0),
            waiting=int(row["qcur"] or 0),
            sessions=int(row["stot"] or 0),
            answers_5xx=int(row["hrsp_5xx"] or 0),
            connect_errors=int(row["econ"] or 0),
            response_errors=int(row["eresp"] or 0),
            retries=int(row["wretr"] or 0),
            redispatches=int(row["wredis"] or 0),
            status=row["status"],
        )
    except (KeyError, ValueError):
        return None
