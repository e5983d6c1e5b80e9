"""Checks of what a node is measured at, of its host, and of what a release was validated with.

Sources. 384-card manual 4.3: NVMe capacity and sequential read, a clock that lets logs be put in order. Manual 4.4: a
bandwidth is judged as a ratio to gold, never by a universal number. Manual 4.1: driver and image as the release was
validated. Manual 5.2: memlock -1. Second manual, section on shared memory: /dev/shm of at least 64 GB.
Design, diagnosis D16: a clock offset above 50 ms fails acceptance; the golden page holds clocks to 1 ms.
"""

from __future__ import annotations

from fleet.rules.acceptance import FAIL, MARGINAL, Check, Measured, NodeSeen
from fleet.rules.acceptance_cards import NVLINK_KEYS, PATH_KEYS
from fleet.rules.acceptance_parts import (
    PROBE_AGAIN,
    TAKE_GOLD,
    failed,
    is_number,
    passed,
    raw_of,
    read_of,
    several,
    unknown,
    words,
)
from fleet.rules.message import say

GIB = 1 << 30
SHM_LEAST_GIB = 64
CLOCK_FAIL_S, CLOCK_MARGINAL_S = 0.05, 0.001
LEAST_RATIO = 0.9  # of gold, where the profile gives none (design, diagnosis D19)
MARGIN = 0.05  # our choice: up to so much below the least ratio a person looks at the node before it is rejected
ALLREDUCE, DISK_READ, DISK_TOOL = "allreduce_busbw_gbs", "disk_read_gbs", "disk_read_tool"
IMAGES, ON_NODE, NOT_ON_NODE = "serving_images", "present", "absent"
_DISK_KEYS = ("model_disk_total", "disk_model_total_gib")
# What has a check of its own is not told a second time by the check of everything else in the profile.
_JUDGED_ALONE = frozenset(
    {
        *NVLINK_KEYS,
        *PATH_KEYS,
        *_DISK_KEYS,
        *(ALLREDUCE, DISK_READ, DISK_TOOL, IMAGES),
        *("rdma_ports", "remap_pending", "remap_failure", "memlock_kb", "shm_total"),
        *("clock_offset", "clock_offset_ms", "clock_is_synchronised"),
        *("gpu_count", "gpu_name", "driver_version", "vbios"),
    }
)
_SEAL = say("Seal a release for its pool, then accept again.")


def allreduce(seen: NodeSeen) -> Check:
    """Bus bandwidth of all_reduce over the cards of the node, as a ratio to gold."""
    fix = say("Compare NVLink errors and clocks of its cards with the golden node.")
    return _rate(seen, "allreduce", ALLREDUCE, seen.allreduce, fix)


def disk_read(seen: NodeSeen) -> Check:
    """Sequential read of the model disk, as a ratio to gold."""
    fix = say("Look at the NVMe set: a member may be slow or gone.")
    return _rate(seen, "disk_read", DISK_READ, seen.disk_read, fix)


def _rate(seen: NodeSeen, name: str, key: str, measured: Measured, fix: str) -> Check:
    gold = (seen.gold or {}).get(key)
    wanted = float(gold.value) if gold and is_number(gold.value) and gold.value > 0 else None
    ratio = (gold.ratio if gold else None) or LEAST_RATIO
    evidence = (measured.evidence,) if measured.evidence else ()
    expected = say("at least %(ratio)s of gold", ratio=f"{ratio:g}")
    if wanted is not None:
        expected = say(
            "at least %(bar)s GB/s, %(ratio)s of gold's %(gold)s",
            bar=f"{ratio * wanted:.4g}",
            ratio=f"{ratio:g}",
            gold=f"{wanted:.4g}",
        )
    if measured.value is None:
        if measured.is_bad:
            return failed(name, expected, measured.problem, fix, evidence)
        return unknown(
            name, expected, measured.problem, say("Accept again when that is mended."), evidence
        )
    tool = f" ({measured.tool})" if measured.tool else ""
    value = f"{measured.value:.4g}"
    if wanted is None:
        found = say("%(value)s GB/s%(tool)s, nothing to compare with", value=value, tool=tool)
        return unknown(name, expected, found, TAKE_GOLD, evidence)
    share = f"{measured.value / wanted:.3f}"
    found = say("%(value)s GB/s, %(ratio)s of gold%(tool)s", value=value, ratio=share, tool=tool)
    if measured.value >= ratio * wanted:
        return passed(name, expected, found, evidence)
    if measured.value >= (ratio - MARGIN) * wanted:
        return Check(name, MARGINAL, expected, found, fix, evidence)
    return failed(name, expected, found, fix, evidence)


