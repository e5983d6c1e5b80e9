"""Values of a node's state and of the fabric that a fault changes, kept so that it can be cleared.

The old values lie in the fault's arguments: clearing one fault leaves what others changed.
"""

import copy
from collections.abc import Sequence

from .effects import Site
from .fabric import read_fabric, write_fabric


def set_values(site: Site, args: dict, path: Sequence[str | int], **values: object) -> None:
    """Set keys of the object at `path` of the state and remember what they were."""
    part = _walk(site.state, path)
    for key, value in values.items():
        args.setdefault("was", []).append([[*path, key], copy.deepcopy(part[key])])
        part[key] = value


def put_back(site: Site, args: dict) -> None:
    """Set everything that the fault changed back to what it was: the way to undo it."""
    for path, old in reversed(args.get("was", [])):
        _walk(site.state, path[:-1])[path[-1]] = old
    if "fabric_was" in args:
        table = read_fabric(site.lab)
        for path, old in reversed(args["fabric_was"]):
            _restore(_walk(table, path[:-1]), path[-1], old)
        write_fabric(site.lab, table)


def set_fabric(site: Site, args: dict, path: Sequence[str | int], value: object) -> None:
    """Set one value of fabric.json and remember what it was; None for a key that was not there."""
    table = read_fabric(site.lab)
    part, key = _walk(table, path[:-1]), path[-1]
    old = part.get(key) if isinstance(part, dict) else part[key]
    args.setdefault("fabric_was", []).append([list(path), copy.deepcopy(old)])
    part[key] = value
    write_fabric(site.lab, table)


def _restore(part: dict, key: str, old: object) -> None:
    if old is None:
        part.pop(key, None)
    else:
        part[key] = old


def _walk(part, path: Sequence[str | int]):
    for key in path:
        part = part[key]
    return part
