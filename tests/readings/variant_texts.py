# ruff: noqa: E501
"""Small outputs of our own in the forms that other nodes and other versions of the tools print.

Each is written after the tools' documents and public reports; none is a copy of one. `good` passes, `bad` fails,
`doubt` is neither.
"""

from __future__ import annotations

from typing import Any, NamedTuple


class Variant(NamedTuple):
    """One output: its kind, how it is judged, and values that it must give."""

    name: str
    kind: str
    verdict: str
    text: str
    values: dict[str, Any] = {}


def uuid(number: int) -> str:
    return f"GPU-{number:08x}-1111-2222-3333-444444444444"


def listing(name: str, count: int = 8) -> str:
    return "".join(f"GPU {n}: {name} (UUID: {uuid(n)})\n" for n in range(count))


MIG_LIST = (
    f"GPU 0: NVIDIA H200 (UUID: {uuid(0)})\n"
    "  MIG 3g.71gb     Device  0: (UUID: MIG-6f1b3c1e-0000-5111-8222-333333333333)\n"
    "  MIG 1c.3g.71gb  Device  1: (UUID: MIG-6f1b3c1e-0001-5111-8222-333333333333)\n"
    "  MIG 1g.18gb+me  Device  2: (UUID: MIG-6f1b3c1e-0002-5111-8222-333333333333)\n"
    f"GPU 1: NVIDIA H200 (UUID: {uuid(1)})\n"
)
OLD_MIG_LIST = (
    f"GPU 0: A100-SXM4-40GB (UUID: {uuid(0)})\n  MIG 3g.20gb Device 0: (UUID: MIG-{uuid(0)}/1/0)\n"
)

_WIDE = (
    "+-----------------------------------------+------------------------+----------------------+"
)
_FULL = (
    "+-----------------------------------------------------------------------------------------+"
)


def table(
    cards: list[tuple[str, ...]], driver: str = "570.86.15", cuda: str = "12.8", processes: str = ""
) -> str:
    """Cards: name, persistence, display, ECC, fan, temperature, state, power, memory, use, mode, MIG."""
    rows = [
        "Mon Nov 30 20:00:00 2026       ",
        _FULL,
        f"| {f'NVIDIA-SMI {driver}':<33} {f'Driver Version: {driver}':<30} {f'CUDA Version: {cuda}':<22} |",
        "|-----------------------------------------+------------------------+----------------------+",
        "| GPU  Name                 Persistence-M | Bus-Id          Disp.A | Volatile Uncorr. ECC |",
        "| Fan  Temp   Perf          Pwr:Usage/Cap |           Memory-Usage | GPU-Util  Compute M. |",
        "|                                         |                        |               MIG M. |",
        "|=========================================+========================+======================|",
    ]
    for number, card in enumerate(cards):
        name, keeps, shows, ecc, fan, temp, perf, power, memory, use, mode, mig = card
        rows += [
            f"| {number:3}  {name:<27} {keeps:>7} |   00000000:{0x1B + number:02X}:00.0 {shows:>3} | {ecc:>20} |",
            f"| {fan:<3}  {temp:<4}   {perf:<3} {power:>25} | {memory:>22} | {use:>8} {mode:>11} |",
            f"|                                         |                        | {mig:>20} |",
            _WIDE,
        ]
    rows += [
        "                                                                                         ",
        _FULL,
        "| Processes:                                                                              |",
        "|  GPU   GI   CI              PID   Type   Process name                        GPU Memory |",
        "|        ID   ID                                                               Usage      |",
        "|=========================================================================================|",
        processes
        or "|  No running processes found                                                             |",
        _FULL,
    ]
    return "\n".join(rows) + "\n"


def card(name: str, memory: str, power: str = "142W / 700W", **cells: str) -> tuple[str, ...]:
    told = {"keeps": "On", "shows": "Off", "ecc": "0", "fan": "N/A", "temp": "31C", "perf": "P0", "use": "0%",
            "mode": "Default", "mig": "Disabled", **cells}  # fmt: skip
    return (
        name, told["keeps"], told["shows"], told["ecc"], told["fan"], told["temp"], told["perf"],
        power, memory, told["use"], told["mode"], told["mig"],
    )  # fmt: skip


