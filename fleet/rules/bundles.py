"""Takes a bundle of a probe apart: several answers in one section, each between two marks. Pure.

An answer whose end is missing was cut by the deadline of its section, and so were those after it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from fleet.rules.gather import PART_BEGINS, PART_ENDS, bundles_of
from fleet.rules.probe_facts import ProbeReading, SectionSeen

_TIMED_OUT = 124
# The mark's own line feed stands before it, so that an answer that does not end with one is kept as it is.
_PART = re.compile(
    rb"^%s([\w-]{1,40})\n(.*?)\n%s(\d{1,3})\n" % (PART_BEGINS.encode(), PART_ENDS.encode()),
    re.M | re.S,
)


@dataclass(frozen=True)
class Part:
    """One answer of a bundle, as if it had been a section."""

    rc: int | None
    body: bytes
    truncated: bool = False
    error: str = ""


def open_bundles(sections: Mapping[str, SectionSeen]) -> dict[str, SectionSeen]:
    """Return the sections with every bundle replaced by its answers."""
    answers = dict(sections)
    for bundle, names in bundles_of().items():
        section = answers.pop(bundle, None)
        if section is not None:
            answers.update(_parts(section, names))
    return answers


def _parts(section: SectionSeen, names: tuple[str, ...]) -> Iterator[tuple[str, Part]]:
    told: dict[str, Part] = {}
    for found in _PART.finditer(section.body):
        name = found[1].decode("ascii", "replace")
        # A name that stands twice is forged by what a tool printed: neither is believed.
        rc = None if name in told else int(found[3])
        told[name] = Part(rc, found[2])
    for name in names:
        if name in told:
            yield name, told[name]
        elif section.truncated or section.error or section.rc in (0, None):
            rc = section.rc or None
            yield name, Part(rc, b"", section.truncated, section.error)
        else:
            yield name, Part(section.rc, section.body[:400])


def place_facts(reading: ProbeReading) -> None:
    """Let each fact of a bundle's answer lead to the section that holds it, whose raw output is kept."""
    place = {name: bundle for bundle, names in bundles_of().items() for name in names}
    reading.facts = [
        replace(fact, section=place.get(fact.section, fact.section)) for fact in reading.facts
    ]
