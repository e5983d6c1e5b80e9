"""Checks of a node's cards, paths, kernel log and ports. Each says expected, found, evidence and what next.

Sources. 384-card manual 4.3: eight cards of one model, memory and firmware; NVLink, NUMA and PCIe paths as the golden
node; no unexplained Xid, uncorrected ECC, throttling. Manual 4.4: the state and rate of the ports as gold.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from fleet.readings.kernel_log.classes import xid_words
from fleet.readings.nvidia_smi.throttle import HARMLESS, REASON_BITS
from fleet.readings.told import sentence_of
from fleet.rules import xids
from fleet.rules.acceptance import FAIL, MARGINAL, CardRead, Check, NodeSeen
from fleet.rules.acceptance_parts import (
    PROBE_AGAIN,
    TAKE_GOLD,
    cards_raw,
    failed,
    passed,
    raw_of,
    read_of,
    several,
    unknown,
    words,
)
from fleet.rules.message import say

# A card at its power limit under load is as it should be (design, table of clock reasons).
POWER_CAP = "sw_power_cap"
NVLINK_KEYS, PATH_KEYS = ("nvlink_matrix", "topo"), ("nic_matrix", "gpu_numa", "gpu_cpus", "topo")
_REPLACE = say("Look for an Xid in the kernel log, then reset or replace the card.")


def is_busy(cards: Iterable[CardRead], idle_mib: float = 1024.0) -> bool:
    """Tell whether somebody's work lies on the cards. A bare driver context takes less than 1 GiB."""
    return any(
        card.memory_used_mib is not None and card.memory_used_mib > idle_mib for card in cards
    )


def cards(seen: NodeSeen) -> Check:
    """All cards there, of one model, memory and firmware."""
    expected = say("%(n)s equal cards: model, memory, firmware", n=seen.expected_gpus)
    evidence = (*cards_raw(seen.cards), *raw_of(seen, "vbios"))
    broken = [card for card in seen.cards if card.health == "failed"]
    if broken:
        found = say("GPU %(n)s: %(why)s", n=broken[0].index, why=broken[0].explanation or "-")
        return failed("cards", expected, found, _REPLACE, evidence)
    if not seen.cards:
        return unknown("cards", expected, say("no card was read"), PROBE_AGAIN, evidence)
    if len(seen.cards) != seen.expected_gpus:
        found = say("%(n)s cards", n=len(seen.cards))
        return failed("cards", expected, found, _REPLACE, evidence)
    kinds = {(words(card.name), card.memory_total_mib) for card in seen.cards}
    if any(not name or size is None for name, size in kinds):
        found = say("model or memory of a card was not read")
        return unknown("cards", expected, found, PROBE_AGAIN, evidence)
    if len(kinds) > 1:
        found = say(
            "cards of several kinds: %(kinds)s",
            kinds="; ".join(sorted(f"{name}, {size:g} MiB" for name, size in kinds)),
        )
        return failed("cards", expected, found, _REPLACE, evidence)
    vbios, why = read_of(seen, "vbios")
    if why:
        return unknown("cards", expected, why, PROBE_AGAIN, evidence)
    if isinstance(vbios, dict):  # one text when all agree
        found = say(
            "several firmwares: %(found)s",
            found=words(", ".join(f"GPU {at}: {text}" for at, text in sorted(vbios.items())), 200),
        )
        return failed("cards", expected, found, say("Bring all cards to one firmware."), evidence)
    found = say(
        "%(n)s × %(card)s, firmware %(vbios)s",
        n=len(seen.cards),
        card=words(seen.cards[0].name),
        vbios=words(vbios),
    )
    return passed("cards", expected, found, evidence)


def nvlink(seen: NodeSeen) -> Check:
    """NVLink paths as gold."""
    expected = say("NVLink paths between the cards as gold")
    return _as_gold(
        seen, "nvlink", expected, NVLINK_KEYS, say("Look at nvidia-smi nvlink -s and the switches.")
    )


def paths(seen: NodeSeen) -> Check:
    """NUMA and PCIe paths as gold."""
    expected = say("NUMA and PCIe paths from GPU to NIC as gold")
    return _as_gold(
        seen,
        "paths",
        expected,
        PATH_KEYS,
        say("Compare slots and BIOS settings with the golden node."),
    )


