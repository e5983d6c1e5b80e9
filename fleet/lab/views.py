"""Every answer of a node, rendered from its state: views of the tools and of /proc and /sys.

`render` is pure; `write_views` puts what changed on disk. A tool's exit code other than 0 is a
sister file `<view>.rc`.
"""

import json
import os
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

from .state import replace_text
from .views_host import render_block_devices, render_limits, render_numa, render_services
from .views_nic import link_sysfs, render_nics, render_statistics
from .views_perf import render_rates
from .views_smi import (
    RC_LOST,
    RC_MISMATCH,
    lost_gpus,
    present_gpus,
    render_list,
    render_mismatch,
    render_snapshot,
    render_topology,
)

GIB = 1 << 30
# Views that a healthy node does not have.
PASSING = ("*.rc", "smi.down")
_BOOT_ID = "root/proc/sys/kernel/random/boot_id"


def render(state: dict) -> dict[str, str]:
    """Return path below the node's directory -> text for one state.

    The gateway's host has no rehearsed tools: its boot id is all that is shown.
    """
    if "gpu" not in state:
        return {_BOOT_ID: f"{state['boot']['id']}\n"}
    files = {f"view/{name}": text for name, text in _tool_views(state)}
    files.update(_kernel_views(state))
    files.update(_sysroot(state))
    return files


def _tool_views(state: dict) -> Iterator[tuple[str, str]]:
    yield "smi.L", render_list(state)
    yield "smi.tsv", render_snapshot(state)
    yield "topo.m", render_topology(state)
    if lost_gpus(state):
        yield "smi.L.rc", f"{RC_LOST}\n"
        yield "topo.m.rc", f"{RC_LOST}\n"
    if sentence := render_mismatch(state):
        yield "smi.down", sentence
        yield "smi.down.rc", f"{RC_MISMATCH}\n"
    yield "nic.tsv", render_nics(state)
    for netdev, text in render_statistics(state):
        yield f"stats.{netdev}", text
    yield "lsblk.json", render_block_devices(state)
    yield "numactl", render_numa(state)
    yield "services", render_services(state)
    yield "rates", render_rates(state)
    yield "memlock", f"{state['limits']['memlock_kb']}\n"
    yield "nofile", f"{state['limits']['nofile']}\n"
    yield "cores", f"{state['cpu']['sockets'] * state['cpu']['cores']}\n"
    yield "kernel", f"{state['os']['kernel']}\n"
    yield "boot", f"{state['boot']['at'].replace('T', ' ').rstrip('Z')}\n"
    yield "lscpu", _lscpu(state)
    yield "memory", _memory_cells(state)
    yield "disks", _disk_cells(state)
    yield "chronyc.tracking", _tracking(state)
    yield "docker.version", json.dumps(_docker_version(state)) + "\n"
    yield "docker.info", json.dumps(_docker_info(state)) + "\n"
    yield "docker.state", f"{state['docker']['state']}\n"
    yield "docker.gpus", "".join(_container_gpus(state))


def _container_gpus(state: dict) -> Iterator[str]:
    """Yield `index uuid health` lines of the cards that a container can ask for."""
    for gpu in present_gpus(state):
        yield f"{gpu['index']} {gpu['uuid']} {gpu['health']}\n"


def _lscpu(state: dict) -> str:
    cpu = state["cpu"]
    total = cpu["sockets"] * cpu["cores"]
    rows = {
        "Architecture": "x86_64",
        "CPU op-mode(s)": "32-bit, 64-bit",
        "CPU(s)": total,
        "On-line CPU(s) list": f"0-{total - 1}",
        "Vendor ID": "GenuineIntel",
        "Model name": cpu["model"],
        "Thread(s) per core": 1,
        "Core(s) per socket": cpu["cores"],
        "Socket(s)": cpu["sockets"],
        "NUMA node(s)": cpu["sockets"],
        "NUMA node0 CPU(s)": "0-47",
        "NUMA node1 CPU(s)": "48-95",
    }
    return "".join(f"{key + ':':<33}{value}\n" for key, value in rows.items())


def _memory_cells(state: dict) -> str:
    """Return `total used free shared cached available` in bytes; `free` prints them in a unit."""
    total = state["memory"]["total_gib"] * GIB
    available = state["memory"]["available_gib"] * GIB
    shared = int(state["shm"]["used_gib"] * GIB)
    cached = 64 * GIB
    return f"{total} {total - available} {available - cached} {shared} {cached} {available}\n"


def _disk_cells(state: dict) -> str:
    """Return the total and used bytes of /dev/shm and the total of the model disk."""
    shm = state["shm"]
    used = int(shm["used_gib"] * GIB)
    return f"{int(shm['total_gib'] * GIB)} {used} {state['model_disk']['total_gib'] * GIB}\n"


