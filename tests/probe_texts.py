"""What a good node answers to the sections of a probe about firmware, links, disks and its kernel."""

import json

BUSES = [f"{n}E" for n in range(8)]


def report(cards: int = 8, attached: int | None = None, **changed: str) -> str:
    """`nvidia-smi -q`; `changed` replaces a value of GPU 3 by the words that stand before it, `_` for blanks."""
    head = (
        "\n==============NVSMI LOG==============\n\n"
        "Timestamp                                 : Sun Nov 29 18:38:12 2026\n"
        "Driver Version                            : 570.172.08\n"
        "CUDA Version                              : 12.8\n\n"
        f"Attached GPUs                             : {attached or cards}\n"
    )
    return head + "\n".join(_card(n, changed if n == 3 else {}) for n in range(cards)) + "\n"


def _card(number: int, changed: dict[str, str]) -> str:
    lines = [f"GPU 00000000:{BUSES[number]}:00.0"]
    for depth, name, value in _ROWS:
        word = changed.get(name.replace(" ", "_"), value)
        lines.append(f"{'    ' * depth + name:<42}" + (f": {word}" if value else "").rstrip())
    return "\n".join(lines)


_ROWS = (
    (1, "Product Name", "NVIDIA H100 80GB HBM3"),
    (1, "Persistence Mode", "Enabled"),
    (1, "MIG Mode", ""),
    (2, "Current", "Disabled"),
    (1, "VBIOS Version", "96.00.89.00.01"),
    (1, "Inforom Version", ""),
    (2, "Image Version", "G520.0200.00.05"),
    (1, "GSP Firmware Version", "570.172.08"),
    (1, "GPU Recovery Action", "None"),
    (1, "PCI", ""),
    (2, "GPU Link Info", ""),
    (3, "Link Width", ""),
    (4, "Current", "16x"),
    (1, "ECC Mode", ""),
    (2, "Current", "Enabled"),
    (1, "Retired Pages", ""),
    (2, "Double Bit ECC", "N/A"),
    (1, "Remapped Rows", ""),
    (2, "Uncorrectable Error", "0"),
    (2, "Pending", "No"),
    (2, "Remapping Failure Occurred", "No"),
    (1, "Temperature", ""),
    (2, "Memory Current Temp", "43 C"),
    (1, "GPU Power Readings", ""),
    (2, "Current Power Limit", "700.00 W"),
    (1, "Fabric", ""),
    (2, "State", "Completed"),
    (1, "Processes", "None"),
)


def ibstat(ports: int = 8, firmware: str = "28.43.2026", rate: int = 400) -> str:
    return "".join(
        f"CA 'mlx5_{n}'\n\tCA type: MT4129\n\tNumber of ports: 1\n\tFirmware version: {firmware}\n"
        f"\tPort 1:\n\t\tState: Active\n\t\tPhysical state: LinkUp\n\t\tRate: {rate}\n\t\tBase lid: 0\n"
        "\t\tLink layer: Ethernet\n"
        for n in range(ports)
    )


def devinfo(ports: int = 8) -> str:
    return "".join(
        f"hca_id:\tmlx5_{n}\n\ttransport:\t\t\tInfiniBand (0)\n\t\tport:\t1\n"
        "\t\t\tstate:\t\t\tPORT_ACTIVE (4)\n\t\t\tactive_mtu:\t\t4096 (5)\n"
        "\t\t\tlink_layer:\t\tEthernet\n\n"
        for n in range(ports)
    )


def gids(ports: int = 8) -> str:
    rows = "".join(
        f"mlx5_{n}\t1\t3\t0000:0000:0000:0000:0000:ffff:0a29:{n:02x}1c\t10.41.{n}.28  \tv2\trail{n}np0\n"
        for n in range(ports)
    )
    return f"DEV\tPORT\tINDEX\tGID\t\tIPv4  \tVER\tDEV\n---\t----\t-----\t---\n{rows}n_gids_found={ports}\n"


def links(ports: int = 8) -> str:
    rows = [{"ifname": "lo", "flags": ["LOOPBACK", "UP"], "mtu": 65536, "operstate": "UNKNOWN"}]
    rows += [
        {"ifname": f"rail{n}np0", "flags": ["UP"], "mtu": 9000, "operstate": "UP", "addr_info": []}
        for n in range(ports)
    ]
    return json.dumps(rows) + "\n"


KERNEL_LOG = (
    "2026-11-20T02:11:04,000000+00:00 Linux version 6.8.0-79-generic (buildd@x) #81-Ubuntu SMP\n"
    "2026-11-20T02:11:09,500000+00:00 NVRM: loading NVIDIA UNIX x86_64 Kernel Module  570.172.08\n"
)


def depth_texts() -> dict[str, str]:
    """Section of a probe -> what a good node prints."""
    return {
        "gpu-report": report(),
        "fabric-manager": "active\n",
        "rdma-ports": ibstat(),
        "rdma-netdevs": "".join(f"mlx5_{n} port 1 ==> rail{n}np0 (Up)\n" for n in range(8)),
        "rdma-mtu": devinfo(),
        "gids": gids(),
        "links": links(),
        "rdma-counters": "".join(
            f"/sys/class/infiniband/mlx5_{n}/ports/1/hw_counters/out_of_sequence:0\n"
            f"/sys/class/infiniband/mlx5_{n}/ports/1/hw_counters/lifespan:10\n"
            for n in range(8)
        ),
        "ethtool": "".join(
            f"# rail{n}np0\nNIC statistics:\n     rx_prio3_pause: 0\n" for n in range(8)
        ),
        "disks": json.dumps(
            {
                "blockdevices": [
                    {"name": f"nvme{n}n1", "size": 3840755982336, "type": "disk",
                     "mountpoint": None, "fstype": None,
                     "children": [{"name": "md0", "size": 15393162788864, "type": "raid0",
                                   "mountpoint": "/models", "fstype": "xfs"}]}
                    for n in range(4)
                ]
            }
        ) + "\n",
        "numa": "available: 2 nodes (0-1)\nnode 0 cpus: 0 1 2 3\nnode 0 size: 1031680 MB\n"
        "node 0 free: 967680 MB\nnode 1 cpus: 4 5 6 7\nnode 1 size: 1031680 MB\n"
        "node 1 free: 967680 MB\nnode distances:\nnode   0   1\n  0:  10  21\n  1:  21  10\n",
        "memlock": "Limit                     Soft Limit           Hard Limit           Units\n"
        "Max locked memory         unlimited            unlimited            bytes\n",
        "os": 'PRETTY_NAME="Ubuntu 24.04.3 LTS"\nID=ubuntu\n',
        "hostname": "h100-001\n",
        "kernel-log": KERNEL_LOG,
    }  # fmt: skip


def bundled(parts: dict[str, tuple[int, bytes]]) -> bytes:
    """Several answers as the shell of a bundle prints them."""
    return b"".join(
        b"#> part %s\n%s\n#< part %d\n" % (name.encode(), body, rc)
        for name, (rc, body) in parts.items()
    )