def _as_gold(seen: NodeSeen, name: str, expected: str, keys: Sequence[str], fix: str) -> Check:
    """Judge keys that must be as gold has them; the whole `topo` only where the profile has no finer key."""
    if seen.differences is None or seen.gold is None:
        return unknown(name, expected, say("no golden profile of this node class"), TAKE_GOLD)
    known = [key for key in keys if key in seen.gold]
    used = [key for key in known if key != "topo"] or known
    if not used:
        found = say("profile %(profile)s does not hold %(key)s", profile=seen.profile, key=keys[0])
        return unknown(name, expected, found, TAKE_GOLD)
    evidence = raw_of(seen, *used)
    mine = [difference for difference in seen.differences if difference.key in used]
    bad = [difference.text for difference in mine if difference.verdict == FAIL]
    if bad:
        return failed(name, expected, several(bad), fix, evidence)
    if mine:
        return unknown(name, expected, mine[0].text, PROBE_AGAIN, evidence)
    return passed(name, expected, say("as profile %(profile)s", profile=seen.profile), evidence)


def xid(seen: NodeSeen) -> Check:
    """No Xid that asks for a reset or a card, no switch fault, and none that nobody knows: a person decides that."""
    expected = say("no unexplained Xid or SXid since the boot")
    evidence = raw_of(seen, "xids", "sxids")
    rows, why = read_of(seen, "xids")
    switches, why_not = read_of(seen, "sxids")
    rows = rows or ()
    found = xids.events(rows, answered_at=seen.answered_at)
    if bad := xids.still_open(found, "hardware", "reset"):
        return failed("xid", expected, _codes(bad), xids.action_for(found, bad), evidence)
    if faults := [row for row in switches or () if not xids.is_answered(row, seen.answered_at)]:
        told = several([f"SXid {xids.code_of(row)}" for row in faults])
        fix = say("A switch fault concerns the whole node: reset its fabric.")
        return failed("xid", expected, told, fix, evidence)
    if why or why_not:
        return unknown("xid", expected, why or why_not, PROBE_AGAIN, evidence)
    if len(found) < len(rows):
        told = say("an Xid whose code was not read")
        return unknown("xid", expected, told, PROBE_AGAIN, evidence)
    if asked := xids.still_open(found, "ask"):
        return Check("xid", MARGINAL, expected, _codes(asked), xids.ENDS["ask"], evidence)
    if not found and not switches:
        return passed("xid", expected, say("none"), evidence)
    told = say(
        "%(n)s, all explained by a program or answered by a person",
        n=len(found) + len(switches or ()),
    )
    return passed("xid", expected, told, evidence)


def _codes(codes: Sequence[int]) -> str:
    return several(
        [
            say("Xid %(code)s (%(name)s)", code=code, name=sentence_of(xid_words(code)))
            for code in codes
        ]
    )


def ecc(seen: NodeSeen) -> Check:
    """No uncorrected ECC error since the driver was loaded."""
    expected = say("no uncorrected ECC error on any card")
    evidence = cards_raw(seen.cards)
    bad = [card for card in seen.cards if card.ecc_uncorrected]
    if bad:
        found = several(
            [
                say(
                    "uncorrected ECC on GPU %(n)s (%(count)s)",
                    n=card.index,
                    count=f"{card.ecc_uncorrected:g}",
                )
                for card in bad
            ]
        )
        return failed(
            "ecc",
            expected,
            found,
            say("Drain, reset the card; replace it if errors come back."),
            evidence,
        )
    unread = [str(card.index) for card in seen.cards if card.ecc_uncorrected is None]
    if unread or not seen.cards:
        found = say("ECC counters of GPU %(cards)s were not read", cards=", ".join(unread) or "-")
        return unknown("ecc", expected, found, PROBE_AGAIN, evidence)
    return passed("ecc", expected, say("0 on every card"), evidence)


def remap(seen: NodeSeen) -> Check:
    """No row remap that waits for a reset or that failed."""
    expected = say("no row remap that is pending or failed")
    evidence = raw_of(seen, "remap_pending", "remap_failure")
    unread = ""
    for key, word in (("remap_failure", say("failed")), ("remap_pending", say("pending"))):
        value, why = read_of(seen, key)
        truths = {} if why else _by_card(value)
        if bad := [at for at, truth in truths.items() if truth is True]:
            found = say("row remap %(word)s on GPU %(cards)s", word=word, cards=", ".join(bad))
            fix = say("Drain and reset the card; replace it if the remap failed.")
            return failed("remap", expected, found, fix, evidence)
        if why or None in truths.values():
            unread = unread or why or say("%(key)s was not understood", key=key)
    if unread:
        return unknown("remap", expected, unread, PROBE_AGAIN, evidence)
    return passed("remap", expected, say("none"), evidence)