def shm(seen: NodeSeen) -> Check:
    """Shared memory of the host, in which ranks of a node exchange."""
    expected = say("/dev/shm of at least %(n)s GiB", n=SHM_LEAST_GIB)
    evidence = raw_of(seen, "shm_total")
    value, why = read_of(seen, "shm_total")
    if why or not is_number(value):
        found = why or say("%(key)s was not understood", key="shm_total")
        return unknown("shm", expected, found, PROBE_AGAIN, evidence)
    found = say("%(n)s GiB", n=f"{value / GIB:,.1f}")
    if value < SHM_LEAST_GIB * GIB:
        return failed("shm", expected, found, say("Remount /dev/shm larger."), evidence)
    return passed("shm", expected, found, evidence)


def memlock(seen: NodeSeen) -> Check:
    """Locked memory without a limit: RDMA registers its buffers."""
    expected = say("memlock unlimited")
    evidence = raw_of(seen, "memlock_kb")
    value, why = read_of(seen, "memlock_kb")
    if why:
        return unknown("memlock", expected, why, PROBE_AGAIN, evidence)
    if value == "unlimited":
        return passed("memlock", expected, "unlimited", evidence)
    found = f"{value} KiB" if is_number(value) else words(value)
    fix = say("Raise the limit of locked memory: RDMA registers its buffers.")
    return failed("memlock", expected, found, fix, evidence)


def disk_space(seen: NodeSeen) -> Check:
    """Capacity of the model disk: the manual's weight baseline is what gold holds."""
    known = seen.gold if seen.gold is not None else seen.facts
    key = next((key for key in _DISK_KEYS if key in known), _DISK_KEYS[0])
    gold, unit = (seen.gold or {}).get(key), 1 if key.endswith("_gib") else GIB
    expected, evidence = say("model disk as large as gold's"), raw_of(seen, key)
    value, why = read_of(seen, key)
    if why or not is_number(value):
        found = why or say("%(key)s was not understood", key=key)
        return unknown("disk_space", expected, found, PROBE_AGAIN, evidence)
    found = say("%(n)s GiB", n=f"{value / unit:,.0f}")
    if gold is None or not is_number(gold.value) or gold.value <= 0:
        return unknown("disk_space", expected, found, TAKE_GOLD, evidence)
    bar = (gold.ratio or LEAST_RATIO) * gold.value
    expected = say("model disk of at least %(n)s GiB", n=f"{bar / unit:,.0f}")
    if value < bar:
        return failed(
            "disk_space", expected, found, say("Look for a missing NVMe in lsblk."), evidence
        )
    return passed("disk_space", expected, found, evidence)


def clock(seen: NodeSeen) -> Check:
    """A clock that lets logs of several nodes be put in order."""
    expected = say("clock synchronised, within 1 ms")
    evidence, fix = raw_of(seen, "clock_offset"), say("Look at chronyc sources on the node.")
    offset, why = read_of(seen, "clock_offset")
    synced, why_not = read_of(seen, "clock_is_synchronised")
    if is_number(offset) and abs(offset) > CLOCK_FAIL_S:
        return failed("clock", expected, _milliseconds(offset), fix, evidence)
    if synced is False:
        return failed("clock", expected, say("not synchronised"), fix, evidence)
    if why or why_not or not is_number(offset):
        found = why or why_not or say("%(key)s was not understood", key="clock_offset")
        return unknown("clock", expected, found, PROBE_AGAIN, evidence)
    if abs(offset) > CLOCK_MARGINAL_S:
        return Check("clock", MARGINAL, expected, _milliseconds(offset), fix, evidence)
    return passed("clock", expected, _milliseconds(offset), evidence)


