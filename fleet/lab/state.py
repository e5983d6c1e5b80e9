"""The hardware and software state of one node: the only source of every answer it gives.

Values are LAB.md section 2; numbers without a source are invented for the rehearsal.
"""

import copy
import json
import os
import uuid
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path

from .fabric import Place, place_record

GPUS = 8
BUSES = ("1A", "2A", "3C", "4E", "9A", "AA", "BC", "CE")
NIC_BUSES = ("1B", "2B", "3D", "4F", "9B", "AB", "BD", "CF")
DRIVER = "570.172.08"
VBIOS = "96.00.89.00.01"
NAMESPACE = uuid.UUID("7d0e2a54-5d6c-5a55-9d5c-0f6f6c61620a")


def draw(seed: int, *keys: object) -> int:
    """Return a repeatable 48-bit number for the seed and any keys."""
    text = "/".join(map(str, (seed, *keys)))
    return int.from_bytes(sha256(text.encode()).digest()[:6], "big")


def draw_uuid(seed: int, *keys: object) -> str:
    """Return a repeatable UUID for the seed and any keys."""
    return str(uuid.uuid5(NAMESPACE, "/".join(map(str, (seed, *keys)))))


def spread(seed: int, low: float, high: float, *keys: object) -> float:
    """Return a repeatable value between `low` and `high` with two decimals."""
    return round(low + (high - low) * (draw(seed, *keys) % 10_000) / 9_999, 2)


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
    return {
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
        "driver": {"version": DRIVER, "cuda": "12.8", "fabricmanager": "active"},
        "docker": {"version": "27.5.1", "state": "ok"},
        "gpu": [_born_gpu(seed, name, index) for index in range(GPUS)],
        "nic": [_born_nic(seed, name, rail) for rail in range(GPUS)] + [_front_nic(seed, name)],
        "kernel_log": [],
        "faults": [],
    }


def _born_gpu(seed: int, name: str, index: int) -> dict:
    key = (name, "gpu", index)
    return {
        "index": index,
        "minor": index,
        "bus": BUSES[index],
        "uuid": f"GPU-{draw_uuid(seed, *key)}",
        "serial": f"{1650000000000 + draw(seed, *key, 'serial') % 10**10}",
        "name": "NVIDIA H100 80GB HBM3",
        "health": "ok",
        "sticky": False,
        "memory": {"total_mib": 81559, "reserved_mib": 551, "used_mib": 1},
        "clock": {"sm": 345, "mem": 2619, "max_sm": 1980, "max_mem": 2619},
        "power": {"draw_w": spread(seed, 70, 76, *key, "power"), "limit_w": 700},
        "temperature": {
            "gpu": 30 + draw(seed, *key, "t") % 5,
            "memory": 42 + draw(seed, *key, "m") % 5,
        },
        "utilization": {"gpu": 0, "memory": 0},
        "reasons": 0x1,
        "ecc": {"corrected": 0, "uncorrected": 0},
        "remapped": {"correctable": 0, "uncorrectable": 0, "pending": False, "failure": False},
        "recovery_action": "None",
        "xids": [],
    }


def _born_nic(seed: int, name: str, rail: int) -> dict:
    guid = f"{0x5C25730300000000 + draw(seed, name, 'nic', rail) % 2**32:016x}"
    return {
        "device": f"mlx5_{rail}",
        "bus": NIC_BUSES[rail],
        "guid": guid,
        "socket": rail // 4,
        "port": "up",
        "rate_gbps": 400,
    }


def _front_nic(seed: int, name: str) -> dict:
    return {
        **_born_nic(seed, name, 7),
        "bus": "60",
        "device": "mlx5_8",
        "socket": 0,
        "rate_gbps": 100,
        "guid": f"{0x5C25730300000000 + draw(seed, name, 'front') % 2**32:016x}",
    }


def power_cycled(state: dict, reason: str, now: datetime) -> dict:
    """Return the state after the node was switched off and on: LAB.md 5.4."""
    after = copy.deepcopy(state)
    after["boot"] = boot_record(
        state["seed"], state["name"], state["boot"]["count"] + 1, reason, now
    )
    after["reach"] = "up"
    if "docker" in after:
        after["docker"]["state"] = "ok"
    after["kernel_log"] = []
    after["faults"] = [row for row in state["faults"] if row["args"].get("sticky")]
    for gpu in after.get("gpu", ()):
        if gpu["health"] != "ok" and not gpu["sticky"]:
            gpu.update(health="ok", recovery_action="None")
        gpu["xids"] = []
        gpu["ecc"] = {"corrected": 0, "uncorrected": 0}
        gpu["remapped"]["pending"] = False
    return after


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
