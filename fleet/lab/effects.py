"""What faults do to a node: to its state, its processes, its SSH daemon.

Each function takes the site and the fault's arguments. What it learns and its undo needs (a pid,
a key) it puts into the arguments, which are kept with the fault.
"""

import signal
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from . import containers, gateway, keys, power, procs, state
from .place import LabError
from .sshd import NodeHost, prepare_machine
from .state import GPUS


@dataclass
class Site:
    """Where a fault acts: one node of a lab, its state loaded before and saved afterwards."""

    lab: Path
    host: NodeHost
    state: dict
    now: datetime
    scales: Mapping[str, float]

    @property
    def directory(self) -> Path:
        """The node's directory."""
        return self.host.directory

    def gpu(self, args: dict) -> dict:
        """Return the GPU that the arguments name; LabError when there is none."""
        if not 0 <= args["gpu"] < GPUS:
            raise LabError(f"gpu={args['gpu']}: {self.host.name} has GPUs 0 to {GPUS - 1}")
        return self.state["gpu"][args["gpu"]]

    def log_kernel(self, *lines: str) -> None:
        """Add lines to the node's kernel log."""
        at = state.time_text(self.now)
        self.state["kernel_log"] += [{"at": at, "text": line} for line in lines]


def only_told(site: Site, args: dict) -> None:
    """Do nothing here: the engine or the docker stub finds the fault in faults.json."""


def kill_rank(site: Site, args: dict) -> None:
    """Kill the worker process on one GPU."""
    rank = containers.rank_on_gpu(site.directory, args["gpu"])
    procs.send_signal(rank["pid"], rank["start_ticks"], signal.SIGKILL)
    args["pid"] = rank["pid"]


def stop_rank(site: Site, args: dict) -> None:
    """Freeze the worker process on one GPU."""
    rank = containers.rank_on_gpu(site.directory, args["gpu"])
    procs.send_signal(rank["pid"], rank["start_ticks"], signal.SIGSTOP)
    args.update(pid=rank["pid"], start_ticks=rank["start_ticks"])


def continue_rank(site: Site, args: dict) -> None:
    """Let a frozen worker go on."""
    procs.send_signal(args["pid"], args["start_ticks"], signal.SIGCONT)


def kill_proxy(site: Site, args: dict) -> None:
    """Kill the gateway's proxy."""
    power.signal_all(_proxies(site), signal.SIGKILL)


def stop_proxy(site: Site, args: dict) -> None:
    """Freeze the gateway's proxy: connections open and nothing answers."""
    found = _proxies(site)
    power.signal_all(found, signal.SIGSTOP)
    args["frozen"] = list(found.items())


def continue_proxy(site: Site, args: dict) -> None:
    """Let a frozen proxy go on."""
    power.signal_all(dict(args["frozen"]), signal.SIGCONT)


def _proxies(site: Site) -> dict[int, int]:
    found = gateway.proxies(site.host)
    if not found:
        raise LabError(f"{site.host.name}: no proxy runs; start the gateway first")
    return found


def refuse_ssh(site: Site, args: dict) -> None:
    """Kill the listener; open sessions live on."""
    power.kill_listener(site.directory)
    site.state["reach"] = "refused"


def silence_ssh(site: Site, args: dict) -> None:
    """Stop the SSH daemons: a connection is accepted by the kernel and nothing answers."""
    power.freeze(site.host, True)
    site.state["reach"] = "silent"


def restore_ssh(site: Site, args: dict) -> None:
    """Make the node's SSH answer again."""
    power.freeze(site.host, False)
    if not power.listener(site.directory):
        power.start_listeners(site.lab, prepare_machine(), [site.host])
    site.state["reach"] = "up"


def change_host_key(site: Site, args: dict) -> None:
    """Restart the SSH daemon with another host key; the old one is kept for the undo."""
    keys.keep_first(site.directory / "hostkey")
    keys.write_key_pair(site.directory / "hostkey", site.host.name)
    _restart_listener(site)


