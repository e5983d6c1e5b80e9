"""What `lab status` says about a node: reachability, engines, faults."""

from . import containers, power, state
from .fabric import Place
from .sshd import NodeHost


def node_status(place: Place, host: NodeHost) -> dict:
    """Return one node's row of the status."""
    found = state.read_state(host.directory)
    return {
        "name": place.name,
        "address": place.address,
        "unit": place.unit,
        "position": place.position,
        "sshd": "up" if power.listener(host.directory) else "down",
        "reach": found["reach"],
        "engines": [_engine_status(c) for c in containers.running(host.directory)],
        "faults": [row["name"] for row in found["faults"]],
        "version": found["v"],
    }


def _engine_status(container: containers.Container) -> dict:
    return {
        "name": container.config.get("name", ""),
        "unit": container.unit,
        "position": container.position,
        "phase": container.state.get("phase", ""),
    }