B200 = card("NVIDIA B200", "4MiB / 183359MiB", "142W / 1000W")
DEAD = card("ERR!", "0MiB / 183359MiB", "ERR! / ERR!", ecc="ERR!", fan="ERR!", temp="ERR!", perf="ERR!", use="ERR!",
            mig="ERR!")  # fmt: skip
IN_MIG = card("NVIDIA H200", "N/A", "76W / 700W", ecc="On", use="N/A", mig="Enabled")


def dump(*bodies: str, attached: int | None = None) -> str:
    head = (
        "\n==============NVSMI LOG==============\n\nTimestamp                                 : Mon Nov 30 20:00:00 2026\n"
        "Driver Version                            : 570.86.15\nCUDA Version                              : 12.8\n\n"
        f"Attached GPUs                             : {len(bodies) if attached is None else attached}\n"
    )
    return head + "".join(
        f"GPU 00000000:{0x1B + n:02X}:00.0\n{body}" for n, body in enumerate(bodies)
    )


ECC = """\
    ECC Mode
        Current                           : Enabled
        Pending                           : Enabled
    ECC Errors
        Volatile
            SRAM Correctable              : 0
            SRAM Uncorrectable Parity     : 0
            SRAM Uncorrectable SEC-DED    : 0
            DRAM Correctable              : 0
            DRAM Uncorrectable            : 0
        Aggregate
            SRAM Correctable              : 0
            SRAM Uncorrectable Parity     : 0
            SRAM Uncorrectable SEC-DED    : 0
            DRAM Correctable              : 3
            DRAM Uncorrectable            : 0
            SRAM Threshold Exceeded       : No
        Aggregate Uncorrectable SRAM Sources
            SRAM L2                       : 0
            SRAM Other                    : 0
        Channel Repair Pending            : No
        TPC Repair Pending                : No
"""
ROWS = """\
    Remapped Rows
        Correctable Error                 : 1
        Uncorrectable Error               : 0
        Pending                           : No
        Remapping Failure Occurred        : No
        Bank Remap Availability Histogram
            Max                           : 2559 bank(s)
            None                          : 0 bank(s)
"""
CLOCKS = """\
    Performance State                     : P0
    Clocks Event Reasons
        Idle                              : Not Active
        Applications Clocks Setting       : Not Active
        SW Power Cap                      : Not Active
        HW Slowdown                       : Not Active
            HW Thermal Slowdown           : Not Active
            HW Power Brake Slowdown       : Not Active
        Sync Boost                        : Not Active
        SW Thermal Slowdown               : Not Active
        Display Clock Setting             : Not Active
"""
WHOLE = (
    "    Product Name                          : NVIDIA H200\n    GPU Recovery Action                   : None\n"
    "    FB Memory Usage\n        Total                             : 143771 MiB\n"
    "        Used                              : 4 MiB\n"
    + ECC + ROWS + CLOCKS +
    "    Fabric\n        State                             : Completed\n        Status                            : Success\n"
    "        Health\n            Summary                       : Healthy\n            Bandwidth                     : Full\n"
    "            Route Unhealthy               : False\n"
    "    Processes                             : None\n    Capabilities\n        EGM                               : disabled\n"
)  # fmt: skip

