"""Who may do what: one table of every page, form, socket and action. What has no entry is denied.

Roles are sets of permissions, not an order (design: states and transitions): viewer reads; operator reads and acts;
approver also signs; admin reads and keeps people, keys, nodes and settings, and acts only when given that role too.
A role holds for the whole fleet or for one pool.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

READ = frozenset({"viewer", "operator", "approver", "admin"})
ACT = frozenset({"operator", "approver"})
SIGN = frozenset({"approver"})
KEEP = frozenset({"admin"})
SIGNED_IN = frozenset({"*"})  # any person, also one without a role
ANYONE = frozenset({"anonymous"})  # also nobody
NOBODY: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Entry:
    """Roles that may read (GET, sockets) and write (every other method) behind one name.

    `scope` names the object in the address whose pool decides (node, replica, pool); `body` leaves the objects
    to the service that gets them; without a scope the whole fleet is meant. `is_versioned`: a write carries the
    version of that object, or of its part that the word `part` of the address names. `is_start`: counts against the
    starts of a person in a minute. `is_reading`: a post there only reads the text it carries; it changes and keeps
    nothing, so it needs no key, and its field `text` may hold any character up to the limit of the page.
    """

    read: frozenset[str] = NOBODY
    write: frozenset[str] = NOBODY
    scope: str = ""
    is_versioned: bool = False
    part: str = ""
    is_start: bool = False
    is_keyless: bool = False
    is_reading: bool = False


PERMISSIONS: dict[str, Entry] = {
    # the shell
    "healthz": Entry(read=ANYONE),
    "login": Entry(read=ANYONE, write=ANYONE, is_keyless=True),  # counted by the lock-out instead
    "logout": Entry(write=SIGNED_IN),
    "language": Entry(write=ANYONE),
    "theme": Entry(write=ANYONE),
    "home": Entry(read=READ),
    "jump": Entry(read=READ),
    "counts": Entry(read=READ),
    "frozen": Entry(read=READ),
    # the fleet
    "fleet-map": Entry(read=READ),
    "fleet-table": Entry(read=READ),
    "node": Entry(read=READ, scope="node"),
    # a dry run compares itself with the whole fleet: its digest stands for a version
    "import-list": Entry(read=READ, write=KEEP),
    "import": Entry(read=READ),
    "import-diff": Entry(read=READ),
    "import-act": Entry(write=KEEP),
    "node-add": Entry(write=KEEP),
    "inventory-export": Entry(read=READ),
    "gpu": Entry(read=READ),
    "fact-list": Entry(read=READ),
    # its service compares the version: the schedule is no object of an address
    "fleet-settings": Entry(read=READ, write=KEEP),
    "probe-start": Entry(write=ACT, scope="body", is_start=True),
    "probe-cancel": Entry(write=ACT, scope="node"),
    "probe-raw": Entry(read=READ, scope="node"),
    # node acceptance; a cancel must not wait for a fresh page: it ends measuring only
    "acceptance-list": Entry(read=READ),
    "acceptance": Entry(read=READ, scope="acceptance"),
    "acceptance-start": Entry(write=ACT, scope="body", is_start=True),
    "acceptance-cancel": Entry(write=ACT, scope="body"),
    "hold-add": Entry(write=ACT, scope="node", is_versioned=True),
    "hold-lift": Entry(write=ACT, scope="node", is_versioned=True),
    "host-key": Entry(write=KEEP, scope="node", is_versioned=True),
    "host-key-sign": Entry(write=SIGN | KEEP, scope="node", is_versioned=True),
    # its address names the brake that was read: one pulled since is not cleared unseen
    "brake-clear": Entry(write=ACT),
    # weights; a stop must not wait for a fresh page: a distribution moves by itself
    "weights": Entry(read=READ),
    "artefact": Entry(read=READ),
    "artefact-add": Entry(write=ACT),
    "artefact-read": Entry(write=ACT),
    "distribution": Entry(read=READ),
    "distribution-start": Entry(write=ACT, is_start=True),
    "distribution-act": Entry(write=ACT),
    "holding-act": Entry(write=ACT, is_start=True),
    "image": Entry(read=READ),
    "image-pull": Entry(write=ACT, is_start=True),
    "image-act": Entry(write=ACT, is_start=True),
    # golden profiles: who made a version never makes it current, which the service sees to
    "golden-list": Entry(read=READ),
    "golden": Entry(read=READ, scope="golden"),
    "golden-take": Entry(write=ACT),
    "golden-edit": Entry(read=READ, write=ACT, scope="golden", is_versioned=True),
    "golden-current": Entry(write=SIGN, scope="golden", is_versioned=True),
    # golden pairs: a version is never edited, the one in its address is the one that was read
    "golden-pair": Entry(read=READ),
    "golden-pair-bar": Entry(write=SIGN),
    # network acceptance; a cancel must not wait for a fresh page
    "network-list": Entry(read=READ),
    "network-run": Entry(read=READ),
    "network-pair": Entry(read=READ),
    "network-raw": Entry(read=READ),
    "network-start": Entry(write=ACT, scope="body", is_start=True),
    "network-cancel": Entry(write=ACT),
    "network-golden": Entry(write=SIGN),
    # a version is never edited: the one in its address is the one that was read
    "network-matrix": Entry(read=READ),
    "network-matrix-write": Entry(write=ACT),
    "network-matrix-sign": Entry(write=SIGN),
    # units and their launches
    "replica-list": Entry(read=READ),
    "replica": Entry(read=READ, scope="replica"),
    "launch-plan": Entry(read=READ, write=ACT, scope="replica", is_versioned=True, is_start=True),
    "launch-create": Entry(write=ACT, scope="replica", is_versioned=True, is_start=True),
    "launch": Entry(read=READ, scope="replica"),
    # the generation in its address is what it was based on; a stop must not wait for a fresh page
    "launch-stop": Entry(write=ACT, scope="replica"),
    "endpoint-set": Entry(write=ACT, scope="replica", is_versioned=True),
    "endpoint-drain": Entry(write=ACT, scope="replica", is_versioned=True),
    "gateway": Entry(read=READ),
    # its name is typed, and what it does is the same whatever was changed meanwhile
    "gateway-restart": Entry(write=ACT),
    "log": Entry(read=READ, scope="replica"),
    "log-lines": Entry(read=READ, scope="replica"),
    "log-download": Entry(read=READ, scope="replica"),
    # releases; who signs one is decided a second time by the request that was asked
    "release-list": Entry(read=READ),
    "release": Entry(read=READ, scope="release"),
    "release-new": Entry(write=ACT, scope="body"),
    "release-draft": Entry(write=ACT, scope="release", is_versioned=True),
    "release-edit": Entry(read=READ, write=ACT, scope="release", is_versioned=True),
    "release-seal": Entry(write=ACT, scope="release", is_versioned=True),
    "release-ask": Entry(write=ACT, scope="release", is_versioned=True),
    "release-sign": Entry(write=SIGN, scope="release", is_versioned=True),
    "release-withdraw": Entry(write=ACT, scope="release", is_versioned=True),
    # gate runs over a ready launch
    "gate-list": Entry(read=READ),
    "gate": Entry(read=READ, scope="gate"),
    "gate-start": Entry(write=ACT, scope="replica", is_versioned=True, is_start=True),
    "gate-cancel": Entry(write=ACT, scope="gate", is_versioned=True),
    # rollouts; a halt must not wait for a fresh page, and a signature is bound to the digest of its facts
    "rollout-list": Entry(read=READ),
    "rollout-new": Entry(read=READ, write=ACT, scope="body"),
    "rollout": Entry(read=READ, scope="rollout"),
    "rollout-act": Entry(write=ACT, scope="rollout", is_versioned=True),
    "rollout-halt": Entry(write=ACT, scope="rollout"),
    "rollout-sign": Entry(write=SIGN, scope="rollout"),
    "wave-ask": Entry(write=ACT, scope="rollout", is_versioned=True),
    "inbox": Entry(read=READ),
    # incidents and runs of books
    "incident-list": Entry(read=READ),
    "incident": Entry(read=READ, scope="incident"),
    "incident-act": Entry(write=ACT, scope="incident", is_versioned=True),
    "run": Entry(read=READ, scope="run"),
    "run-propose": Entry(write=ACT, scope="incident", is_versioned=True),
    "run-start": Entry(write=ACT, scope="run", is_versioned=True),
    # taking over and aborting must not wait for a fresh page: a run moves by itself
    "run-halt": Entry(write=ACT, scope="run"),
    "step-act": Entry(write=ACT, scope="run", is_versioned=True, part="step"),
    # the record
    "evidence": Entry(read=READ),
    "audit": Entry(read=READ),
    "reader": Entry(read=READ, write=READ, scope="body", is_reading=True),
    # sockets
    "ws-page": Entry(read=READ),
    "ws-log": Entry(read=READ, scope="launch"),
    # actions inside a form
    "hold.override": Entry(write=ACT, scope="node"),
    "hold.lift-acceptance": Entry(write=SIGN, scope="node"),
    "role.change": Entry(write=KEEP),
    "inventory.import": Entry(write=KEEP),
    "approval.sign": Entry(write=SIGN, scope="pool"),
}

# What a page must be allowed to read before it may listen to a topic; None: the whole fleet.
TOPICS: dict[str, tuple[str, str]] = {
    "fleet": ("fleet-map", ""),
    "inbox": ("inbox", ""),
    "audit": ("audit", ""),
    "weights": ("weights", ""),
    "weights-": ("artefact", ""),
    "image-": ("image", ""),
    "network": ("network-list", ""),
    "network-": ("network-run", ""),
    "imports": ("import-list", ""),
    "import-": ("import", ""),
    "node-": ("node", "node"),
    "golden": ("golden-list", ""),
    "golden-": ("golden", "golden"),
    "replica-": ("replica", "replica"),
    "launch-": ("launch", "launch"),
    "gates": ("gate-list", ""),
    "gate-": ("gate", "gate"),
    "release-": ("release", "release"),
    "rollouts": ("rollout-list", ""),
    "rollout-": ("rollout", "rollout"),
    "incidents": ("incident-list", ""),
    "incident-": ("incident", "incident"),
    "runs": ("incident-list", ""),
    "run-": ("run", "run"),
    "pool-": ("fleet-map", "pool"),
    "gateway-": ("gateway", ""),
    "acceptances": ("acceptance-list", ""),
    "acceptance-": ("acceptance", "acceptance"),
}


def entry_of(permission: str) -> Entry:
    """Return the entry of a name; a name without one allows nothing to anybody."""
    return PERMISSIONS.get(permission, Entry())


def roles_wanted(permission: str, *, is_write: bool) -> frozenset[str]:
    """Return the roles that may read or write behind a name."""
    entry = entry_of(permission)
    return entry.write if is_write else entry.read


def allows(
    grants: Iterable[tuple[str, str | None]],
    permission: str,
    *,
    is_write: bool,
    pool: str | None = None,
) -> bool:
    """Judge grants of (role, pool slug; None is the whole fleet) against one entry.

    With a pool, a role in it or for the whole fleet will do. Without, reading takes a role anywhere and
    writing one for the whole fleet; `body` entries leave the pools to the service, so a role anywhere will do.
    """
    wanted = roles_wanted(permission, is_write=is_write)
    if wanted & (ANYONE | SIGNED_IN):
        return True
    held = {(role, where) for role, where in grants if role in wanted}
    if pool is not None:
        return any(where in (None, pool) for _, where in held)
    if is_write and entry_of(permission).scope != "body":
        return any(where is None for _, where in held)
    return bool(held)


def grants_of(user: Any) -> tuple[tuple[str, str | None], ...]:
    """Return a person's grants, read once for each user object (one request, one recheck of a socket)."""
    if not getattr(user, "is_authenticated", False) or not user.is_active:
        return ()
    if not hasattr(user, "_fleet_grants"):
        rows = user.role_grants.values_list("role", "pool__slug")
        user._fleet_grants = tuple(rows)
    return user._fleet_grants