def _tracking(state: dict) -> str:
    clock = state["clock"]
    seconds = abs(clock["offset_ms"]) / 1000
    side = "slow" if clock["offset_ms"] >= 0 else "fast"
    rows = {
        "Reference ID": f"0A280001 ({clock['source']})",
        "Stratum": clock["stratum"],
        "Ref time (UTC)": "Sun Nov 29 18:38:12 2026",
        "System time": f"{seconds:.9f} seconds {side} of NTP time",
        "Last offset": f"{-clock['offset_ms'] / 1000:+.9f} seconds",
        "RMS offset": "0.000041500 seconds",
        "Frequency": "12.345 ppm slow",
        "Residual freq": "-0.001 ppm",
        "Skew": "0.021 ppm",
        "Root delay": "0.000310000 seconds",
        "Root dispersion": "0.000120000 seconds",
        "Update interval": "64.2 seconds",
        "Leap status": clock["leap"],
    }
    return "".join(f"{key:<16}: {value}\n" for key, value in rows.items())


def _docker_version(state: dict) -> dict:
    version = state["docker"]["version"]
    shared = {"Version": version, "Os": "linux", "Arch": "amd64", "ApiVersion": "1.47"}
    return {
        "Client": {**shared, "DefaultAPIVersion": "1.47", "Context": "default"},
        "Server": {**shared, "MinAPIVersion": "1.24", "KernelVersion": state["os"]["kernel"]},
    }


def _docker_info(state: dict) -> dict:
    return {
        "Name": state["name"],
        "ServerVersion": state["docker"]["version"],
        "Runtimes": {
            "io.containerd.runc.v2": {"path": "runc"},
            "nvidia": {"path": "nvidia-container-runtime"},
        },
        "DefaultRuntime": "runc",
        "Driver": "overlay2",
        "CgroupVersion": "2",
        "NCPU": state["cpu"]["sockets"] * state["cpu"]["cores"],
        "MemTotal": state["memory"]["total_gib"] * GIB,
        "KernelVersion": state["os"]["kernel"],
        "OperatingSystem": state["os"]["name"],
    }


def _kernel_views(state: dict) -> dict[str, str]:
    """Render the kernel log in the forms of journalctl and dmesg."""
    booted = _instant(state["boot"]["at"])
    iso, mono, human = [], [], []
    for entry in state["kernel_log"]:
        at = _instant(entry["at"])
        text = entry["text"]
        iso.append(f"{at:%Y-%m-%dT%H:%M:%S}+00:00 {state['name']} kernel: {text}\n")
        mono.append(f"[{(at - booted).total_seconds():12.6f}] {text}\n")
        human.append(f"[{at:%a %b %e %H:%M:%S %Y}] {text}\n")
    return {
        "view/kernel.iso": "".join(iso),
        "view/dmesg": "".join(mono),
        "view/dmesg.T": "".join(human),
    }


def _instant(text: str) -> datetime:
    return datetime.fromisoformat(text)


def _sysroot(state: dict) -> dict[str, str]:
    total_kb = state["memory"]["total_gib"] * GIB // 1024
    available_kb = state["memory"]["available_gib"] * GIB // 1024
    files = {
        "proc/meminfo": (
            f"MemTotal:       {total_kb} kB\n"
            f"MemFree:        {available_kb - 64 * GIB // 1024} kB\n"
            f"MemAvailable:   {available_kb} kB\n"
        ),
    }
    files["proc/sys/kernel/hostname"] = f"{state['name']}\n"
    files["proc/self/limits"] = render_limits(state)
    files["etc/os-release"] = f'PRETTY_NAME="{state["os"]["name"]}"\nID=ubuntu\n'
    rooted = {f"root/{name}": text for name, text in files.items()}
    return {_BOOT_ID: f"{state['boot']['id']}\n", **rooted}


def write_views(node_dir: Path, state: dict) -> list[str]:
    """Write the views that differ from what is on disk; return their paths."""
    wanted = render(state)
    link_sysfs(node_dir, state)
    changed = [name for name, text in wanted.items() if _differs(node_dir / name, text)]
    for name in changed:
        replace_text(node_dir / name, wanted[name])
    for pattern in PASSING:
        for stale in (node_dir / "view").glob(pattern):
            name = f"view/{stale.name}"
            if name not in wanted:
                stale.unlink()
                changed.append(name)
    return changed


def bear_views(node_dir: Path, state: dict, shared: Path) -> None:
    """Write all views of a new node.

    What is equal on every node of its class is one file in `shared` with a link a node: making a
    link costs a tenth of making a file, and a view that changes is replaced, never written to.
    """
    made: set[Path] = set()
    link_sysfs(node_dir, state)
    for name, text in render(state).items():
        path = node_dir / name
        if path.parent not in made:
            os.makedirs(path.parent, exist_ok=True)
            made.add(path.parent)
        twin = shared / name.replace("/", "+")
        if not twin.exists():
            shared.mkdir(parents=True, exist_ok=True)
            twin.write_text(text)
        if twin.read_text() == text:
            os.link(twin, path)
        else:
            path.write_text(text)


def _differs(path: Path, text: str) -> bool:
    try:
        return path.read_text() != text
    except FileNotFoundError:
        return True
