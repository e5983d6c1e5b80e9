"""Facts of a node's RDMA ports and network interfaces. Pure.

`rdma_ports` is joined from four tools once all of them were read: what one of them could not tell is
null in its rows, and the tool's own problem says why.
"""

from __future__ import annotations

from typing import Any

from fleet.readings.fabric.devinfo import parse_devinfo
from fleet.readings.fabric.links import NetLink, parse_links
from fleet.readings.fabric.netdevs import is_beheaded, natural_order, parse_gids, parse_netdevs
from fleet.readings.fabric.ports import IbPort, parse_ports
from fleet.readings.host.counters import parse_ethtool_stats, parse_port_counters
from fleet.rules.message import say
from fleet.rules.probe_facts import (
    DAY_S,
    HOUR_S,
    MINUTES_10_S,
    FactSeen,
    ProbeReading,
    add,
    unreadable,
)

# Counters that tell of loss, retries and congestion; Documentation/ABI/stable/sysfs-class-infiniband
# and the NIC vendor's list of RDMA counters. All others stay in the raw output.
RDMA_COUNTERS = frozenset(
    {
        "port_rcv_data", "port_xmit_data", "port_xmit_wait", "symbol_error", "link_downed",
        "link_error_recovery", "port_rcv_errors", "port_xmit_discards", "out_of_sequence",
        "packet_seq_err", "local_ack_timeout_err", "rnr_nak_retry_err", "duplicate_request",
        "np_cnp_sent", "rp_cnp_handled", "rp_cnp_ignored", "np_ecn_marked_roce_packets",
        "roce_adp_retrans", "roce_adp_retrans_to", "implied_nak_seq_err", "out_of_buffer",
        "req_transport_retries_exceeded", "req_rnr_retries_exceeded",
    }
)  # fmt: skip
# Interfaces that a node has whatever is plugged in.
_OWN = ("lo", "docker", "veth", "br-", "virbr")


def read_ports(reading: ProbeReading, name: str, text: str, problem: str, command: str) -> None:
    """Read `ibstat`; the facts follow when its companions were read (join_ports)."""
    found = None if problem else parse_ports(text)
    if found is not None and not found.complete:
        problem, found = unreadable(command, _hint(found.unread, text)), None
    reading.ports = found
    if problem:
        reading.problems[name] = problem


def read_netdevs(reading: ProbeReading, name: str, text: str, problem: str, command: str) -> None:
    """Read `ibdev2netdev`."""
    devices, unread = ((), ()) if problem else parse_netdevs(text)
    if not problem and (not devices or unread or is_beheaded(devices)):
        problem = unreadable(command, _hint(unread, text))
    reading.netdevs = None if problem else devices
    if problem:
        reading.problems[name] = problem


def read_devinfo(reading: ProbeReading, name: str, text: str, problem: str, command: str) -> None:
    """Read `ibv_devinfo`: the MTU that RDMA uses on each port."""
    found = None if problem else parse_devinfo(text)
    if found is None:
        reading.problems[name] = problem or unreadable(command, text)
        return
    reading.active_mtu = {f"{p.device}/{p.port}": p.active_mtu for p in found}


def read_links(reading: ProbeReading, name: str, text: str, problem: str, command: str) -> None:
    """Read `ip -j addr`: the MTU of the interfaces behind RDMA ports, and interfaces that are down."""
    found = None if problem else parse_links(text)
    if found is not None and not found.complete:
        problem, found = unreadable(command, _hint(found.unread, text)), None
    reading.links = found
    down = None if found is None else sorted(n.name for n in found.links if _is_down(n))
    add(reading, name, problem, {"links_down": down}, ttl_s=HOUR_S)


def _is_down(link: NetLink) -> bool:
    return link.state != "UP" and not link.name.startswith(_OWN)


def read_gids(reading: ProbeReading, name: str, text: str, problem: str, command: str) -> None:
    """Read `show_gids`: every GID of every port. A table that was cut is none."""
    table = None if problem else parse_gids(text)
    if table is not None and not table.complete:
        problem, table = unreadable(command, _hint(table.unread, text)), None
    rows = None
    if table is not None:
        rows = [
            {
                "device": gid.device,
                "port": gid.port,
                "index": gid.index,
                "gid": gid.gid,
                "version": gid.version,
                "ip": gid.ipv4,
                "netdev": gid.netdev,
            }
            for gid in sorted(table.gids, key=lambda g: (natural_order(g.device), g.port, g.index))
        ]
    add(reading, name, problem, {"gids": rows})


