"""The hardware and software state of one node: the only source of every answer it gives.

Values are LAB.md section 2; numbers without a source are invented for the rehearsal.
"""

import copy
import json
import os
from datetime import UTC, datetime
from pathlib import Path

from .boot_log import boot_lines
from .draws import draw, draw_uuid
from .fabric import Place, place_record
from .hardware import DRIVER, GPUS, born_disks, born_gpu, born_nics, born_switches


def boot_record(seed: int, name: str, count: int, reason: str, now: datetime) -> dict:
    """Return the boot part of a state; `count` makes every boot's id another one."""
    return {
        "id": draw_uuid(seed, name, "boot", count),
        "count": count,
        "at": time_text(now),
        "reason": reason,
    }


def time_text(now: datetime) -> str:
    """Return a UTC time as the lab writes it everywhere."""
    return now.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def born_state(place: Place, seed: int, now: datetime) -> dict:
    """Return the gold state of a node just switched on."""
    name = place.name
    state = {
        "v": 1,
        "seed": seed,
        **place_record(place),
        "serial": f"{draw(seed, name, 'serial') % 10**13:013d}",
        "os": {"name": "Ubuntu 24.04.3 LTS", "kernel": "6.8.0-79-generic"},
        "cpu": {"sockets": 2, "cores": 48, "model": "Intel(R) Xeon(R) Platinum 8468"},
        "memory": {"total_gib": 2015, "available_gib": 1890},
        "boot": boot_record(seed, name, 1, "poweron", now),
        "reach": "up",
        "clock": {"offset_ms": 0.08, "source": "10.40.0.1", "stratum": 3, "leap": "Normal"},
        "limits": {"memlock_kb": "unlimited", "nofile": 1048576},
        "shm": {"total_gib": 1007.5, "used_gib": 0.6},
        "model_disk": {"total_gib": 14336},
        "disks": born_disks(),
        "driver": {
            "version": DRIVER,
            # What the tools are linked against; it differs until the reboot after an upgrade.
            "library": DRIVER,
            "gsp_firmware": DRIVER,
            "cuda": "12.8",
            "fabricmanager": "active",
        },
        "docker": {"version": "27.5.1", "state": "ok"},
        "gpu": [born_gpu(seed, name, index) for index in range(GPUS)],
        "nvswitch": born_switches(),
        "nic": born_nics(seed, name, place.number, place.address),
        "faults": [],
    }
    state["kernel_log"] = boot_lines(state)
    return state


def power_cycled(state: dict, reason: str, now: datetime) -> dict:
    """Return the state after the node was switched off and on: LAB.md 5.4."""
    after = copy.deepcopy(state)
    after["boot"] = boot_record(
        state["seed"], state["name"], state["boot"]["count"] + 1, reason, now
    )
    after["reach"] = "up"
    if "docker" in after:
        after["docker"]["state"] = "ok"
    after["faults"] = [row for row in state["faults"] if outlives_boot(row)]
    for gpu in after.get("gpu", ()):
        _restart_gpu(gpu)
    for switch in after.get("nvswitch", ()):
        switch.update(state="ok", fatal=False, sxids=[])
    if "driver" in after:
        after["driver"].update(library=after["driver"]["version"], fabricmanager="active")
    after["kernel_log"] = boot_lines(after) if "gpu" in after else []
    return after


def outlives_boot(row: dict) -> bool:
    """Whether a fault is still there after a power cycle: a cable, a setting, a broken card."""
    return bool(row.get("outlives_boot") or row["args"].get("sticky"))


def _restart_gpu(gpu: dict) -> None:
    if gpu["health"] != "ok" and not gpu["sticky"]:
        gpu.update(health="ok", recovery_action="None")
    gpu["xids"] = []
    gpu["ecc"].update(corrected=0, uncorrected=0)
    # A start puts a spare row in place of the one that was marked.
    gpu["remapped"]["uncorrectable"] += gpu["remapped"]["pending"]
    gpu["remapped"]["pending"] = False
    gpu["nvlink"] = {"down": [], "errors": 0}
    # What had made it hot or slow ends with the power.
    gpu["clock"]["sm"], gpu["reasons"] = 345, 0x1
    gpu["power"]["limit_w"] = gpu["power"]["max_w"]
    gpu["fabric"] = {"state": "Completed", "status": "Success"}
    gpu["temperature"]["gpu"] = min(gpu["temperature"]["gpu"], 34)


def read_state(node_dir: Path) -> dict:
    """Read a node's state.json."""
    return json.loads((node_dir / "state.json").read_text())


def write_state(node_dir: Path, state: dict, now: datetime) -> None:
    """Write state.json whole, one version further."""
    state["v"] += 1
    state["at"] = time_text(now)
    replace_text(node_dir / "state.json", json.dumps(state, indent=1))


def replace_text(path: Path, text: str) -> None:
    """Replace a file in one step, so that a reader sees the old or the new one."""
    fresh = path.with_name(f"{path.name}.new")
    fresh.write_text(text)
    os.rename(fresh, path)