QUERY = (
    "index, name, memory.total [MiB], gpu_recovery_action, ecc.errors.uncorrected.aggregate.sram.thresholdExceeded\n"
    "0, NVIDIA H200, 143771 MiB, None, No\n1, NVIDIA H200, 143771 MiB, None, No\n"
)
NVIDIA = [
    Variant("list of a GH200", "nvidia-smi", "pass", listing("NVIDIA GH200 480GB", 1), {"gpu_count": 1}),
    Variant("list of L40S", "nvidia-smi", "pass", listing("NVIDIA L40S", 4), {"gpu_count": 4, "mig_device_count": 0}),
    Variant("list with MIG", "nvidia-smi", "pass", MIG_LIST,
            {"gpu_count": 2, "mig_device_count": 3, "mig_profiles": ["3g.71gb", "1c.3g.71gb", "1g.18gb+me"]}),
    Variant("list with MIG of driver 450", "nvidia-smi", "pass", OLD_MIG_LIST, {"gpu_count": 1, "mig_device_count": 1}),
    Variant("table of B200", "nvidia-smi", "pass", table([B200] * 8),
            {"gpu_count": 8, "memory_total_mib": [183359] * 8, "driver": "570.86.15"}),
    Variant("table with a dead card", "nvidia-smi", "fail", table([B200, DEAD, B200]), {"gpu_count": 3}),
    Variant("table under MIG", "nvidia-smi", "pass", table([IN_MIG, IN_MIG]),
            {"gpu_count": 2, "memory_used_mib": [None, None]}),
    Variant("table without its second card", "nvidia-smi", "unknown",
            table([B200] * 3).replace("|   1  NVIDIA", "|   7  NVIDIA"), {}),
    Variant("table and a broken infoROM", "nvidia-smi", "fail",
            table([B200]) + "WARNING: infoROM is corrupted at gpu 00000000:1B:00.0\n", {}),
    Variant("dump of ECC", "nvidia-smi", "pass", dump(ECC, ECC), {"ecc_uncorrected_volatile": 0}),
    Variant("dump of one card's ECC", "nvidia-smi", "pass", dump(ECC), {"gpu_count": 1}),
    Variant("dump whose SRAM is over the threshold", "nvidia-smi", "fail",
            dump(ECC, ECC.replace("Exceeded       : No", "Exceeded       : Yes")),
            {"sram_threshold_exceeded": [False, True]}),
    Variant("dump with a repair to come", "nvidia-smi", "fail",
            dump(ECC.replace("Channel Repair Pending            : No", "Channel Repair Pending            : Yes")), {}),
    Variant("dump with a DRAM error", "nvidia-smi", "fail",
            dump(ECC.replace("DRAM Uncorrectable            : 0", "DRAM Uncorrectable            : 2")),
            {"ecc_uncorrected_volatile": 2, "ecc_uncorrected_aggregate": 2}),
    Variant("dump of rows", "nvidia-smi", "pass", dump(ROWS), {"remapped_rows_pending": False}),
    Variant("dump with a failed remap", "nvidia-smi", "fail",
            dump(ROWS.replace("Occurred        : No", "Occurred        : Yes")), {"remapped_rows_failure": True}),
    Variant("dump of clocks", "nvidia-smi", "pass", dump(CLOCKS), {"throttled": False}),
    Variant("dump of a hot card", "nvidia-smi", "fail",
            dump(CLOCKS.replace("HW Thermal Slowdown           : Not Active", "HW Thermal Slowdown           : Active")),
            {"reasons_active": ["hw_thermal_slowdown"]}),
    Variant("whole dump", "nvidia-smi", "pass", dump(WHOLE, WHOLE),
            {"gpu_count": 2, "recovery_action": "None", "fabric_state": "Completed"}),
    Variant("whole dump that asks for a reset", "nvidia-smi", "fail",
            dump(WHOLE, WHOLE.replace("Action                   : None", "Action                   : Drain and Reset")),
            {"recovery_action": ["None", "Drain and Reset"]}),
    Variant("whole dump without its fabric", "nvidia-smi", "fail",
            dump(WHOLE.replace(": Completed", ": In Progress")), {"fabric_state": "In Progress"}),
    Variant("dump without a card that is attached", "nvidia-smi", "unknown", dump(ECC, attached=2), {}),
    Variant("query of what the driver asks for", "nvidia-smi", "pass", QUERY, {"gpu_count": 2}),
    Variant("query with a reset asked for", "nvidia-smi", "fail", QUERY.replace("None, No\n1", "Reset, No\n1"), {}),
    Variant("query over the threshold", "nvidia-smi", "fail", QUERY.replace("None, No\n1", "None, Yes\n1"), {}),
    Variant("query of parts of ECC", "nvidia-smi", "fail",
            "index, ecc.errors.uncorrected.volatile.dram\n0, 0\n1, 4\n", {}),
    Variant("query without units", "nvidia-smi", "pass",
            "name, pci.bus_id, power.draw [W]\nNVIDIA L40S, 00000000:01:00.0, 30.10\n", {"power_draw_w": 30.1}),
    Variant("query without a header", "nvidia-smi", "unknown", "0, NVIDIA H200, 143771, 0, 31\n", {}),
    Variant("query that a card did not answer", "nvidia-smi", "unknown",
            "index, temperature.gpu\n0, 31\n1, [Unknown Error]\n", {}),
    Variant("no device", "nvidia-smi", "fail", "No devices were found\n", {"gpu_count": 0}),
    Variant("two versions", "nvidia-smi", "fail",
            "Failed to initialize NVML: Driver/library version mismatch\nNVML library version: 570.86\n",
            {"error": "driver_mismatch"}),
    Variant("a lost card", "nvidia-smi", "fail",
            "Unable to determine the device handle for GPU0: 0000:1B:00.0: Unknown Error\n",
            {"lost_gpu": {"index": 0, "pci": "0000:1B:00.0"}}),
]  # fmt: skip