def read_counters(reading: ProbeReading, name: str, text: str, problem: str, command: str) -> None:
    """Read the kernel's counters of RDMA ports: totals since each port came up."""
    found = None if problem else parse_port_counters(text)
    if found is not None and (not found.ends or found.unread):
        problem, found = unreadable(command, _hint(found.unread, text)), None
    if found is None and not problem:
        problem = unreadable(command, text)
    value: dict[str, dict[str, int]] = {}
    for path, count in found.values.items() if found is not None else ():
        device, _, rest = path.partition("/")
        counter = rest.rpartition("/")[2]
        if counter in RDMA_COUNTERS:
            port = rest.partition("/")[0]
            key = device if port == "1" else f"{device}/{port}"
            value.setdefault(key, {})[counter] = count
    add(reading, name, problem, {"rdma_counters": None if found is None else value},
        ttl_s=MINUTES_10_S)  # fmt: skip


def read_ethtool(reading: ProbeReading, name: str, text: str, problem: str, command: str) -> None:
    """Read `ethtool -S` of every interface, each below a line `# NAME`; one without counts is null."""
    value: dict[str, dict[str, int] | None] = {}
    for part in text.split("\n# ") if not problem else ():
        head, _, body = part.removeprefix("# ").partition("\n")
        if not body and not head:
            continue
        found = parse_ethtool_stats(f"{body}\n" if body and not body.endswith("\n") else body)
        value[head.strip()[:64]] = None if found is None else dict(found.values)
    if not problem and (not text.startswith("# ") or not any(value.values())):
        problem = unreadable(command, text)
    add(reading, name, problem, {"ethtool_counters": None if problem else value},
        ttl_s=MINUTES_10_S)  # fmt: skip


def join_ports(reading: ProbeReading) -> None:
    """Add what needs more than one answer: the ports, and the MTU of each port's interface."""
    problem = reading.problems.get("rdma-ports", "") or _disagreement(reading)
    if problem:
        reading.problems["rdma-ports"] = problem
    rows = None
    if reading.ports is not None and not problem:
        ports = sorted(reading.ports.ports, key=lambda p: (natural_order(p.device), p.port))
        rows = [_port(reading, port) for port in ports]
    reading.facts.append(FactSeen("rdma_ports", rows, "rdma-ports", "", problem, HOUR_S))
    why = reading.problems.get("links", "") or reading.problems.get("rdma-netdevs", "")
    mtus = None if why else _link_mtu(reading)
    reading.facts.append(FactSeen("link_mtu", mtus, "links", "B", why, DAY_S))


def _disagreement(reading: ProbeReading) -> str:
    """Return where the tools name different ports: one of them was cut, or it is another node's answer."""
    mine = {port.key for port in reading.ports.ports} if reading.ports is not None else set()
    others: dict[str, set[str]] = {}
    if reading.netdevs is not None:
        others["ibdev2netdev"] = {f"{one.device}/{one.port}" for one in reading.netdevs}
    if reading.active_mtu is not None:
        others["ibv_devinfo"] = set(reading.active_mtu)
    for tool, theirs in others.items():
        if odd := sorted(mine ^ theirs, key=natural_order):
            return say(
                "ibstat lists %(mine)s ports, %(tool)s %(theirs)s; only one of them has %(odd)s.",
                mine=len(mine),
                tool=tool,
                theirs=len(theirs),
                odd=", ".join(odd[:4]),
            )
    return ""


def _port(reading: ProbeReading, port: IbPort) -> dict[str, Any]:
    netdev = _netdev(reading, port)
    link = _link(reading, netdev)
    return {
        "device": port.device,
        "port": port.port,
        "state": port.state,
        "physical": port.physical,
        "rate_gbps": port.rate_gbs,
        "link_layer": port.link_layer,
        "netdev": netdev,
        "mtu": link.mtu if link is not None else None,
        "active_mtu": (reading.active_mtu or {}).get(port.key),
        "firmware": port.firmware,
    }


def _netdev(reading: ProbeReading, port: IbPort) -> str | None:
    for one in reading.netdevs or ():
        if (one.device, one.port) == (port.device, port.port):
            return one.netdev
    return None


def _link(reading: ProbeReading, name: str | None) -> NetLink | None:
    links = reading.links.links if reading.links is not None else ()
    return next((link for link in links if link.name == name), None)


def _link_mtu(reading: ProbeReading) -> dict[str, int | None]:
    names = [one.netdev for one in reading.netdevs or ()]
    found = {name: _link(reading, name) for name in sorted(names, key=natural_order)}
    return {name: link.mtu if link is not None else None for name, link in found.items()}


def _hint(unread: tuple[int, ...], text: str) -> str:
    """Return the line that was not understood, or the text itself when it was cut."""
    lines = text.splitlines()
    if unread and unread[0] <= len(lines):
        return lines[unread[0] - 1]
    return say("it was cut, or is not that tool's") if lines else ""