def _by_card(value: Any) -> dict[str, bool | None]:
    """Return the truth of each card of a fact: one value for all of them, a list or a map by index."""
    if isinstance(value, dict):
        return {words(at): _truth(one) for at, one in value.items()}
    if isinstance(value, list):
        return {str(at): _truth(one) for at, one in enumerate(value)}
    return {"?": _truth(value)}


def _truth(value: Any) -> bool | None:
    if isinstance(value, bool):
        return value
    if isinstance(value, int | float):
        return value != 0
    return {"yes": True, "no": False, "none": False}.get(str(value).strip().lower())


def throttle(seen: NodeSeen) -> Check:
    """No card that heat, a power brake or its hardware holds back."""
    expected = say("no card held back by heat, power brake or hardware")
    evidence = cards_raw(seen.cards)
    held, unread = [], []
    for card in seen.cards:
        reasons = _reasons(card.throttle_reasons)
        if reasons is None:
            unread.append(str(card.index))
        elif bad := sorted(reasons - HARMLESS - {POWER_CAP}):
            held.append(say("GPU %(n)s: %(why)s", n=card.index, why=", ".join(bad)))
    if held:
        return failed(
            "throttle",
            expected,
            several(held),
            say("Look at cooling and power of the node."),
            evidence,
        )
    if unread or not seen.cards:
        found = say("clock reasons of GPU %(cards)s were not read", cards=", ".join(unread) or "-")
        return unknown("throttle", expected, found, PROBE_AGAIN, evidence)
    return passed("throttle", expected, say("none"), evidence)


def _reasons(mask: str) -> set[str] | None:
    try:
        bits = int(mask, 16)
    except ValueError:
        return None
    return {reason for reason, bit in REASON_BITS.items() if bits & bit}


def nics(seen: NodeSeen) -> Check:
    """Every port that gold has active is active, at gold's rate."""
    expected = say("every port of gold active, with its rate")
    evidence = raw_of(seen, "rdma_ports")
    fix = say("Look at the cable, the port of the leaf and ethtool.")
    value, why = read_of(seen, "rdma_ports")
    if why or not isinstance(value, list):
        found = why or say("%(key)s was not understood", key="rdma_ports")
        return unknown("nics", expected, found, PROBE_AGAIN, evidence)
    ports = {_port(row): row for row in value if isinstance(row, dict)}
    gold = (seen.gold or {}).get("rdma_ports")
    if gold is None or not isinstance(gold.value, list):
        down = [name for name, row in ports.items() if not _is_active(row) and not _is_off(row)]
        if down:  # a port that waits for its peer needs no gold to be wrong; one switched off may be meant so
            found = say("%(ports)s not active", ports=", ".join(down))
            return failed("nics", expected, found, fix, evidence)
        return unknown("nics", expected, say("no golden rate of the ports"), TAKE_GOLD, evidence)
    wanted = [row for row in gold.value if isinstance(row, dict) and _is_active(row)]
    bad = [why for row in wanted if (why := _port_problem(row, ports.get(_port(row))))]
    if bad:
        return failed("nics", expected, several(bad), fix, evidence)
    if not wanted:
        return unknown("nics", expected, say("no golden rate of the ports"), TAKE_GOLD, evidence)
    return passed("nics", expected, say("%(n)s ports as gold", n=len(wanted)), evidence)


def _port_problem(gold: dict[str, Any], now: dict[str, Any] | None) -> str:
    name = _port(gold)
    if now is None:
        return say("%(port)s is gone", port=name)
    if not _is_active(now):
        return say("%(port)s is %(state)s", port=name, state=words(now.get("state") or "?"))
    if now.get("rate_gbps") != gold.get("rate_gbps"):
        return say(
            "%(port)s at %(now)s Gb/s, gold %(gold)s",
            port=name,
            now=words(now.get("rate_gbps")),
            gold=words(gold.get("rate_gbps")),
        )
    return ""


def _port(row: dict[str, Any]) -> str:
    number = row.get("port")
    device = words(row.get("device"))
    return device if number in (None, 1, "1") else f"{device}/{words(number)}"


def _is_off(row: dict[str, Any]) -> bool:
    return str(row.get("physical")).lower() == "disabled"


def _is_active(row: dict[str, Any]) -> bool:
    physical = str(row.get("physical") or "LinkUp").replace("_", "").lower()
    return str(row.get("state")).lower() == "active" and physical == "linkup"
