"""Which spare nodes a unit may take: whole, on one leaf, and never below the floor where that holds. Pure.

Source: MISSION (spare floor, law 4), manual A 3.3 (both stages on one leaf).
"""

from dataclasses import dataclass

from fleet.rules.message import say


@dataclass(frozen=True)
class SpareSeen:
    """A node without a unit. `refusal`: why it may not be used, empty when it may."""

    name: str
    leaf: int
    refusal: str = ""


@dataclass(frozen=True)
class Choice:
    """Names of the chosen nodes, or why there are none."""

    nodes: tuple[str, ...]
    refusal: str = ""


def choose_spares(
    spares: tuple[SpareSeen, ...],
    count: int,
    *,
    floor: int = 0,
    exclude: frozenset[str] = frozenset(),
) -> Choice:
    """Choose `count` spares of one leaf, from the leaf that has most of them. `floor`: usable spares that must stay."""
    usable = [one for one in spares if not one.refusal and one.name not in exclude]
    if len(usable) - count < floor:
        return Choice(
            (),
            say(
                "%(usable)s spares can be used, %(count)s are needed and %(floor)s must stay.",
                usable=len(usable),
                count=count,
                floor=floor,
            ),
        )
    by_leaf: dict[int, list[str]] = {}
    for one in usable:
        by_leaf.setdefault(one.leaf, []).append(one.name)
    fitting = sorted(
        (-len(names), leaf, sorted(names)) for leaf, names in by_leaf.items() if len(names) >= count
    )
    if not fitting:
        return Choice((), say("No leaf has %(count)s spares that can be used.", count=count))
    return Choice(tuple(fitting[0][2][:count]))
