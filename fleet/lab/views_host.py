"""What a node's own tools say of its disks, its memory nodes and its services: views of the state."""

import json

# The stub puts the node's model root here; the state knows none.
MODEL_ROOT = "@MODELS@"
RAID = "md0"


def render_block_devices(state: dict) -> str:
    """Return the object of `lsblk -J -b`: snaps first, then disks, the raid below each of its disks."""
    raid_bytes = state["model_disk"]["total_gib"] << 30
    raid = _device(RAID, raid_bytes, "raid0", MODEL_ROOT, "xfs")
    devices = [
        _device(f"loop{n}", size, "loop", f"/snap/{name}", "squashfs")
        for n, (name, size) in enumerate((("core20/2318", 67108864), ("lxd/29351", 91226112)))
    ]
    for disk in state["disks"]:
        row = _device(disk["name"], disk["bytes"], "disk", None, None)
        if disk["is_model"]:
            row |= {"fstype": "linux_raid_member", "children": [raid]}
        else:
            part = _device(f"{disk['name']}p1", disk["bytes"] - (1 << 20), "part", "/", "ext4")
            row["children"] = [part]
        devices.append(row)
    return json.dumps({"blockdevices": devices}, indent=1) + "\n"


def _device(name: str, size: int, kind: str, mount: str | None, fstype: str | None) -> dict:
    return {"name": name, "size": size, "type": kind, "mountpoint": mount, "fstype": fstype}


def render_numa(state: dict) -> str:
    """Return `numactl -H`: one memory node a socket, each with half of the memory."""
    sockets, cores = state["cpu"]["sockets"], state["cpu"]["cores"]
    size = state["memory"]["total_gib"] * 1024 // sockets
    free = state["memory"]["available_gib"] * 1024 // sockets
    lines = [f"available: {sockets} nodes (0-{sockets - 1})"]
    for node in range(sockets):
        cpus = " ".join(str(cpu) for cpu in range(node * cores, (node + 1) * cores))
        lines += [f"node {node} cpus: {cpus}", f"node {node} size: {size} MB"]
        lines += [f"node {node} free: {free} MB"]
    lines += ["node distances:", "node " + " ".join(f"{n:>3}" for n in range(sockets))]
    for node in range(sockets):
        row = " ".join(f"{10 if other == node else 21:>3}" for other in range(sockets))
        lines.append(f"{node:>3}: {row} ")
    return "\n".join(lines) + "\n"


def render_services(state: dict) -> str:
    """Return `name state` lines of the services that `systemctl is-active` knows."""
    docker = "failed" if state["docker"]["state"] == "down" else "active"
    rows = {
        "chrony": "active",
        "docker": docker,
        "nvidia-fabricmanager": state["driver"]["fabricmanager"],
        "nvidia-persistenced": "active",
    }
    return "".join(f"{name} {word}\n" for name, word in rows.items())


def render_limits(state: dict) -> str:
    """Return the rows of /proc/self/limits that the state knows."""
    memory, files = state["limits"]["memlock_kb"], state["limits"]["nofile"]
    locked = memory if memory == "unlimited" else memory * 1024
    rows = (("Max locked memory", locked, "bytes"), ("Max open files", files, "files"))
    head = f"{'Limit':<26}{'Soft Limit':<21}{'Hard Limit':<21}Units\n"
    return head + "".join(f"{name:<26}{n!s:<21}{n!s:<21}{unit}\n" for name, n, unit in rows)
