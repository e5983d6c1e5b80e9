"""Node acceptance: the verdict of a node from its checks, until when it holds, and what ends it before. Pure.

An exit code of 0 accepts nothing (384-card manual, section 4.3). Unknown is never a pass: a node of which one check
is unknown is not measured. The checks themselves are acceptance_checks.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime, timedelta
from typing import Any, Protocol

from fleet.rules.message import say

PASS, FAIL, MARGINAL, UNKNOWN = "pass", "fail", "marginal", "unknown"
ACCEPTED, REJECTED, NOT_MEASURED = "accepted", "rejected", "not_measured"
VERDICTS = (ACCEPTED, MARGINAL, REJECTED, NOT_MEASURED)
STANDING = (
    ACCEPTED,
    MARGINAL,
    REJECTED,
)  # these say what a node is; "not measured" says nothing new

# An acceptance is repeated after 30 days, and after a reboot, a new driver or a new firmware (issue of the fleet,
# point 5; manual 4.1: "a node whose driver or firmware changes passes acceptance again").
VALID_FOR = timedelta(days=30)
# What a node must still be for its acceptance to hold: fact -> its word.
IDENTITY = {
    "boot_id": say("boot"),
    "driver_version": say("GPU driver"),
    "vbios": say("GPU firmware (VBIOS)"),
    "inforom": say("GPU InfoROM"),
    "gsp_firmware": say("GSP firmware"),
    "nic_firmware": say("NIC firmware"),
}


@dataclass(frozen=True)
class Read:
    """One fact. `value` None: no reading, with the `problem`. `command` and `section`: its raw output."""

    value: Any
    is_expired: bool = False
    problem: str = ""
    command: int | None = None
    section: str = ""


@dataclass(frozen=True)
class CardRead:
    """One card as the probe read it; None for no reading."""

    index: int
    name: str
    health: str
    explanation: str = ""
    memory_total_mib: float | None = None
    memory_used_mib: float | None = None
    ecc_uncorrected: float | None = None
    throttle_reasons: str = ""
    command: int | None = None


@dataclass(frozen=True)
class Measured:
    """A measured rate in GB/s with its tool; without a value the reason. `is_bad`: the tool ran and failed."""

    value: float | None
    tool: str = ""
    problem: str = ""
    is_bad: bool = False
    evidence: str = ""


@dataclass(frozen=True)
class Gold:
    """What gold wants of one measured key."""

    value: Any
    ratio: float | None = None


class DifferenceSeen(Protocol):
    """A place where a node differs from gold (golden.Difference)."""

    @property
    def key(self) -> str: ...
    @property
    def verdict(self) -> str: ...
    @property
    def text(self) -> str: ...


@dataclass(frozen=True)
class Pins:
    """What a release was validated with: its name, image reference by digest, driver and GPU firmware."""

    release: str
    image: str
    driver: str
    vbios: str


@dataclass(frozen=True)
class NodeSeen:
    """All that a node's acceptance is judged by. `differences` and `gold` None: there is no golden profile.

    `pins`: the releases whose matrix the node must meet; empty when none is known. `profile`: its public name.
    `answered_at`: up to when a person has answered for the node by lifting a hold of acceptance with a reason.
    """

    expected_gpus: int
    facts: Mapping[str, Read]
    cards: Sequence[CardRead]
    allreduce: Measured
    disk_read: Measured
    pins: Sequence[Pins] = ()
    differences: Sequence[DifferenceSeen] | None = None
    gold: Mapping[str, Gold] | None = None
    profile: str = ""
    answered_at: datetime | None = None


@dataclass(frozen=True)
class Check:
    """One check. `expected`, `found` and `next` are stored sentences; `evidence` names where it was read:
    "command/section" of a probe, or "evidence:id".
    """

    name: str
    verdict: str
    expected: str
    found: str
    next: str = ""
    evidence: tuple[str, ...] = field(default=())

    def as_object(self) -> dict[str, Any]:
        """Return the check as it is stored."""
        return {**asdict(self), "evidence": list(self.evidence)}


@dataclass(frozen=True)
class Verdict:
    """The verdict of a node, one sentence that says why, and its checks in their order."""

    verdict: str
    summary: str
    checks: tuple[Check, ...]


def conclude(checks: Sequence[Check]) -> Verdict:
    """Return the verdict that these checks make: one failure rejects, one unknown leaves a node not measured."""
    if not checks:
        return not_measured(say("no check was made"))
    for verdict, word in ((REJECTED, FAIL), (NOT_MEASURED, UNKNOWN), (MARGINAL, MARGINAL)):
        named = [check for check in checks if check.verdict == word]
        if named:
            return Verdict(verdict, _summary(named), tuple(checks))
    return Verdict(ACCEPTED, say("All %(n)s checks passed.", n=len(checks)), tuple(checks))


def not_measured(why: str, checks: Sequence[Check] = ()) -> Verdict:
    """Return the verdict of a node that could not be measured, with the reason."""
    return Verdict(NOT_MEASURED, why, tuple(checks))


def _summary(named: Sequence[Check]) -> str:
    if len(named) == 1:
        return named[0].found
    return say("%(found)s; %(n)s more", found=named[0].found, n=len(named) - 1)


def why_held(verdict: str, summary: str, checks: Iterable[Mapping[str, Any]]) -> str:
    """Return why a node may not be used until it is accepted, or a person answers for it; empty when it may.

    What was rejected or is marginal is held. One that was not measured is held for an Xid that nobody knows only:
    its other checks say nothing until all are made.
    """
    if verdict in (REJECTED, MARGINAL):
        return summary
    if verdict == ACCEPTED:
        return ""
    return next(
        (
            str(check["found"])
            for check in checks
            if check["name"] == "xid" and check["verdict"] == MARGINAL
        ),
        "",
    )


def identity_of(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a node is, from its facts (key to value); what was not read is left out."""
    found = {key: values.get(key) for key in IDENTITY if key != "nic_firmware"}
    ports = values.get("rdma_ports")
    if isinstance(ports, list):
        found["nic_firmware"] = {
            str(port["device"]): port["firmware"]
            for port in ports
            if isinstance(port, dict) and port.get("device") and port.get("firmware")
        }
    return {key: value for key, value in found.items() if value not in (None, "", {})}


def changed_since(accepted: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    """Say what of a node is not as it was accepted; empty when nothing is. What is not read now is no change."""
    for key, word in IDENTITY.items():
        before, after = accepted.get(key), now.get(key)
        if before in (None, "") or after in (None, "") or before == after:
            continue
        if key == "boot_id":
            return say("The node was started again since it was accepted.")
        return say(
            "%(what)s changed since it was accepted: %(before)s then, %(after)s now.",
            what=word,
            before=_short(before),
            after=_short(after),
        )
    return ""


def _short(value: Any) -> str:
    text = (
        ", ".join(sorted(set(map(str, value.values())))) if isinstance(value, dict) else str(value)
    )
    return text[:80]


def state_after(state: str, verdict: str, *, is_own_quarantine: bool) -> str:
    """Return the state of a node after its acceptance (RELIABILITY.md, node states).

    Rejected is quarantined. Accepted is ready, also out of the quarantine that a rejection made, never out of a
    person's; so is marginal, which its hold keeps from work. An unmeasured node stays where it is.
    """
    if state == "retired":
        return state
    if verdict == REJECTED:
        return "quarantined"
    if verdict in (ACCEPTED, MARGINAL) and (state != "quarantined" or is_own_quarantine):
        return "ready"
    return state
