"""Whether a node holds a revision of weights: one judge over what the console verified and what a probe found. Pure.

The console's own check reads every byte (rules/shards.py), a probe finds `.ready` marks. Where both speak, the check
decides, but for a mark that a later probe did not find any more. Unknown is never held.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from fleet.rules.holdings import READY

HELD, UNREAD, ABSENT, NOT_VERIFIED, GONE = "held", "unread", "absent", "not_verified", "gone"


@dataclass(frozen=True)
class RevisionsSeen:
    """What is known of one node. A revision is its directory below the model root: model/revision.

    `found`: those with a `.ready` mark when a probe looked at `found_at`; None when none did, or too long ago.
    `artefacts`: those whose manifest the console knows, with their public names. `states`: of the artefacts that the
    console brought to the node or checked there, the state and when it was last verified.
    """

    found: frozenset[str] | None = None
    found_at: datetime | None = None
    artefacts: Mapping[str, str] = field(default_factory=dict)
    states: Mapping[str, tuple[str, datetime | None]] = field(default_factory=dict)


def judge_revision(seen: RevisionsSeen, revision: str) -> str:
    """Return HELD, or why not: UNREAD and ABSENT by the probe, NOT_VERIFIED by the console, GONE by a later probe."""
    if revision not in seen.artefacts:
        if seen.found is None:
            return UNREAD
        return HELD if revision in seen.found else ABSENT
    state, verified_at = seen.states.get(revision, ("", None))
    if state != READY:
        return NOT_VERIFIED
    if seen.found is None or seen.found_at is None or revision in seen.found:
        return HELD
    # What a probe saw before the last copy was verified says nothing of that copy.
    return GONE if verified_at is None or seen.found_at > verified_at else HELD


def revisions_held(seen: RevisionsSeen) -> frozenset[str] | None:
    """Return the revisions that a node holds; None when nothing is known of it at all."""
    known = (seen.found or frozenset()) | seen.artefacts.keys()
    held = frozenset(one for one in known if judge_revision(seen, one) == HELD)
    return None if seen.found is None and not held else held
