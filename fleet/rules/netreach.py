"""Layer 1 of network acceptance: packets come back from the host and from each rail, unsplit, by the right way. Pure.

The address that people log in at says nothing of the rails, so every rail of the matrix is asked by its own address:
the IPv4 address of the GID that the matrix names, which is the one that RoCE sends from. InfiniBand has no such
address; there the interface of the matrix is asked for its full MTU, and layer 2 tries the rails.
Source: manual A 4.4; iputils ping(8), iproute2 ip-route(8), show_gids of MLNX_OFED.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from fleet.readings.fabric.netdevs import parse_gids
from fleet.readings.reach import Ping, Route, parse_ping, parse_route
from fleet.rules.message import foreign, say
from fleet.rules.netscripts import End, Wiring, counter_section, section, split_parts
from fleet.rules.netverdict import FAIL, PASS, REACH, UNKNOWN, Layer, Said, layer_of

IP_HEADERS = 28  # IPv4 and ICMP, which ping's -s does not count
PINGS = 5
# A rail without an answer takes 2 s: five packets 0.2 s apart, then ping waits 1 s for the last.
RAILS_LIMIT_S = 45
REACH_RAILS = """\
n=$1 s=$2; shift 2
while [ $# -ge 4 ]; do
  d=$1 i=$2 f=$3 a=$4; shift 4
  o=$(ping -c "$n" -i 0.2 -W 1 -M do -s "$s" -I "$i" "$a" 2>&1)
  printf '== flotilla ping %s out rc %s bytes %s\\n%s\\n' "$d" $? ${#o} "$o"
  o=$(ip route get "$a" from "$f" 2>&1)
  printf '== flotilla route %s out rc %s bytes %s\\n%s\\n' "$d" $? ${#o} "$o"
done
"""


@dataclass(frozen=True)
class RailEnd:
    """One node's end of a rail: the network interface of the card and its IPv4 address."""

    netdev: str
    address: str


def reach_sections(wiring: Wiring, peer: End) -> list[dict[str, Any]]:
    """Return what a node is asked first: the peer's host address, the way to it, its own GIDs, its counters."""
    words = ["ping", "-c", str(PINGS), "-i", "0.2"]
    if wiring.gid_index is None:
        words += ["-M", "do", "-s", str(wiring.mtu - IP_HEADERS)]
    return [
        section("ping", [*words, peer.address], 15),
        section("route", ["ip", "route", "get", peer.address], 5),
        section("gids", ["show_gids"], 10),
        counter_section(wiring),
    ]


def rail_ends(gids: str, wiring: Wiring) -> dict[str, RailEnd]:
    """Return by card the end of each rail that `show_gids` names; a table that was cut names none."""
    table = parse_gids(gids)
    if not table.complete or wiring.gid_index is None:
        return {}
    return {
        gid.device: RailEnd(gid.netdev, gid.ipv4)
        for gid in table.gids
        if gid.index == wiring.gid_index and gid.ipv4 and gid.netdev and gid.device in wiring.hcas
    }


def cards_beside(mine: Wiring, theirs: Wiring) -> dict[str, str]:
    """Return by own card the peer's card on the same rail: both lists stand in the order of the rails."""
    return dict(zip(mine.hcas, theirs.hcas, strict=False))


def rail_section(
    wiring: Wiring,
    mine: Mapping[str, RailEnd],
    theirs: Mapping[str, RailEnd],
    cards: Mapping[str, str],
) -> dict[str, Any]:
    """Return the question for every rail of which both ends are known. `cards`: own card to the peer's of that rail."""
    words = []
    for card in wiring.hcas:
        here, there = mine.get(card), theirs.get(cards.get(card, ""))
        if here and there:
            words += [card, here.netdev, here.address, there.address]
    size = str(wiring.mtu - IP_HEADERS)
    return section(
        "rails", ["sh", "-c", REACH_RAILS, "sh", str(PINGS), size, *words], RAILS_LIMIT_S
    )


def judge_host(ping: str, route: str, wiring: Wiring) -> Layer:
    """Judge the host address: packets come back, and they go by the interface of the matrix."""
    pinged, way = parse_ping(ping), parse_route(route)
    mtu = wiring.mtu if wiring.gid_index is None else None
    wanted = say("the network matrix says %(wanted)s", wanted=wiring.interface)
    values = {
        "loss_pct": pinged.loss_pct,
        "rtt_ms": pinged.rtt_avg_ms,
        "device": way and way.device,
    }
    rows = [_ping_said(pinged, mtu), _route_said(way, wiring.interface, wanted)]
    if wiring.gid_index is None:
        rows.append(
            Said(PASS, say("InfiniBand: the rails have no IP address to ping; layer 2 tries them."))
        )
    return layer_of(REACH, rows, values)


def judge_rails_reached(
    text: str,
    wiring: Wiring,
    mine: Mapping[str, RailEnd],
    theirs: Mapping[str, RailEnd],
    cards: Mapping[str, str],
) -> Layer:
    """Judge each rail: packets of the full MTU come back unsplit, by the rail's own interface.

    What is as it should be is told once for all rails; a rail that is not is named.
    """
    parts = {(part.kind, part.name): part for part in split_parts(text) if part.is_whole}
    rows, values, good = [], {}, 0
    for card in wiring.hcas:
        other = cards.get(card, "")
        if card not in mine or other not in theirs:
            rows.append(_no_address(card, wiring, is_here=card not in mine))
            continue
        ping, route = parts.get(("ping", card)), parts.get(("route", card))
        pinged, way = (
            parse_ping(ping.text if ping else ""),
            parse_route(route.text if route else ""),
        )
        values[card] = {
            "loss_pct": pinged.loss_pct,
            "rtt_ms": pinged.rtt_avg_ms,
            "device": way and way.device,
        }
        bad = list(_rail_faults(card, pinged, way, wiring, mine[card]))
        good += not bad
        rows += bad
    if good:
        rows.insert(0, _good_rails(good, wiring))
    return layer_of(REACH, rows, {"rails": values})


def _rail_faults(
    card: str, pinged: Ping, way: Route | None, wiring: Wiring, end: RailEnd
) -> Iterator[Said]:
    wanted = say("the rail's own interface is %(wanted)s", wanted=end.netdev)
    for one in (_ping_said(pinged, wiring.mtu), _route_said(way, end.netdev, wanted)):
        if one.verdict != PASS:
            yield Said(one.verdict, say("%(card)s: %(text)s", card=card, text=one.text))


def _good_rails(good: int, wiring: Wiring) -> Said:
    text = say(
        "%(n)d of %(all)d rails: all packets of MTU %(mtu)d came back, each by the rail's own interface.",
        n=good,
        all=len(wiring.hcas),
        mtu=wiring.mtu,
    )
    return Said(PASS, text)


def _no_address(card: str, wiring: Wiring, *, is_here: bool) -> Said:
    if is_here:
        text = say(
            "%(card)s: show_gids names no interface with an IPv4 address at GID index %(index)s, so the rail was not"
            " pinged. Compare the card with the network matrix.",
            card=card,
            index=wiring.gid_index,
        )
    else:
        text = say(
            "%(card)s: the other node told no address of this rail, so it was not pinged.",
            card=card,
        )
    return Said(UNKNOWN, text)


def _ping_said(pinged: Ping, mtu: int | None) -> Said:
    if pinged.too_long:
        why = say(
            "A packet of MTU %(wanted)d does not pass; the way carries %(found)s. Set the same MTU on both nodes and"
            " on every switch port between them.",
            wanted=mtu or 0,
            found=pinged.mtu or "?",
        )
        return Said(FAIL, why)
    if pinged.loss_pct is None or not pinged.sent:
        return Said(UNKNOWN, say("ping told no statistics: reachability is not known."))
    if pinged.loss_pct > 0:
        why = say(
            "%(loss)s %% of %(sent)d packets were lost; expected none.",
            loss=f"{pinged.loss_pct:g}",
            sent=pinged.sent,
        )
        return Said(FAIL, why)
    if mtu is None:
        return Said(PASS, say("%(sent)d of %(sent)d packets came back.", sent=pinged.sent))
    return Said(
        PASS,
        say("%(sent)d of %(sent)d packets of MTU %(mtu)d came back.", sent=pinged.sent, mtu=mtu),
    )


def _route_said(way: Route | None, device: str, wanted: str) -> Said:
    if way is None:
        return Said(UNKNOWN, say("ip route get named no way to the other node."))
    if way.device != device:
        why = say(
            "The way to the other node is %(found)s; %(wanted)s.",
            found=foreign(way.device),
            wanted=wanted,
        )
        return Said(FAIL, why)
    return Said(PASS, say("The way to the other node is %(device)s.", device=device))
