"""The lab's host of a proxy, beside the nodes: a login with this machine's own tools, no GPUs and no stubs.

What runs on it is the console's business; the proxy is this machine's own HAProxy.
"""

import json
import os
import shutil
import socket
from datetime import datetime

from . import keys, power, procs, state, views
from .place import SSH_PORT
from .sshd import NodeHost, login_user, write_sshd_files

NAME, KIND = "gateway", "gateway"
PROXY = "haproxy"
HOST_NUMBER = 253  # of the block; .254 is its lock
CLIENT_PORT = 8000  # at its own address
# The runtime API listens on the loopback that all labs of a machine share: the block, which is one lab's alone,
# makes the number. Below the ports that a kernel gives away by itself.
ADMIN_PORTS = range(19_000, 32_000, 256)
_DIRECTORIES = ("pids", "root/home", "root/proc/sys/kernel/random")
_RC = "# Nothing on this host is rehearsed.\n"


class GatewayHost(NodeHost):
    """What sshd is told about the gateway's host."""

    kind = KIND

    def environment(self) -> dict[str, str]:
        """Return the variables that every command on it sees: no stub of the lab is on its PATH."""
        found = find_proxy()
        folders = dict.fromkeys([*([os.path.dirname(found)] if found else []), "/usr/bin", "/bin"])
        return {**super().environment(), "PATH": ":".join(folders)}


def find_proxy() -> str:
    """Return the path of HAProxy on this machine; empty when there is none."""
    path = f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin"
    return shutil.which(PROXY, path=path) or ""


def address_in(block: str) -> str:
    """Return the gateway's address in a block ("127.0.13")."""
    return f"{block}.{HOST_NUMBER}"


def ports_in(block: str, before: dict) -> dict:
    """Return the ports that a proxy of this block is to have: those it had, or free ones of its own."""
    if before.get("block") == block and "gateway" in before:
        return before["gateway"]
    third = int(block.rpartition(".")[2])
    free = (start + third for start in ADMIN_PORTS if _is_free("127.0.0.1", start + third))
    return {"port": CLIENT_PORT, "admin_port": next(free)}


def lay_out_gateway(host: NodeHost, seed: int, now: datetime) -> str:
    """Make or keep the host's directory; return its public host key."""
    directory = host.directory
    for name in _DIRECTORIES:
        os.makedirs(directory / name, exist_ok=True)
    keys.restore_first(directory / "hostkey")
    host_key = keys.ensure_key_pair(directory / "hostkey", host.name)
    write_sshd_files(host)
    state.replace_text(directory / "rc", _RC)
    state.replace_text(directory / "faults.json", "[]")
    if not (directory / "state.json").exists():
        born = _born_state(host, seed, now)
        (directory / "birth.json").write_text(json.dumps(born, indent=1))
        os.link(directory / "birth.json", directory / "state.json")
        views.write_views(directory, born)
    return host_key


def gateway_row(host: NodeHost, host_key: str, ports: dict) -> dict:
    """Return what a seed reads: how to log in, and where the proxy is to listen. No proxy: its path is empty."""
    return {
        "name": host.name,
        "address": host.address,
        "ssh_port": SSH_PORT,
        "user": login_user(),
        "host_key": host_key,
        "proxy": find_proxy(),
        **ports,
    }


def proxies(host: NodeHost) -> dict[int, int]:
    """Return the living proxies of the host as pid -> start ticks."""
    return {
        pid: ticks
        for pid, ticks in power.commands(host).items()
        if procs.command_name(pid) == PROXY
    }


def gateway_status(host: NodeHost) -> dict:
    """Return the host's part of the status."""
    found = state.read_state(host.directory)
    return {
        "name": host.name,
        "address": host.address,
        "sshd": "up" if power.listener(host.directory) else "down",
        "reach": found["reach"],
        "proxy": "up" if proxies(host) else "down" if find_proxy() else "missing",
        "faults": [row["name"] for row in found["faults"]],
        "version": found["v"],
    }


def _born_state(host: NodeHost, seed: int, now: datetime) -> dict:
    return {
        "v": 1,
        "seed": seed,
        "name": host.name,
        "boot": state.boot_record(seed, host.name, 1, "poweron", now),
        "reach": "up",
        "kernel_log": [],
        "faults": [],
        "at": state.time_text(now),
    }


def _is_free(address: str, port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((address, port))
        except OSError:
            return False
    return True
