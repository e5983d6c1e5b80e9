"""Which nodes make which unit: checks the pools and units of an inventory, and finds what contradicts. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from fleet.rules.inventory import BadRow, integer_field, text_field
from fleet.rules.message import foreign, say
from fleet.rules.nodeset import NodesetError, parse_nodeset

TONES = ("p51", "p52", "pds")
SPARE_TONE = "psp"
_SLUG = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,30}[a-z0-9])?", re.ASCII)
UNIT_NAME = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,38}[a-z0-9])?", re.ASCII)
_WORDS = re.compile(r"[^\x00-\x1f\x7f]{1,64}")
_SHAPE = re.compile(r"[A-Za-z0-9 +×x]{0,40}")
_DEGREE = re.compile(r"(?:PP|TP|DP)(\d{1,3})", re.ASCII)
_POOL_FIELDS = frozenset(
    ("slug", "name", "tone", "shape", "unit_nodes", "unit_gpus", "spare", "spare_floor", "promised_units")
)  # fmt: skip
_UNIT_FIELDS = frozenset(("name", "pool", "nodes"))


@dataclass(frozen=True)
class PoolRow:
    """One pool of an inventory, checked. `tone` and `promised_units` are None where the file leaves them out."""

    slug: str
    name: str
    shape: str
    unit_nodes: int
    unit_gpus: int
    is_spare: bool
    spare_floor: int
    tone: str | None
    promised_units: int | None


@dataclass(frozen=True)
class UnitRow:
    """One service unit of an inventory, checked: its nodes in the order of their stages."""

    name: str
    pool: str
    nodes: tuple[str, ...]


@dataclass(frozen=True)
class NodeSeat:
    """What placement must know of a node: its cards, and the unit that has it now."""

    gpus: int
    unit: str = ""
    is_retired: bool = False


def check_pool(row: Mapping[str, Any]) -> PoolRow:
    """Return the row as a PoolRow. Raises BadRow, also when the shape and the cards do not agree."""
    _demand_known(row, _POOL_FIELDS)
    slug = text_field(row, "slug", _SLUG, say("lower-case letters, digits and -"))
    shape = text_field(row, "shape", _SHAPE, say("a shape as PP2 x TP8")).replace(" x ", " × ")
    tone = text_field(row, "tone", re.compile("|".join((*TONES, SPARE_TONE, ""))),
                      say("one of %(words)s", words=", ".join((*TONES, SPARE_TONE))))  # fmt: skip
    promised = row.get("promised_units")
    found = PoolRow(
        slug=slug,
        name=text_field(row, "name", _WORDS, say("a name of up to 64 characters"), default=slug),
        shape=shape,
        unit_nodes=integer_field(row, "unit_nodes", 1, 64, default=1),
        unit_gpus=integer_field(row, "unit_gpus", 1, 1024, default=8),
        is_spare=_truth(row, "spare"),
        spare_floor=integer_field(row, "spare_floor", 0, 4096, default=0),
        tone=tone or None,
        promised_units=None if promised is None else integer_field(row, "promised_units", 0, 4096),
    )
    _demand_agreeing(found)
    return found


def check_unit(row: Mapping[str, Any]) -> UnitRow:
    """Return the row as a UnitRow. Raises BadRow."""
    _demand_known(row, _UNIT_FIELDS)
    nodes = _names(row.get("nodes"))
    if not isinstance(nodes, list) or not nodes or not all(isinstance(n, str) for n in nodes):
        raise BadRow(
            say(
                "nodes: expected the names of its nodes in order, found %(found)s",
                found=f"{nodes!r:.60}",
            )
        )
    if twice := [name for name, count in Counter(nodes).items() if count > 1]:
        raise BadRow(
            say(
                "nodes: %(name)s is named twice; a unit has each node once",
                name=foreign(twice[0][:64]),
            )
        )
    return UnitRow(
        name=text_field(row, "name", UNIT_NAME, say("lower-case letters, digits and -")),
        pool=text_field(row, "pool", _SLUG, say("the slug of a pool")),
        nodes=tuple(nodes),
    )


def _names(found: Any) -> Any:
    """Take node sets apart, as a whole (`gpu[01-02]`) or among the names; what is none of them stays as it is."""
    words = [found] if isinstance(found, str) else found
    if not isinstance(words, list) or not any(isinstance(w, str) and "[" in w for w in words):
        return found
    try:
        return [
            name
            for word in words
            for name in (
                parse_nodeset(word)[0] if isinstance(word, str) and "[" in word else [word]
            )
        ]
    except NodesetError as error:
        raise BadRow(say("%(field)s: %(why)s", field="nodes", why=error.sentence)) from None


def unit_problems(
    units: Collection[UnitRow],
    pools: Mapping[str, PoolRow],
    nodes: Mapping[str, NodeSeat],
    stuck: Mapping[str, str],
) -> dict[str, str]:
    """Return unit name -> why it cannot be, for all that contradict the pools, the nodes or each other.

    `stuck` are units that cannot change, and why. A unit that is refused keeps the nodes it has, so that
    others may lose theirs by it: judged until it rests.
    """
    claims = Counter(name for unit in units for name in unit.nodes)
    problems = {
        unit.name: why
        for unit in units
        if (why := _own_problem(unit, pools, nodes, claims) or stuck.get(unit.name, ""))
    }
    while True:
        moving = {unit.name for unit in units} - set(problems)
        found = {
            unit.name: why
            for unit in units
            if unit.name in moving and (why := _taken(unit, nodes, moving))
        }
        if not found:
            return problems
        problems |= found


def _own_problem(
    unit: UnitRow,
    pools: Mapping[str, PoolRow],
    nodes: Mapping[str, NodeSeat],
    claims: Mapping[str, int],
) -> str:
    pool = pools.get(unit.pool)
    if pool is None or pool.is_spare:
        known = ", ".join(sorted(slug for slug, pool in pools.items() if not pool.is_spare))
        return say(
            "pool: expected one that holds units (%(known)s), found %(found)s",
            known=known or say("none"),
            found=unit.pool,
        )
    for name in unit.nodes:
        if name not in nodes:
            return say(
                "nodes: no node is called %(name)s; add it to the nodes of the file",
                name=foreign(name[:64]),
            )
        if nodes[name].is_retired:
            return say("nodes: %(name)s is retired; name another node", name=name)
        if claims[name] > 1:
            return say(
                "nodes: %(name)s is named by %(n)s units; a node belongs to one",
                name=name,
                n=claims[name],
            )
    if len(unit.nodes) != pool.unit_nodes:
        return say(
            "nodes: expected %(wanted)s, as pool %(pool)s says, found %(found)s",
            wanted=pool.unit_nodes,
            pool=pool.slug,
            found=len(unit.nodes),
        )
    gpus = sum(nodes[name].gpus for name in unit.nodes)
    if gpus != pool.unit_gpus:
        return say(
            "nodes: expected %(wanted)s GPU together, as pool %(pool)s says, found %(found)s; "
            "correct unit_gpus of the pool or gpus of the nodes",
            wanted=pool.unit_gpus,
            pool=pool.slug,
            found=gpus,
        )
    return ""


def _taken(unit: UnitRow, nodes: Mapping[str, NodeSeat], moving: Collection[str]) -> str:
    for name in unit.nodes:
        owner = nodes[name].unit
        if owner and owner != unit.name and owner not in moving:
            return say(
                "nodes: %(name)s belongs to %(owner)s; give that unit other nodes in the same file",
                name=name,
                owner=owner,
            )
    return ""


def _demand_agreeing(pool: PoolRow) -> None:
    if pool.is_spare:
        return
    if pool.unit_gpus % pool.unit_nodes:
        raise BadRow(
            say(
                "unit_gpus: expected a multiple of unit_nodes (%(nodes)s), found %(found)s",
                nodes=pool.unit_nodes,
                found=pool.unit_gpus,
            )
        )
    degrees = [int(text) for text in _DEGREE.findall(pool.shape)]
    ranks = 1
    for degree in degrees:
        ranks *= degree
    if degrees and ranks != pool.unit_gpus:
        raise BadRow(
            say(
                "unit_gpus: expected %(ranks)s, the ranks of %(shape)s, found %(found)s",
                ranks=ranks,
                shape=pool.shape,
                found=pool.unit_gpus,
            )
        )


def _demand_known(row: Mapping[str, Any], known: Collection[str]) -> None:
    if strange := sorted(set(row) - set(known)):
        raise BadRow(
            say(
                "%(field)s: expected only %(known)s",
                field=foreign(strange[0][:40]),
                known=", ".join(sorted(known)),
            )
        )


def _truth(row: Mapping[str, Any], field: str) -> bool:
    value = str(row.get(field) or "false").lower()
    if value not in {"true", "false", "yes", "no"}:
        raise BadRow(
            say(
                "%(field)s: expected true or false, found %(found)s",
                field=field,
                found=repr(value[:20]),
            )
        )
    return value in {"true", "yes"}
