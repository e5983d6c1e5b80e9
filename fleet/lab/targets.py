"""Which nodes a word of the command line means: a node, a unit, a leaf, all."""

from . import containers
from .fabric import Place
from .place import LabError
from .sshd import NodeHost


def choose_hosts(
    places: list[Place], hosts: list[NodeHost], target: str, on: str = ""
) -> list[NodeHost]:
    """Return the nodes of a target; LabError when it names nothing here.

    `on` ("head", "follower") picks one member of a unit. A unit's members are those that run
    its containers now, else those it was born on.
    """
    by_name = {host.name: host for host in hosts}
    if target in by_name:
        return [by_name[target]]
    if target == "all":
        return hosts
    if target.startswith("leaf:"):
        names = [place.name for place in places if f"leaf:{place.leaf}" == target]
    else:
        names = _one_member(_members(places, hosts, target), on)
    if not names:
        raise LabError(f"no node, unit or leaf {target} in this lab; see lab status")
    return [by_name[name] for name in names]


def _members(places: list[Place], hosts: list[NodeHost], unit: str) -> list[str]:
    running = [
        (container.position, host.name)
        for host in hosts
        for container in containers.running(host.directory)
        if container.unit == unit
    ]
    if running:
        return [name for _position, name in sorted(running)]
    return [place.name for place in places if place.unit == unit]


def _one_member(names: list[str], on: str) -> list[str]:
    if on == "head":
        return names[:1]
    if on == "follower":
        return names[1:2] or names[:1]
    return names
