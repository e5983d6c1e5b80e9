"""The gold cards, switches, NICs and disks of a node: LAB.md 2.2 to 2.5.

Numbers without a source are invented for the rehearsal. What a tool prints of them is a view's matter.
"""

from .draws import draw, draw_uuid, spread

GPUS = 8
RAILS = 8
BUSES = ("1A", "2A", "3C", "4E", "9A", "AA", "BC", "CE")
NIC_BUSES = ("1B", "2B", "3D", "4F", "9B", "AB", "BD", "CF")
SWITCH_BUSES = ("05", "06", "07", "08")
DRIVER = "570.172.08"
VBIOS = "96.00.89.00.01"
INFOROM = "G520.0200.00.05"
NIC_FIRMWARE = "28.43.2026"
NVLINKS = 18
# What a port that is down can be: no peer, or switched off.
PHYS_PORTS_DOWN = ("Polling", "Disabled")
# What is counted of a RoCE port, where the driver shows it. A counter that is not in the state is 0.
PORT_COUNTERS = (
    "port_rcv_data",
    "port_xmit_data",
    "port_xmit_wait",
    "symbol_error",
    "link_downed",
    "link_error_recovery",
)
HW_COUNTERS = (
    "out_of_sequence",
    "packet_seq_err",
    "local_ack_timeout_err",
    "rnr_nak_retry_err",
    "duplicate_request",
    "np_cnp_sent",
    "rp_cnp_handled",
    "np_ecn_marked_roce_packets",
    "roce_adp_retrans",
)
ETHTOOL_COUNTERS = (
    "rx_prio3_pause",
    "tx_prio3_pause",
    "rx_prio3_pause_duration",
    "rx_pause_storm_warning_events",
    "tx_pause_storm_error_events",
    "rx_discards_phy",
)
# Kind of each GID of a port by its index; an empty one is a hole in the table.
GIDS = ("local/v1", "local/v2", "ipv4/v1", "ipv4/v2")


def born_gpu(seed: int, name: str, index: int) -> dict:
    """Return a gold card, idle."""
    key = (name, "gpu", index)
    return {
        "index": index,
        "minor": index,
        "bus": BUSES[index],
        "uuid": f"GPU-{draw_uuid(seed, *key)}",
        "serial": f"{1650000000000 + draw(seed, *key, 'serial') % 10**10}",
        "name": "NVIDIA H100 80GB HBM3",
        "vbios": VBIOS,
        "inforom": INFOROM,
        "health": "ok",
        "sticky": False,
        "memory": {"total_mib": 81559, "reserved_mib": 551, "used_mib": 1},
        "clock": {"sm": 345, "mem": 2619, "max_sm": 1980, "max_mem": 2619},
        "power": {"draw_w": spread(seed, 70, 76, *key, "power"), "limit_w": 700, "max_w": 700},
        "temperature": {
            "gpu": 30 + draw(seed, *key, "t") % 5,
            "memory": 42 + draw(seed, *key, "m") % 5,
        },
        "utilization": {"gpu": 0, "memory": 0},
        "reasons": 0x1,
        "ecc": {"corrected": 0, "uncorrected": 0, "mode": "Enabled"},
        "remapped": {"correctable": 0, "uncorrectable": 0, "pending": False, "failure": False},
        "recovery_action": "None",
        "nvlink": {"down": [], "errors": 0},
        "fabric": {"state": "Completed", "status": "Success"},
        "pcie": {"gen": 5, "width": 16, "replays": 0},
        "persistence": "Enabled",
        "mig": "Disabled",
        "xids": [],
    }


def born_switches() -> list[dict]:
    """Return the four NVSwitches of the board."""
    return [
        {"index": index, "bus": bus, "state": "ok", "fatal": False, "sxids": []}
        for index, bus in enumerate(SWITCH_BUSES)
    ]


def born_nics(seed: int, name: str, number: int, address: str) -> list[dict]:
    """Return eight rails and the front end of node `number`, which answers at `address`."""
    rails = [_rail(seed, name, number, rail) for rail in range(RAILS)]
    return [*rails, _front(seed, name, address)]


def _guid(seed: int, *keys: object) -> str:
    return f"{0x5C25730300000000 + draw(seed, *keys) % 2**32:016x}"


def _rail(seed: int, name: str, number: int, rail: int) -> dict:
    return {
        "device": f"mlx5_{rail}",
        "bus": NIC_BUSES[rail],
        "guid": _guid(seed, name, "nic", rail),
        "rail": rail,
        "netdev": f"rail{rail}np0",
        "socket": rail // 4,
        "pix_gpu": rail,
        "type": "MT4129",
        "firmware": NIC_FIRMWARE,
        "psid": "LAB0000000838",
        "link_layer": "Ethernet",
        "port": "up",
        "phys": "LinkUp",
        "rate_gbps": 400,
        "width": "4X NDR",
        "mtu": 9000,
        "active_mtu": 4096,
        "ip": f"10.41.{rail}.{number}",
        "gids": list(GIDS),
        "counters": {},
    }


def _front(seed: int, name: str, address: str) -> dict:
    return {
        **_rail(seed, name, 0, 0),
        "device": "mlx5_8",
        "bus": "60",
        "guid": _guid(seed, name, "front"),
        "rail": None,
        "netdev": "bond0",
        "pix_gpu": None,
        "type": "MT4125",
        "firmware": "22.43.2026",
        "rate_gbps": 100,
        "width": "4X EDR",
        "mtu": 1500,
        "active_mtu": 1024,
        "ip": address,
    }


def born_disks() -> list[dict]:
    """Return four model disks, which `md0` joins, and the system's; sizes in bytes, reads in GB/s."""
    disks = [
        {"name": f"nvme{n}n1", "bytes": 3_840_755_982_336, "read_gbs": 3.0, "is_model": True}
        for n in range(4)
    ]
    return [
        *disks,
        {"name": "nvme4n1", "bytes": 960_197_124_096, "read_gbs": 3.0, "is_model": False},
    ]