def _milliseconds(seconds: float) -> str:
    return f"{seconds:.4g} s" if abs(seconds) >= 1 else f"{seconds * 1000:.3g} ms"


def image(seen: NodeSeen) -> Check:
    """The images that the node would serve lie on it, by digest."""
    expected = say("the serving image of each release, by digest")
    if not seen.pins:
        return unknown(
            "image", expected, say("no release is known that this node would serve"), _SEAL
        )
    evidence = raw_of(seen, IMAGES)
    value, why = read_of(seen, IMAGES)
    if why or not isinstance(value, dict):
        found = why or say("%(key)s was not understood", key=IMAGES)
        return unknown("image", expected, found, PROBE_AGAIN, evidence)
    states = {pins.image: value.get(pins.image) for pins in seen.pins}
    if absent := [one for one, state in states.items() if state == NOT_ON_NODE]:
        found = say("%(image)s is not on the node", image=_tail(absent[0]))
        fix = say("Pull the image by its digest, then accept again.")
        return failed("image", expected, found, fix, evidence)
    if unread := [one for one, state in states.items() if state != ON_NODE]:
        found = say("docker did not say whether %(image)s is there", image=_tail(unread[0]))
        return unknown("image", expected, found, say("Look at docker on the node."), evidence)
    return passed("image", expected, ", ".join(sorted(map(_tail, states))), evidence)


def platform(seen: NodeSeen) -> Check:
    """Driver and GPU firmware as each release was validated: an image that starts under one is not thereby right."""
    if not seen.pins:
        expected = say("driver and firmware as a release was validated with")
        found = say("no release is known that this node would serve")
        return unknown("platform", expected, found, _SEAL)
    expected = "; ".join(dict.fromkeys(f"{pins.driver}, {pins.vbios}" for pins in seen.pins))
    evidence = raw_of(seen, "driver_version", "vbios")
    driver, why = read_of(seen, "driver_version")
    vbios, why_not = read_of(seen, "vbios")
    if why or why_not:
        return unknown("platform", expected, why or why_not, PROBE_AGAIN, evidence)
    firmware = words(vbios) if isinstance(vbios, str) else say("several firmwares")
    found = say("driver %(driver)s, firmware %(vbios)s", driver=words(driver), vbios=firmware)
    for pins in seen.pins:
        if (driver, vbios) != (pins.driver, pins.vbios):
            fix = say(
                "%(release)s pins %(driver)s, %(vbios)s: change the node or the release.",
                release=pins.release,
                driver=pins.driver,
                vbios=pins.vbios,
            )
            return failed("platform", expected, found, fix, evidence)
    return passed("platform", expected, found, evidence)


def everything_else(seen: NodeSeen) -> Check:
    """What else the profile holds. Drift of software and settings is worth a look; it is no broken hardware."""
    expected = say("everything else as gold")
    if seen.differences is None:
        return unknown("gold", expected, say("no golden profile of this node class"), TAKE_GOLD)
    rest = [one for one in seen.differences if one.key not in _JUDGED_ALONE]
    bad = [one.text for one in rest if one.verdict == FAIL]
    if rest and not bad:
        return unknown("gold", expected, rest[0].text, PROBE_AGAIN)
    if bad:
        fix = say("Bring the node to its profile, or make a new version of the profile.")
        return Check("gold", MARGINAL, expected, several(bad), fix)
    return passed("gold", expected, say("as profile %(profile)s", profile=seen.profile))


def _tail(image: str) -> str:
    """Return an image as people read it: its name and twelve digits of its digest."""
    name, _, digest = image.partition("@")
    return f"{name.rpartition('/')[2]}@{digest.removeprefix('sha256:')[:12]}"