def may(user: Any, permission: str, pool: Any = None, *, is_write: bool | None = None) -> bool:
    """Tell whether a person may use a name, for the object of one pool (a slug or a Pool) when given.

    Names that only write are judged as writes, others as reads, unless told.
    """
    entry = entry_of(permission)
    writes = (not entry.read) if is_write is None else is_write
    wanted = entry.write if writes else entry.read
    if wanted & ANYONE:
        return True
    if not getattr(user, "is_authenticated", False) or not user.is_active:
        return False
    slug = getattr(pool, "slug", pool)
    return allows(grants_of(user), permission, is_write=writes, pool=slug)


def topic_rule(topic: str) -> tuple[str, str, str] | None:
    """Split a topic into (permission, scope, name of the object); None for a topic that nobody may hear."""
    if topic in TOPICS:
        permission, scope = TOPICS[topic]
        return permission, scope, ""
    for prefix, (permission, scope) in TOPICS.items():
        if prefix.endswith("-") and topic.startswith(prefix) and len(topic) > len(prefix):
            return permission, scope, topic[len(prefix) :]
    return None


def needs_words(permission: str, *, is_write: bool) -> tuple[str, ...]:
    """Return the roles that a refused person would need, for the sentence beside a disabled button."""
    return tuple(sorted(roles_wanted(permission, is_write=is_write) & READ))
