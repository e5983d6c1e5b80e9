"""The verdict of a probe: pass, fail or unknown, with findings that say expected, found and what to do next.

It compares with the counts of the node's class only; acceptance proper (bandwidth, soak, golden values) is
another matter. What could not be read is unknown, and unknown never passes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from fleet.readings.nvidia_smi.sentences import HARDWARE_KINDS, Sentence
from fleet.rules.message import say
from fleet.rules.probe_cards import FAILED, CardSeen
from fleet.rules.probe_facts import ProbeReading, counts_cards

PASS, FAIL, UNKNOWN = "pass", "fail", "unknown"
_NAMED_MAX = 3


@dataclass(frozen=True)
class Finding:
    """One thing that keeps a probe from passing."""

    check: str
    verdict: str
    expected: str
    found: str
    next: str
    section: str = ""

    def as_object(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class Verdict:
    """The verdict, one sentence, and the findings, worst first."""

    verdict: str
    summary: str
    findings: tuple[Finding, ...]


def judge_probe(
    reading: ProbeReading,
    cards: Sequence[CardSeen],
    commands: Mapping[str, str],
    expected_gpus: int,
    name: str = "",
) -> Verdict:
    """Judge what a probe read against the counts of the class, and whether the node `name` answered."""
    findings = [
        *_stranger(reading, name),
        *_count(reading, expected_gpus),
        *_cards(cards, reading),
        *_matrix(reading, expected_gpus),
        *_sentences(reading),
        *_unread(reading, commands),
    ]
    findings.sort(key=lambda finding: finding.verdict != FAIL)
    failed = [finding for finding in findings if finding.verdict == FAIL]
    if failed:
        summary = say("%(expected)s; %(found)s", expected=failed[0].expected, found=failed[0].found)
        return Verdict(FAIL, summary, tuple(findings))
    if findings:
        names = ", ".join(dict.fromkeys(finding.check for finding in findings))
        return Verdict(
            UNKNOWN, say("Could not be read: %(checks)s.", checks=names), tuple(findings)
        )
    summary = say(
        "%(gpus)s GPUs as expected, all %(checks)s commands read.",
        gpus=expected_gpus,
        checks=len(commands),
    )
    return Verdict(PASS, summary, ())


def judge_silence(explanation: str, state: str) -> Verdict:
    """Judge a probe whose command never came back with an answer: unknown, with the kernel's reason."""
    found = explanation or say("the command ended as %(state)s", state=state)
    finding = Finding(
        check="connection",
        verdict=UNKNOWN,
        expected=say("an answer of the node's shell"),
        found=found,
        next=say("Check its address, its user, its key and that it runs, then probe again."),
    )
    return Verdict(UNKNOWN, say("No answer: %(found)s", found=found), (finding,))


def state_after(state: str, verdict: str, *, has_answered: bool) -> str:
    """Return the state of a node after a probe. Quarantined and retired nodes are moved by people only."""
    if state in {"quarantined", "retired"}:
        return state
    if not has_answered:
        # nothing was learnt: a first probe starts again, a known node keeps its state until facts say more
        return "registered" if state == "probing" else state
    if verdict == PASS:
        return "ready"
    return "registered" if state == "registered" else "acceptance"


def _stranger(reading: ProbeReading, name: str) -> Iterator[Finding]:
    """An answer of another machine is no answer of this one, however good it is."""
    told = next((fact.value for fact in reading.facts if fact.key == "hostname"), None)
    if not name or not told or _short(told) == _short(name):
        return
    yield Finding(
        check="hostname",
        verdict=UNKNOWN,
        expected=say("%(name)s answers as itself", name=name),
        found=say("the machine calls itself %(told)s", told=told[:80]),
        next=say("Compare address and name in the inventory, correct them, then probe again."),
        section="hostname",
    )


def _short(name: str) -> str:
    return name.partition(".")[0].lower()


def _count(reading: ProbeReading, expected: int) -> Iterator[Finding]:
    listing = reading.listing
    if listing is None or len(listing.gpus) == expected or not counts_cards(listing):
        return
    found = len(listing.gpus)
    yield Finding(
        check="gpu-count",
        verdict=FAIL,
        expected=say("%(n)s GPUs expected", n=expected),
        found=say("%(n)s listed by nvidia-smi -L", n=found),
        next=say(
            "Hold the node, look for an Xid in its kernel log, then reset or replace the card."
        ),
        section="gpu-list",
    )


def _cards(cards: Sequence[CardSeen], reading: ProbeReading) -> Iterator[Finding]:
    if reading.table is None:
        return
    failed = [card for card in cards if card.health == FAILED]
    unknown = [card for card in cards if card.health == UNKNOWN]
    for group, verdict in ((failed, FAIL), (unknown, UNKNOWN)):
        for card in group[:_NAMED_MAX]:
            yield Finding(
                check=f"gpu-{card.index}",
                verdict=verdict,
                expected=say("GPU %(index)s answers every question", index=card.index),
                found=card.explanation or say("no answer"),
                next=say("Read the raw output and the kernel log of the node."),
                section="gpu-query",
            )


def _matrix(reading: ProbeReading, expected: int) -> Iterator[Finding]:
    topology = reading.topology
    if topology is None:
        return
    count = len(topology.gpus)
    if topology.columns and count != expected:
        yield Finding(
            check="topo",
            verdict=FAIL,
            expected=say("%(n)s GPUs in the topology matrix", n=expected),
            found=say("%(n)s columns, numbered anew", n=count),
            next=say("Compare with nvidia-smi -L: a card is missing and the rest moved up."),
            section="topo",
        )
    elif not topology.complete:
        why = "; ".join(topology.problems[:_NAMED_MAX]) or "no matrix"
        yield Finding(
            check="topo",
            verdict=UNKNOWN,
            expected=say("a whole topology matrix"),
            found=why[:200],
            next=say("Read the raw output of nvidia-smi topo -m."),
            section="topo",
        )


def _sentences(reading: ProbeReading) -> Iterator[Finding]:
    seen: list[tuple[str, Sentence]] = []
    if reading.listing:
        seen += [("gpu-list", sentence) for sentence in reading.listing.sentences]
    if reading.table:
        seen += [("gpu-query", sentence) for sentence in reading.table.sentences]
    for section, sentence in seen[: 2 * _NAMED_MAX]:
        yield Finding(
            check=sentence.kind,
            verdict=FAIL if sentence.kind in HARDWARE_KINDS else UNKNOWN,
            expected=say("only cards in the answer of nvidia-smi"),
            found=sentence.text[:200],
            next=say("Read the raw output and the kernel log of the node."),
            section=section,
        )


def _unread(reading: ProbeReading, commands: Mapping[str, str]) -> Iterator[Finding]:
    for section, problem in reading.problems.items():
        yield Finding(
            check=section,
            verdict=UNKNOWN,
            expected=say("an answer of %(command)s", command=commands.get(section, section)),
            found=problem,
            next=say("Install the tool or repair its answer, then probe again."),
            section=section,
        )
