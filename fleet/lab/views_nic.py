"""The NICs of a node as views of its state: one table that the tools' stubs print from, and sysfs.

The stubs' program is lib/fabric.awk. The trees of /sys/class are shared between nodes: what is the
same lies once, under a name made of its content, and a node holds a link to it.
"""

import json
import os
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

from .hardware import ETHTOOL_COUNTERS, HW_COUNTERS, PORT_COUNTERS

# Kernel names and numbers of a port's states: include/rdma/ib_verbs.h, ib_mad.h.
PORT_STATES = {"up": ("ACTIVE", 4), "down": ("DOWN", 1)}
PHYS_STATES = {"LinkUp": 5, "Polling": 2, "Disabled": 3}
COLUMNS = (
    "device",
    "bus",
    "guid",
    "type",
    "firmware",
    "psid",
    "link_layer",
    "port",
    "phys",
    "rate_gbps",
    "width",
    "netdev",
    "mtu",
    "active_mtu",
    "ip",
    "mac",
    "local_gid",
    "ipv4_gid",
    "gids",
)
_TREES = "class/sys"


def render_nics(state: dict) -> str:
    """Return nic.tsv: the names of the columns, then one line a NIC; `-` for an empty cell."""
    rows = [_cells(nic) for nic in state["nic"]]
    lines = ["\t".join(COLUMNS)]
    lines += ["\t".join(str(row[name]) or "-" for name in COLUMNS) for row in rows]
    return "\n".join(lines) + "\n"


def _cells(nic: dict) -> dict:
    return {
        **nic,
        "bus": nic["bus"].lower(),
        "mac": mac_of(nic),
        "local_gid": _local_gid(nic),
        "ipv4_gid": _ipv4_gid(nic["ip"]),
        "gids": ",".join(kind or "-" for kind in nic["gids"]),
    }


def mac_of(nic: dict) -> str:
    """Return the hardware address of a NIC, made of its GUID as its firmware does."""
    digits = nic["guid"][:6] + nic["guid"][-6:]
    return ":".join(digits[n : n + 2] for n in range(0, 12, 2))


def _local_gid(nic: dict) -> str:
    first, *rest = mac_of(nic).split(":")
    digits = f"{int(first, 16) ^ 2:02x}{rest[0]}{rest[1]}fffe{''.join(rest[2:])}"
    groups = [digits[n : n + 4] for n in range(0, 16, 4)]
    return ":".join(["fe80", "0000", "0000", "0000", *groups])


def _ipv4_gid(address: str) -> str:
    a, b, c, d = (int(part) for part in address.split("."))
    return f"0000:0000:0000:0000:0000:ffff:{a:02x}{b:02x}:{c:02x}{d:02x}"


def render_statistics(state: dict) -> Iterator[tuple[str, str]]:
    """Yield the interface and what `ethtool -S` prints of it, for each NIC."""
    for nic in state["nic"]:
        counts = [f"     {name}: {nic['counters'].get(name, 0)}\n" for name in ETHTOOL_COUNTERS]
        yield nic["netdev"], "NIC statistics:\n" + "".join(counts)


def link_sysfs(node_dir: Path, state: dict) -> None:
    """Make the node's /sys show its NICs: a link to the shared tree of exactly these."""
    if "nic" not in state:
        return
    link = node_dir / "root" / "sys"
    tree = _fleet_tree(node_dir.parents[1] / _TREES, state["nic"])
    if link.is_symlink() and os.readlink(link) == str(tree):
        return
    fresh = link.with_name("sys.new")
    fresh.unlink(missing_ok=True)
    os.symlink(tree, fresh)
    os.rename(fresh, link)


def _named(kind: str, content: object) -> str:
    return f"{kind}-{sha256(json.dumps(content).encode()).hexdigest()[:16]}"


def _fleet_tree(trees: Path, nics: list[dict]) -> Path:
    """Return the tree of a node with these NICs; it is made when no node had them before."""
    files = {nic["device"]: (nic["netdev"], _rdma_files(nic), _net_files(nic)) for nic in nics}
    tree = trees / _named("node", files)
    if tree.is_dir():
        return tree
    draft = trees / f"{tree.name}.{os.getpid()}"
    for folder in ("class/infiniband", "class/net"):
        os.makedirs(draft / folder, exist_ok=True)
    for device, (netdev, rdma, net) in files.items():
        os.symlink(_leaf_tree(trees, "rdma", rdma), draft / "class" / "infiniband" / device)
        os.symlink(_leaf_tree(trees, "net", net), draft / "class" / "net" / netdev)
    _settle(draft, tree)
    return tree


def _leaf_tree(trees: Path, kind: str, files: dict[str, str]) -> Path:
    tree = trees / _named(kind, files)
    if tree.is_dir():
        return tree
    draft = trees / f"{tree.name}.{os.getpid()}"
    for name, text in files.items():
        path = draft / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{text}\n")
    _settle(draft, tree)
    return tree


def _settle(draft: Path, tree: Path) -> None:
    """Give a finished tree its name; another process may have been first, which is as good."""
    try:
        os.rename(draft, tree)
    except OSError:
        if not tree.is_dir():
            raise


def _rdma_files(nic: dict) -> dict[str, str]:
    word, number = PORT_STATES[nic["port"]]
    port = {
        "state": f"{number}: {word}",
        "phys_state": f"{PHYS_STATES[nic['phys']]}: {nic['phys']}",
        "rate": f"{nic['rate_gbps']} Gb/sec ({nic['width']})",
        "link_layer": nic["link_layer"],
        **{f"counters/{name}": str(nic["counters"].get(name, 0)) for name in PORT_COUNTERS},
        **{f"hw_counters/{name}": str(nic["counters"].get(name, 0)) for name in HW_COUNTERS},
    }
    return {
        "fw_ver": nic["firmware"],
        "hca_type": nic["type"],
        "device/numa_node": str(nic["socket"]),
        f"device/net/{nic['netdev']}/mtu": str(nic["mtu"]),
        **{f"ports/1/{name}": text for name, text in port.items()},
    }


def _net_files(nic: dict) -> dict[str, str]:
    is_up = nic["port"] == "up"
    return {
        "mtu": str(nic["mtu"]),
        "operstate": "up" if is_up else "down",
        "carrier": "1" if is_up else "0",
        "speed": str(nic["rate_gbps"] * 1000) if is_up else "-1",
        "device/numa_node": str(nic["socket"]),
    }
