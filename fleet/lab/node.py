"""A lab as an object: up, down, reset, inventory, status, faults.

It says nothing about how a tool answers (views), nor what a fault does (faults).
"""

import contextlib
import fcntl
import json
import os
import shutil
import socket
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from . import birth, containers, effects, faults, gateway, keeping, power, state, store
from .fabric import Place, fleet_places
from .gateway import GatewayHost
from .place import LabError, lock_block, lock_first_free
from .sshd import NodeHost, prepare_machine
from .status import node_status
from .targets import choose_hosts

DEFAULT_SCALES = {"launch": 60.0, "watch": 10.0, "serve": 1.0, "bytes": 655_360.0}


class NotRunning(LabError):
    """The lab is not running."""


@dataclass(frozen=True)
class Wish:
    """What a lab is to be; a lab that was on before keeps its seed."""

    nodes: int
    block: str
    seed: int
    scales: dict[str, float]
    python: str
    weights: str


class Lab:
    """One lab in one directory; every object made for that directory means the same lab."""

    def __init__(self, directory: Path | str) -> None:
        self.directory = Path(os.path.abspath(directory))

    # -- what is known ---------------------------------------------------------------------

    @property
    def key_path(self) -> Path:
        """The operator's private key."""
        return self.directory / "ssh" / "id_ed25519"

    @property
    def known_hosts_path(self) -> Path:
        """All host keys as ssh-keyscan prints them."""
        return self.directory / "ssh" / "known_hosts"

    def record(self) -> dict:
        """Return lab.json; empty when this directory never held a lab."""
        try:
            return json.loads((self.directory / "lab.json").read_text())
        except FileNotFoundError:
            return {}

    def is_running(self) -> bool:
        """Whether the lab's keeper lives."""
        return bool(keeping.keeper_of(self.directory))

    def places(self) -> list[Place]:
        """Return the places of this lab's nodes."""
        record = self.record()
        if not record:
            raise NotRunning(f"no lab in {self.directory}; start one with lab up")
        return fleet_places(record["nodes"], record["block"])

    def host(self, name: str) -> NodeHost:
        """Return one node, or the gateway's host, by name; LabError when this lab has none of that name."""
        hosts = {host.name: host for host in self.every_host()}
        if name not in hosts:
            raise LabError(f"no node {name} in this lab; it has {', '.join(hosts)}")
        return hosts[name]

    def hosts(self) -> list[NodeHost]:
        """Return every node of this lab."""
        python = self.record().get("python", sys.executable)
        return [NodeHost(self.directory, p.name, p.address, python) for p in self.places()]

    def gateway(self) -> GatewayHost:
        """Return the host of the proxy, which is no node."""
        record = self.record()
        address, python = gateway.address_in(record["block"]), record["python"]
        return GatewayHost(self.directory, gateway.NAME, address, python)

    def gateway_row(self) -> dict:
        """Return how to log in at the gateway's host and where its proxy is to listen; see gateway.gateway_row."""
        return json.loads((self.directory / "gateway.json").read_text())

    def store(self) -> dict:
        """Return where the store of models listens, and whether it does; see store.store_status."""
        return store.store_status(self.directory, self.record()["block"])

    def every_host(self) -> list[NodeHost]:
        """Return every node and the gateway's host."""
        return [*self.hosts(), self.gateway()]

    def inventory(self) -> list[dict]:
        """Return the nodes as an inventory import reads them (CONTRACTS)."""
        return json.loads((self.directory / "inventory.json").read_text())

    def state(self, name: str) -> dict:
        """Return one node's state."""
        return state.read_state(self.host(name).directory)

    def unknown(self) -> list[str]:
        """Return the calls that no stub knew."""
        path = self.directory / "unknown.log"
        return path.read_text(errors="replace").splitlines() if path.exists() else []

    # -- up and down -----------------------------------------------------------------------

    def up(
        self,
        nodes: int = 2,
        *,
        block: str | None = None,
        seed: int = 1,
        scales: dict[str, float] | None = None,
        python: str = sys.executable,
        weights: str = "seeded",
        owner_pid: int | None = None,
    ) -> "Lab":
        """Switch the lab on and return it when every node listens.

        `block` None takes the block it had, or the first free one. `owner_pid` is the process
        with which the lab dies (default: this one; 0: nobody, it stays until `down`). A lab
        that was on before keeps keys, states and weights; its nodes come back with new boots.
        """
        sshd = prepare_machine()
        if self.is_running():
            return self._already_up(nodes)
        chosen, lock = self._lock_block(block)
        try:
            with self._changing():
                keeping.end_strays(self.directory)
                self._lay_out(Wish(nodes, chosen, seed, scales or {}, python, weights))
                owner = os.getpid() if owner_pid is None else owner_pid
                keeping.start_keeper(self.directory, python, lock.fileno(), owner)
        finally:
            lock.close()
        self._start_daemons(sshd)
        return self

    def lay_out(
        self,
        nodes: int = 2,
        *,
        block: str = "127.0.13",
        seed: int = 1,
        scales: dict[str, float] | None = None,
        python: str = sys.executable,
        weights: str = "none",
    ) -> "Lab":
        """Write a lab's files and start nothing: its stubs answer, nobody can log in."""
        with self._changing():
            self._lay_out(Wish(nodes, block, seed, scales or {}, python, weights))
        return self

    def _already_up(self, nodes: int) -> "Lab":
        found = self.record()["nodes"]
        if found != nodes:
            raise LabError(f"a lab of {found} nodes runs here, {nodes} asked for; lab down first")
        return self

    def _lock_block(self, block: str | None) -> tuple[str, socket.socket]:
        if block is not None:
            return block, lock_block(block)
        return lock_first_free(self.record().get("block"))

    def _compose_record(self, wish: Wish, before: dict) -> dict:
        return {
            "nodes": wish.nodes,
            "block": wish.block,
            # A fleet keeps the identity it was born with.
            "seed": before.get("seed", wish.seed),
            "scales": {**DEFAULT_SCALES, **before.get("scales", {}), **wish.scales},
            "gateway": gateway.ports_in(wish.block, before),
            "ports": {"ssh": 2222, "engine": 8000, "rendezvous": 29500},
            "python": wish.python,
            "started_at": state.time_text(datetime.now(UTC)),
            "next_fault": before.get("next_fault", 1),
        }

    def _write_record(self, record: dict) -> None:
        state.replace_text(self.directory / "lab.json", json.dumps(record, indent=1))

    def _lay_out(self, wish: Wish) -> None:
        now = datetime.now(UTC)
        before = self.record()
        self._write_record(self._compose_record(wish, before))
        places = self.places()
        birth.lay_out_lab(self.directory, places, wish.weights)
        store.lay_out_store(self.directory, wish.block)
        host_keys = {}
        for place, host in zip(places, self.hosts(), strict=True):
            was_on = bool(before) and (host.directory / "state.json").exists()
            host_keys[place.name] = birth.lay_out_node(host, place, self.record()["seed"], now)
            if wish.weights == "seeded":
                birth.seed_weights(self.directory, host.directory)
            if was_on:
                self._switch_on_again(host, place, now)
        rows = birth.inventory_rows(self.directory, places, host_keys)
        state.replace_text(self.directory / "inventory.json", json.dumps(rows, indent=1))
        row = self._lay_out_gateway(bool(before), now)
        birth.write_known_hosts(self.directory, [*rows, row])

    def _lay_out_gateway(self, was_on: bool, now: datetime) -> dict:
        host, record = self.gateway(), self.record()
        was_on = was_on and (host.directory / "state.json").exists()
        host_key = gateway.lay_out_gateway(host, record["seed"], now)
        if was_on:
            site = self._site(host, now)
            effects.lose_power(site, "poweron")
            faults.save(site)
        row = gateway.gateway_row(host, host_key, record["gateway"])
        state.replace_text(self.directory / "gateway.json", json.dumps(row, indent=1))
        return row

    def _switch_on_again(self, host: NodeHost, place: Place, now: datetime) -> None:
        site = self._site(host, now)
        site.state.update(state.place_record(place))
        effects.lose_power(site, "poweron")
        faults.save(site)

    def _site(self, host: NodeHost, now: datetime) -> effects.Site:
        return faults.open_site(self.directory, host, now, self.record()["scales"])

    def _start_daemons(self, sshd: str) -> None:
        try:
            power.start_listeners(self.directory, sshd, self.every_host())
            store.start_store(self.directory, self.record()["block"])
        except LabError:
            self.down(keep=True)
            raise

    def down(self, keep: bool = False) -> None:
        """End every process of the lab, prove that none is left, remove the directory.

        `keep` leaves the directory for a later `up`. Raises LabError when something survives.
        """
        with self._changing():
            keeping.end_keeper(self.directory)
            keeping.end_strays(self.directory)
        if not keep:
            shutil.rmtree(self.directory, ignore_errors=True)

    @contextlib.contextmanager
    def _changing(self) -> Iterator[None]:
        """One change of a lab at a time, whichever process asks for it."""
        self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle = os.open(self.directory, os.O_RDONLY)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield
        finally:
            os.close(handle)

    def reset(self) -> None:
        """Clear all faults, end all containers and subjects, restore every node's birth state."""
        self._require_running()
        now = datetime.now(UTC)
        with self._changing():
            for host in self.every_host():
                self._reset_node(self._site(host, now))
            (self.directory / "unknown.log").write_text("")

    def _reset_node(self, site: effects.Site) -> None:
        faults.take_off(site, None)
        effects.restore_ssh(site, {})
        power.kill_until_gone(lambda: power.commands(site.host))
        containers.remove_all(site.directory)
        _empty_home(site.directory / "root" / "home")
        boot = site.state["boot"]
        site.state = json.loads((site.directory / "birth.json").read_text())
        site.state["boot"] = boot
        faults.save(site)
        birth.restore_weights(self.directory, site.directory)

    # -- faults and status -----------------------------------------------------------------

    def targets(self, target: str, on: str = "") -> list[NodeHost]:
        """Return what a target names: a node, `leaf:4`, a unit, `all` nodes, or the gateway's host."""
        if target == gateway.NAME:
            return [self.gateway()]
        return choose_hosts(self.places(), self.hosts(), target, on)

    def fault(self, target: str, name: str, **args: faults.Value) -> str:
        """Put a fault on a target and return its id; LabError when it cannot be there."""
        self._require_running()
        fault = faults.find_fault(name)
        arguments = faults.read_arguments(fault, args)
        hosts = self.targets(target, str(arguments.get("on", "")))
        faults.check_hosts(fault, hosts)
        with self._changing():
            record = self.record()
            fault_id = f"f-{record['next_fault']:04d}"
            self._write_record({**record, "next_fault": record["next_fault"] + 1})
            for host in hosts:
                site = self._site(host, datetime.now(UTC))
                faults.put_on(site, fault, arguments, fault_id)
        return fault_id

    def clear(self, target: str, id_or_name: str | None = None) -> list[dict]:
        """Undo faults of a target; return for each whether it was and what would be needed."""
        self._require_running()
        hosts = self.targets(target)
        with self._changing():
            now = datetime.now(UTC)
            return [
                told
                for host in hosts
                for told in faults.take_off(self._site(host, now), id_or_name)
            ]

    def status(self) -> dict:
        """Return one row a node and the lab's totals."""
        record = self.record()
        pairs = zip(self.places(), self.hosts(), strict=True)
        return {
            "is_running": self.is_running(),
            "directory": str(self.directory),
            "block": record["block"],
            "seed": record["seed"],
            "scales": record["scales"],
            "unknown": len(self.unknown()),
            "nodes": [node_status(place, host) for place, host in pairs],
            "gateway": gateway.gateway_status(self.gateway()),
            "store": self.store(),
        }

    def _require_running(self) -> None:
        if not self.is_running():
            raise NotRunning(f"the lab in {self.directory} is not running; start it with lab up")


def _empty_home(home: Path) -> None:
    """Remove what subjects left; the console's own shim file may stay, its hash is checked."""
    for path in home.iterdir():
        if path.name == ".flotilla":
            for inner in path.iterdir():
                if not inner.name.startswith("shim-"):
                    _remove(inner)
        else:
            _remove(path)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