def restore_host_key(site: Site, args: dict) -> None:
    """Bring the first host key back."""
    keys.restore_first(site.directory / "hostkey")
    _restart_listener(site)


def _restart_listener(site: Site) -> None:
    power.kill_listener(site.directory)
    power.start_listeners(site.lab, prepare_machine(), [site.host])


def switch_off(site: Site, args: dict) -> None:
    """Kill every process of the node; nothing answers any more."""
    power.kill_node(site.host)
    site.state["reach"] = "dead"


def switch_on(site: Site, args: dict) -> None:
    """Start a dead node: a new boot, containers exited with 255."""
    lose_power(site, "poweron")
    power.start_listeners(site.lab, prepare_machine(), [site.host])


def reboot(site: Site, args: dict) -> None:
    """Kill everything, stay dark, come back with another boot id (LAB.md 5.4)."""
    power.kill_node(site.host)
    time.sleep(args["dark"] / site.scales["launch"])
    lose_power(site, "reboot")
    power.start_listeners(site.lab, prepare_machine(), [site.host])


def lose_power(site: Site, reason: str) -> None:
    """Turn the state into that of a node just switched on again."""
    containers.lose_all(site.directory, site.now)
    after = state.power_cycled(site.state, reason, site.now)
    site.state.clear()
    site.state.update(after)


def hang_docker(site: Site, args: dict) -> None:
    """Let every docker call block; running engines live on."""
    site.state["docker"]["state"] = "hung"


def drop_docker(site: Site, args: dict) -> None:
    """Take the docker daemon away; running engines live on."""
    site.state["docker"]["state"] = "down"


def restore_docker(site: Site, args: dict) -> None:
    """Make docker answer again."""
    site.state["docker"]["state"] = "ok"


def lose_gpu_at_boot(site: Site, args: dict) -> None:
    """Take one GPU out of what the driver lists; the others are renumbered."""
    site.gpu(args).update(health="missing", sticky=bool(args["sticky"]))


def drop_gpu_off_bus(site: Site, args: dict) -> None:
    """Xid 79: the card stays listed, nothing of it can be read, its rank dies."""
    gpu = site.gpu(args)
    gpu.update(health="lost", recovery_action="Reboot", sticky=bool(args["sticky"]))
    gpu["xids"].append({"at": state.time_text(site.now), "code": 79})
    address = f"0000:{gpu['bus'].lower()}:00"
    site.log_kernel(
        f"NVRM: GPU at PCI:{address}: {gpu['uuid']}",
        f"NVRM: GPU Board Serial Number: {gpu['serial']}",
        f"NVRM: Xid (PCI:{address}): 79, pid='<unknown>', name=<unknown>, "
        "GPU has fallen off the bus.",
        f"NVRM: GPU {address}.0: GPU has fallen off the bus.",
        f"NVRM: Xid (PCI:{address}): 154, GPU recovery action changed from 0x0 (None) "
        "to 0x2 (Node Reboot Required)",
    )
    for container in containers.running(site.directory):
        for row in container.workers():
            if row.get("local_rank") == args["gpu"]:
                procs.send_signal(row["pid"], row["start_ticks"], signal.SIGKILL)


def slow_nic(site: Site, args: dict) -> None:
    """Train one NIC at another rate; the one it had is kept for the undo."""
    nic = _nic(site, args)
    args["before"] = nic["rate_gbps"]
    nic["rate_gbps"] = args["gbps"]


def restore_nic(site: Site, args: dict) -> None:
    """Give a NIC the rate it had."""
    _nic(site, args)["rate_gbps"] = args["before"]


def _nic(site: Site, args: dict) -> dict:
    name = f"mlx5_{args['nic']}"
    found = next((nic for nic in site.state["nic"] if nic["device"] == name), None)
    if found is None:
        raise LabError(f"nic={args['nic']}: {site.host.name} has no {name}")
    return found
