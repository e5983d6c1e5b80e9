"""Faults of a node's memory, disks, limits and clock: LAB.md 6.4."""

from .changes import put_back, set_values
from .effects import Site
from .fault import KERNEL_VIEWS, Fault, Sign
from .place import LabError


def _small_shm(site: Site, args: dict) -> None:
    used = min(args["total_gib"], site.state["shm"]["used_gib"])
    set_values(site, args, ("shm",), total_gib=args["total_gib"], used_gib=used)


def _fill_shm(site: Site, args: dict) -> None:
    total = site.state["shm"]["total_gib"]
    set_values(site, args, ("shm",), used_gib=round(total * args["pct"] / 100, 1))


def _small_disk(site: Site, args: dict) -> None:
    disks = site.state["disks"]
    kept = [disk for disk in disks if disk["name"] != args["disk"]]
    if len(kept) == len(disks):
        raise LabError(f"disk={args['disk']}: there are {', '.join(d['name'] for d in disks)}")
    models = [disk for disk in kept if disk["is_model"]]
    set_values(site, args, (), disks=kept)
    set_values(site, args, ("model_disk",), total_gib=3584 * len(models))


def _slow_disk(site: Site, args: dict) -> None:
    for place, disk in enumerate(site.state["disks"]):
        if disk["is_model"]:
            set_values(site, args, ("disks", place), read_gbs=args["gbps"] / 4)


def _low_memlock(site: Site, args: dict) -> None:
    set_values(site, args, ("limits",), memlock_kb=args["kb"])


def _skew(site: Site, args: dict) -> None:
    set_values(site, args, ("clock",), offset_ms=args["ms"])


def _lose_time(site: Site, args: dict) -> None:
    set_values(site, args, ("clock",), leap="Not synchronised", stratum=0)


def _out_of_memory(site: Site, args: dict) -> None:
    site.log_kernel(
        f"oom-kill:constraint=CONSTRAINT_NONE,nodemask=(null),task={args['victim']},pid=48213,uid=0",
        f"Out of memory: Killed process 48213 ({args['victim']}) total-vm:52428800kB, anon-rss:41943040kB",
    )


def _corrected_dimm(site: Site, args: dict) -> None:
    site.log_kernel(
        f"EDAC MC0: {args['count']} CE memory read error on {args['dimm']} (channel:1 slot:0 page:0x1a2b3c)"
    )


TABLE = (
    Fault(
        name="shm.small",
        about="/dev/shm is smaller than gold",
        apply=_small_shm,
        undo=put_back,
        arguments={"total_gib": 32.0},
        signs=(Sign("view/disks", r"^34359738368 "),),
        also=("view/memory",),
        outlives_boot=True,
    ),
    Fault(
        name="shm.full",
        about="/dev/shm is full: new engines cannot start",
        apply=_fill_shm,
        undo=put_back,
        arguments={"pct": 100.0},
        signs=(Sign("view/disks", r"^(\d{10,}) \1 "),),
        also=("view/memory",),
        outlives_boot=True,
    ),
    Fault(
        name="disk.small",
        about="a model disk is gone: the model file system is smaller",
        apply=_small_disk,
        undo=put_back,
        arguments={"disk": "nvme2n1"},
        signs=(
            Sign("view/lsblk.json", r'(?s)\A(?!.*nvme2n1).*"nvme1n1"'),
            Sign("view/disks", r" 11544872091648$"),
        ),
        also=("view/rates",),
        outlives_boot=True,
    ),
    Fault(
        name="nvme.slow",
        about="the model disk reads slowly; only a read shows it",
        apply=_slow_disk,
        undo=put_back,
        arguments={"gbps": 1.1},
        signs=(Sign("view/rates", r"^\d+\.\d+ 1\.100 "),),
        outlives_boot=True,
    ),
    Fault(
        name="memlock.low",
        about="a process may lock too little memory for RDMA",
        apply=_low_memlock,
        undo=put_back,
        arguments={"kb": 8192},
        signs=(
            Sign("view/memlock", "^8192$"),
            Sign("root/proc/self/limits", r"^Max locked memory\s+8388608\s"),
        ),
        outlives_boot=True,
    ),
    Fault(
        name="clock.skew",
        about="the clock is off by `ms`; positive is behind",
        apply=_skew,
        undo=put_back,
        arguments={"ms": 420000.0},
        signs=(Sign("view/chronyc.tracking", r"System time     : 420\.0+ seconds slow"),),
        outlives_boot=True,
    ),
    Fault(
        name="clock.unsynchronised",
        about="the clock follows nobody",
        apply=_lose_time,
        undo=put_back,
        signs=(Sign("view/chronyc.tracking", r"Leap status     : Not synchronised"),),
        outlives_boot=True,
    ),
    Fault(
        name="host.oom",
        about="the kernel killed a process for want of memory",
        apply=_out_of_memory,
        arguments={"victim": "raylet"},
        signs=(Sign("view/dmesg", r"Out of memory: Killed process \d+ \(raylet\)"),),
        also=KERNEL_VIEWS,
        cannot_undo="the log keeps the line until a reboot",
        is_lasting=False,
    ),
    Fault(
        name="host.edac",
        about="the memory controller corrected errors of a module",
        apply=_corrected_dimm,
        arguments={"dimm": "DIMM_A1", "count": 3},
        signs=(Sign("view/dmesg", r"EDAC MC0: 3 CE .* on DIMM_A1"),),
        also=KERNEL_VIEWS,
        cannot_undo="the log keeps the line until a reboot",
        is_lasting=False,
    ),
)
