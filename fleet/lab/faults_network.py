"""Faults of NICs, their settings and the fabric behind them: LAB.md 6.3.

What a node can see lies in its state; what only a transfer meets lies in fabric.json (read_fabric).
"""

from .changes import put_back, set_fabric, set_values
from .effects import Site, only_told
from .fabric import loss_key, read_fabric
from .fault import COUNTER_VIEWS, KERNEL_VIEWS, Fault, Sign
from .hardware import PHYS_PORTS_DOWN, RAILS
from .place import LabError

NICS = "view/nic.tsv"
SYSFS = "root/sys/class"
PORT = f"{SYSFS}/infiniband/mlx5_3/ports/1"
WIDTHS = {100: "1X NDR", 200: "2X NDR", 400: "4X NDR"}


def _nic(site: Site, args: dict, key: str = "nic") -> dict:
    """Return the rail that the arguments name; LabError when there is none."""
    if not 0 <= args[key] < RAILS:
        raise LabError(f"{key}={args[key]}: {site.host.name} has rails 0 to {RAILS - 1}")
    return site.state["nic"][args[key]]


def _rails(site: Site, args: dict) -> list[int]:
    """Return the rails that the arguments mean: one, or all for -1."""
    if args["nic"] == -1:
        return list(range(RAILS))
    _nic(site, args)
    return [args["nic"]]


def _count(nic: dict, **more: int) -> None:
    for name, amount in more.items():
        nic["counters"][name] = nic["counters"].get(name, 0) + amount


def _port_down(site: Site, args: dict) -> None:
    nic = _nic(site, args)
    if args["phys"] not in PHYS_PORTS_DOWN:
        raise LabError(
            f"phys={args['phys']}: a port that is down is {' or '.join(PHYS_PORTS_DOWN)}"
        )
    set_values(site, args, ("nic", args["nic"]), port="down", phys=args["phys"])
    _count(nic, link_downed=1)
    site.log_kernel(
        f"mlx5_core 0000:{nic['bus'].lower()}:00.0: Port module event: module 0, Cable unplugged",
        f"mlx5_core 0000:{nic['bus'].lower()}:00.0 {nic['netdev']}: Link down",
    )


def _slow_port(site: Site, args: dict) -> None:
    _nic(site, args)
    if args["gbps"] not in WIDTHS:
        raise LabError(f"gbps={args['gbps']}: a port comes up at {', '.join(map(str, WIDTHS))}")
    width = WIDTHS[args["gbps"]]
    set_values(site, args, ("nic", args["nic"]), rate_gbps=args["gbps"], width=width)


def _other_firmware(site: Site, args: dict) -> None:
    _nic(site, args)
    set_values(site, args, ("nic", args["nic"]), firmware=args["version"])


def _swap_slots(site: Site, args: dict) -> None:
    one, two = _nic(site, args), _nic(site, args, "other")
    places = [{key: nic[key] for key in ("pix_gpu", "socket")} for nic in (one, two)]
    set_values(site, args, ("nic", args["nic"]), **places[1])
    set_values(site, args, ("nic", args["other"]), **places[0])