def matrix(
    gpus: int,
    nics: int,
    link: str = "NV18",
    legend: bool = True,
    own: bool = True,
    glue: str = "\t",
) -> str:
    """Cards on two sockets, each beside the NIC of its number."""
    names = [f"GPU{n}" for n in range(gpus)] + [f"NIC{n}" for n in range(nics)]
    tails = ["CPU Affinity", "NUMA Affinity"] + (["GPU NUMA ID"] if own else [])
    rows = [glue.join(["", *names, *tails])]
    for i, one in enumerate(names):
        cells = []
        for j, other in enumerate(names):
            a, b = int(one[3:]), int(other[3:])
            if i == j:
                cells.append(" X ")
            elif one[0] == other[0] == "G":
                cells.append(link)
            elif (a * max(nics, 1) // max(gpus, 1) if one[0] == "G" else a) == (
                b * max(nics, 1) // max(gpus, 1) if other[0] == "G" else b
            ):
                cells.append("PXB")
            else:
                cells.append("NODE" if (i % 8 < 4) == (j % 8 < 4) else "SYS")
        tail = []
        if one[0] == "G":
            side = int(i >= max(1, gpus // 2))
            tail = ["0-47,96-143" if not side else "48-95,144-191", str(side)] + (
                ["", "N/A"] if own else []
            )
        rows.append(glue.join([one, *cells, *tail]))
    words = (
        "  X    = Self\n  SYS  = across NUMA nodes\n  NODE = within a NUMA node\n  PHB  = a host bridge\n"
        "  PXB  = several bridges\n  PIX  = one bridge\n  NV#  = Connection traversing a bonded set of # NVLinks\n"
    )
    text = "\n".join(rows) + "\n\nLegend:\n\n" + words
    if nics and legend:
        text += "\nNIC Legend:\n\n" + "".join(f"  NIC{n}: mlx5_{n}\n" for n in range(nics))
    return text


_UNDERLINED = matrix(2, 0).replace("GPU0\tGPU1\tCPU", "\x1b[4mGPU0\tGPU1\tCPU", 1).replace(
    "GPU NUMA ID\n", "GPU NUMA ID\x1b[0m\n", 1
)  # fmt: skip
TOPO = [
    Variant("16 NICs", "topo", "pass", matrix(8, 16), {"gpu_count": 8, "nic_count": 16, "nvlinks_per_pair": 18}),
    Variant("no NIC", "topo", "pass", matrix(8, 0), {"nic_count": 0, "nvswitch_uniform": True}),
    Variant("an old tool without GPU NUMA ID", "topo", "pass", matrix(4, 4, "NV12", own=False),
            {"gpu_numa_id": "column absent", "nvlinks_per_pair": 12}),
    Variant("underlined", "topo", "pass", _UNDERLINED, {"gpu_count": 2}),
    Variant("cards on PCIe", "topo", "pass", matrix(2, 2, "PHB"), {"has_nvlink": False}),
    Variant("blanks for TABs", "topo", "pass", matrix(8, 8).replace("\t", "   "), {"gpu_count": 8, "nic_count": 8}),
    Variant("NICs without names", "topo", "unknown", matrix(8, 4, legend=False), {}),
    Variant("a card that lost its NVLinks", "topo", "fail",
            "\n".join(
                row if not row.startswith(("GPU", "\t"))
                else row.replace("NV18", "SYS") if row.startswith("GPU3")
                else "\t".join("SYS" if n == 4 and c == "NV18" else c for n, c in enumerate(row.split("\t")))
                for row in matrix(8, 8).split("\n")
            ), {"nvswitch_uniform": False}),
]  # fmt: skip


def ibstat(
    number: int,
    state: str = "Active",
    physical: str = "LinkUp",
    layer: str = "Ethernet",
    name: str = "",
) -> str:
    return (
        f"CA '{name or f'mlx5_{number}'}'\n\tCA type: MT4129\n\tNumber of ports: 1\n\tFirmware version: 28.43.2026\n"
        f"\tHardware version: 0\n\tNode GUID: 0x{number:016x}\n\tSystem image GUID: 0x{number:016x}\n\tPort 1:\n"
        f"\t\tState: {state}\n\t\tPhysical state: {physical}\n\t\tRate: 400\n\t\tBase lid: 0\n\t\tLMC: 0\n\t\tSM lid: 0\n"
        f"\t\tCapability mask: 0x00010000\n\t\tPort GUID: 0x{number:016x}\n\t\tLink layer: {layer}\n"
    )


TWO_PORTS = ibstat(0).replace("Number of ports: 1", "Number of ports: 2") + "".join(
    row.replace("Port 1:", "Port 2:") + "\n" for row in ibstat(0).splitlines()[7:]
)
GIDS = (
    "DEV     PORT    INDEX   GID                                     IPv4            VER     DEV\n"
    "---     ----    -----   ---                                     ------------    ---     ---\n"
    "mlx5_0  1       0       fe80:0000:0000:0000:0a00:27ff:fe00:0001                 v1      ens1np0\n"
    "mlx5_0  1       1       fe80:0000:0000:0000:0a00:27ff:fe00:0001                 v2      ens1np0\n"
    "mlx5_0  1       2       0000:0000:0000:0000:0000:ffff:0a00:0101 10.0.1.1        v1      ens1np0\n"
    "mlx5_0  1       3       0000:0000:0000:0000:0000:ffff:0a00:0101 10.0.1.1        v2      ens1np0\n"
    "mlx5_0  1       4       2001:0db8:0000:0000:0000:0000:0000:0001                 v1      ens1np0\n"
    "mlx5_0  1       5       2001:0db8:0000:0000:0000:0000:0000:0001                 v2      ens1np0\n"
    "n_gids_found=6\n"
)
LSBLK_F = (
    "NAME        FSTYPE   FSVER LABEL UUID                                 FSAVAIL FSUSE% MOUNTPOINTS\n"
    "loop0       squashfs 4.0                                                    0   100% /snap/core22/1380\n"
    "sda\n"
    "├─sda1      vfat     FAT32       1111-2222                             504.9M     1% /boot/efi\n"
    "└─sda2      LVM2_mem LVM2        aaaaaa-bbbb-cccc-dddd-eeee-ffff-gggg\n"
    "  └─ubuntu--vg-ubuntu--lv\n"
    "            ext4     1.0         11111111-2222-3333-4444-555555555555   60.4G    32% /\n"
    "nvme0n1     xfs                  22222222-3333-4444-5555-666666666666    2.9T    17% /models\n"
    "nvme1n1\n"
)
LSBLK_O = (
    "NAME      SIZE MODEL                       TRAN   SERIAL\n"
    "sda     447.1G MICRON 5300 MTFDDAK480TDS   sata   1234567890AB\n"
    "nvme0n1   3.5T SAMSUNG MZQL23T8HCLS-00A07  nvme   S64HNX0T000001\n"
    "nvme1n1   3.5T SAMSUNG MZQL23T8HCLS-00A07  nvme   S64HNX0T000002\n"
)
LSBLK_J = '{"blockdevices": [{"name": "nvme0n1", "fstype": "xfs", "fsavail": "2.9T", "fsuse%": "17%", "mountpoints": ["/models"]}]}\n'
DF_O = (
    "Filesystem     Type  Inodes IUsed    IFree IUse%  1K-blocks      Used      Avail Use% File Mounted on\n"
    "/dev/nvme0n1   xfs  1562824   812  1562012    1% 3750738264 647812304 3102925960  18% -    /models\n"
    "tmpfs          tmpfs      -     -        -     - 1056768000     65536 1056702464   1% -    /dev/shm\n"
)
DF_B1 = (
    "Filesystem        1B-blocks         Used     Available Use% Mounted on\n"
    "/dev/nvme0n1  3840755982336 663359799296 3177396183040  18% /models\n"
)
DF_FULL = "Mounted on Avail Use% Filesystem\n/              0 100% /dev/sda2\n/models     2.9T  18% /dev/nvme0n1\n"
IP_LINK = (
    "lo               UNKNOWN        00:00:00:00:00:00 <LOOPBACK,UP,LOWER_UP> \n"
    "ens1np0          UP             94:6d:ae:00:00:01 <BROADCAST,MULTICAST,UP,LOWER_UP> \n"
    "ibp12s0          UP             00:00:10:49:fe:80:00:00:00:00:00:00:94:6d:ae:03:00:00:00:01 <BROADCAST,MULTICAST,UP,LOWER_UP> \n"
    "bond0.100@bond0  UP             94:6d:ae:00:00:02 <BROADCAST,MULTICAST,UP,LOWER_UP> \n"
)
FABRIC = [
    Variant("eight rails", "fabric", "pass", "".join(ibstat(n) for n in range(8)), {"ca_count": 8, "active_ports": 8}),
    Variant("RoCE names", "fabric", "pass", ibstat(0, name="rocep26s0") + ibstat(1, name="rocep58s0f0"),
            {"rails_400g": ["rocep26s0", "rocep58s0f0"]}),
    Variant("InfiniBand that begins", "fabric", "fail", ibstat(0, "Initializing", layer="InfiniBand"),
            {"active_ports": 0}),
    Variant("a rail that polls", "fabric", "unknown", ibstat(0) + ibstat(1, "Down", "Polling"),
            {"active_ports": 1, "ports": {"mlx5_0/1": ["Active", "LinkUp", 400, "Ethernet"],
                                          "mlx5_1/1": ["Down", "Polling", 400, "Ethernet"]}}),
    Variant("two ports of a card", "fabric", "pass", TWO_PORTS, {"device_count": 1, "active_ports": 2}),
    Variant("GIDs with IPv6", "fabric", "pass", GIDS, {"gids": 6, "rocev2_ipv4_index": {"mlx5_0": 3}}),
    Variant("rdma link", "fabric", "pass",
            "link mlx5_0/1 state ACTIVE physical_state LINK_UP netdev ens1np0 \n"
            "link mlx5_1/1 state ACTIVE physical_state LINK_UP netdev ens2np0 \n", {"up": ["mlx5_0", "mlx5_1"]}),
    Variant("rdma link that is down", "fabric", "unknown",
            "link mlx5_0/1 state ACTIVE physical_state LINK_UP netdev ens1np0 \n"
            "link mlx5_1/1 state DOWN physical_state DISABLED netdev ens2np0 \n", {"down": ["mlx5_1"]}),
    Variant("ibdev2netdev of RoCE names", "fabric", "pass",
            "rocep26s0 port 1 ==> ens26np0 (Up)\nroceo1 port 1 ==> eno1np0 (Up)\n", {"device_count": 2}),
    Variant("lsblk -f", "fabric", "pass", LSBLK_F,
            {"disks": 3, "nvme_disks": 2, "mounts": {"/snap/core22/1380": "loop0", "/boot/efi": "sda1",
                                                     "/": "ubuntu--vg-ubuntu--lv", "/models": "nvme0n1"}}),
    Variant("lsblk -f that is full", "fabric", "fail", LSBLK_F.replace(" 2.9T    17%", "    0   100%"), {}),
    Variant("lsblk -o with models", "fabric", "pass", LSBLK_O,
            {"nvme_disks": 2, "disk_sizes": {"sda": "447.1G", "nvme0n1": "3.5T", "nvme1n1": "3.5T"}}),
    Variant("lsblk -J -f", "fabric", "pass", LSBLK_J, {"nvme_disks": 1, "mounts": {"/models": "nvme0n1"}}),
    Variant("df --output", "fabric", "pass", DF_O,
            {"file_systems": 2, "used_pct": {"/models": 18, "/dev/shm": 1}, "dev_shm_size": "1056768000"}),
    Variant("df without inodes left", "fabric", "fail", DF_O.replace("   1% 3750", " 100% 3750"), {}),
    Variant("df -B1", "fabric", "pass", DF_B1, {"size": {"/models": "3840755982336"}}),
    Variant("df in another order, full", "fabric", "fail", DF_FULL, {"used_pct": {"/": 100, "/models": 18}}),
    Variant("ip -br link", "fabric", "pass", IP_LINK, {"interfaces": 4, "down": []}),
]  # fmt: skip