def _misbind(site: Site, args: dict) -> None:
    for rail in range(RAILS // 2, RAILS):
        set_values(site, args, ("nic", rail), socket=0, pix_gpu=None)


def _wrong_gid(site: Site, args: dict) -> None:
    gids = list(_nic(site, args)["gids"])
    kinds = {"missing": "", "local": "local/v2"}
    if args["mode"] not in kinds or not 0 <= args["index"] < len(gids):
        raise LabError(f"expected mode=missing or mode=local and index=0 to {len(gids) - 1}")
    gids[args["index"]] = kinds[args["mode"]]
    set_values(site, args, ("nic", args["nic"]), gids=gids)


def _other_mtu(site: Site, args: dict) -> None:
    # RDMA takes the largest of its own sizes that fits the interface: 1024 in 1500 bytes.
    active = 4096 if args["mtu"] >= 4200 else 2048 if args["mtu"] >= 2200 else 1024
    for rail in _rails(site, args):
        set_values(site, args, ("nic", rail), mtu=args["mtu"], active_mtu=active)


def _lose_packets(site: Site, args: dict) -> None:
    ratio = args["pct"] / 100
    lost = max(1, round(1_000_000 * ratio))
    for rail in _rails(site, args):
        nic = site.state["nic"][rail]
        key = loss_key(site.host.name, nic["device"], args["peer"])
        set_fabric(site, args, ("loss_ratio", key), ratio)
        _count(
            nic, packet_seq_err=lost, out_of_sequence=lost, local_ack_timeout_err=lost // 100 + 1
        )


def _shift_gid(site: Site, args: dict) -> None:
    gold = list(_nic(site, {"nic": 0})["gids"])
    if not len(gold) <= args["index"] < 16:
        raise LabError(f"index={args['index']}: expected {len(gold)} to 15")
    gids = [*gold[:-1], *[""] * (args["index"] - len(gold) + 1), gold[-1]]
    for rail in range(RAILS):
        set_values(site, args, ("nic", rail), gids=gids)


def _retransmit(site: Site, args: dict) -> None:
    _count(_nic(site, args), roce_adp_retrans=args["count"], packet_seq_err=args["count"])


def _cable(site: Site, device: str) -> int:
    cables = read_fabric(site.lab)["cables"]
    name = site.host.name
    return next(n for n, row in enumerate(cables) if (row["node"], row["nic"]) == (name, device))


def _slow_cable(site: Site, args: dict) -> None:
    nic = _nic(site, args)
    place = _cable(site, nic["device"])
    set_fabric(site, args, ("cables", place, "gbps"), args["gbps"])
    _count(nic, symbol_error=4096, link_error_recovery=12)


def _oversell(site: Site, args: dict) -> None:
    leaves = read_fabric(site.lab)["leaves"]
    leaf = site.state["leaf"]
    place = next(n for n, row in enumerate(leaves) if row["leaf"] == leaf)
    set_fabric(site, args, ("leaves", place, "oversub"), args["ratio"])


def _pause(site: Site, args: dict) -> None:
    paused = read_fabric(site.lab)["paused"]
    rails = _rails(site, args)
    keys = [loss_key(site.host.name, site.state["nic"][rail]["device"]) for rail in rails]
    set_fabric(site, args, ("paused",), sorted({*paused, *keys}))
    for rail in rails:
        _count(
            site.state["nic"][rail],
            rx_prio3_pause=5_000_000,
            tx_prio3_pause=4_200_000,
            rx_prio3_pause_duration=90_000_000,
            rx_pause_storm_warning_events=40,
            port_xmit_wait=800_000_000,
        )


TABLE = (
    Fault(
        name="nic.down",
        about="a rail's port is down: phys=Polling no peer, phys=Disabled switched off",
        apply=_port_down,
        undo=put_back,
        arguments={"nic": 3, "phys": "Polling"},
        signs=(
            Sign(NICS, r"^mlx5_3\t.*\tdown\tPolling\t400\t"),
            Sign(
                "view/kernel.iso", r"mlx5_core 0000:4f:00\.0: Port module event: .*Cable unplugged"
            ),
        ),
        also=(*KERNEL_VIEWS, f"{SYSFS}/infiniband/mlx5_3", f"{SYSFS}/net/rail3np0"),
        outlives_boot=True,
    ),
    Fault(
        name="nic.rate",
        about="a rail's port came up slower than gold",
        apply=_slow_port,
        undo=put_back,
        arguments={"nic": 3, "gbps": 200},
        signs=(Sign(NICS, r"^mlx5_3\t.*\tup\tLinkUp\t200\t2X NDR\t"),),
        also=(f"{SYSFS}/infiniband/mlx5_3", f"{SYSFS}/net/rail3np0"),
        outlives_boot=True,
    ),
    Fault(
        name="nic.firmware",
        about="a NIC has another firmware than its sisters",
        apply=_other_firmware,
        undo=put_back,
        arguments={"nic": 3, "version": "28.39.3004"},
        signs=(Sign(NICS, r"^mlx5_3\t.*\t28\.39\.3004\t"),),
        also=(f"{SYSFS}/infiniband/mlx5_3",),
        outlives_boot=True,
    ),
    Fault(
        name="nic.miswired",
        about="two NICs sit in each other's slot: neither is beside its GPU",
        apply=_swap_slots,
        undo=put_back,
        arguments={"nic": 3, "other": 4},
        signs=(Sign("view/topo.m", r"^GPU3(\t[^\t]+){8}\tNODE\tNODE\tNODE\tSYS\tPIX\t"),),
        also=(SYSFS,),
        outlives_boot=True,
    ),
    Fault(
        name="numa.misbind",
        about="the NICs of socket 1 hang on socket 0",
        apply=_misbind,
        undo=put_back,
        signs=(Sign("view/topo.m", r"^GPU7(\t[^\t]+){8}(\tSYS){8}\t"),),
        also=(SYSFS,),
        outlives_boot=True,
    ),
    Fault(
        name="gid.wrong",
        about="a GID is missing (mode=missing) or link-local (mode=local)",
        apply=_wrong_gid,
        undo=put_back,
        arguments={"nic": 3, "index": 3, "mode": "missing"},
        signs=(Sign(NICS, r"^mlx5_3\t.*\tlocal/v1,local/v2,ipv4/v1,-$"),),
        outlives_boot=True,
    ),
    Fault(
        name="gid.shifted",
        about="the RoCE v2 address stands at another GID index than on the other nodes",
        apply=_shift_gid,
        undo=put_back,
        arguments={"index": 5},
        signs=(Sign(NICS, r"^mlx5_3\t.*\tlocal/v1,local/v2,ipv4/v1,-,-,ipv4/v2$"),),
        outlives_boot=True,
    ),
    Fault(
        name="net.hang",
        about="a collective with `peer` (none: with any node) never ends",
        apply=only_told,
        undo=only_told,
        arguments={"peer": ""},
    ),
    Fault(
        name="mtu.mismatch",
        about="rails have another MTU than gold; nic=-1 is all of them",
        apply=_other_mtu,
        undo=put_back,
        arguments={"nic": -1, "mtu": 1500},
        signs=(Sign(NICS, r"^mlx5_0\t.*\trail0np0\t1500\t1024\t"),),
        also=(SYSFS,),
        outlives_boot=True,
    ),
    Fault(
        name="net.loss",
        about="a rail's link (nic=-1: all) loses packets, to everybody or only on the way to `peer`",
        apply=_lose_packets,
        undo=put_back,
        arguments={"nic": 3, "pct": 0.1, "peer": ""},
        signs=(Sign(f"{PORT}/hw_counters/packet_seq_err", "^1000$"),),
        also=(f"{PORT}/hw_counters",),
        outlives_boot=True,
    ),
    Fault(
        name="net.retransmits",
        about="a rail sent packets again; its link is fine now",
        apply=_retransmit,
        arguments={"nic": 3, "count": 100000},
        signs=(Sign(f"{PORT}/hw_counters/roce_adp_retrans", "^100000$"),),
        also=(f"{PORT}/hw_counters",),
        cannot_undo="the counters keep it until a reboot",
        is_lasting=False,
    ),
    Fault(
        name="cable.slow",
        about="a rail's cable carries less than its port says",
        apply=_slow_cable,
        undo=put_back,
        arguments={"nic": 3, "gbps": 200},
        signs=(Sign(f"{PORT}/counters/symbol_error", "^4096$"),),
        also=(f"{PORT}/counters",),
        outlives_boot=True,
    ),
    Fault(
        name="leaf.oversub",
        about="the uplinks of the node's leaf are sold `ratio` times: they carry 8/ratio pairs at full width",
        apply=_oversell,
        undo=put_back,
        arguments={"ratio": 2.0},
        outlives_boot=True,
    ),
    Fault(
        name="pfc.storm",
        about="pause frames stop a rail; nic=-1 is all of them",
        apply=_pause,
        undo=put_back,
        arguments={"nic": 3},
        signs=(Sign("view/stats.rail3np0", r"^     rx_prio3_pause: 5000000$"),),
        also=(*COUNTER_VIEWS, f"{PORT}/counters"),
        outlives_boot=True,
    ),
)
