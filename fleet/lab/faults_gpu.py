"""Faults of cards, their links and their driver: LAB.md 6.2. Codes of Xid: the vendor's Xid catalogue."""

import signal

from . import containers, procs, state
from .changes import put_back, set_values
from .effects import Site
from .fault import KERNEL_VIEWS, Fault, Sign
from .hardware import GPUS, NVLINKS
from .place import LabError

SMI = "view/smi.tsv"
RATES = "view/rates"
# reason -> bits of clocks_event_reasons.active, a hot card's temperature
REASONS = {"hw_thermal": (0x48, 88), "sw_thermal": (0x20, 86), "hw_slowdown": (0x8, 60)}
_REMAPPED = "Row Remapper: New row (0x{row:016x}) marked for remapping, reset gpu to activate."


def _xid(site: Site, gpu: dict, code: int, text: str) -> None:
    gpu["xids"].append({"at": state.time_text(site.now), "code": code})
    site.log_kernel(f"NVRM: Xid (PCI:0000:{gpu['bus'].lower()}:00): {code}, {text}")


def _kill_rank(site: Site, index: int) -> str:
    """Kill the rank on a card, if there is one; return the words of a log about it."""
    for container in containers.running(site.directory):
        for row in container.workers():
            if row.get("local_rank") == index:
                procs.send_signal(row["pid"], row["start_ticks"], signal.SIGKILL)
                return f"pid={row['pid']}, name=VLLM::Worker"
    return "pid='<unknown>', name=<unknown>"


def _throttle(site: Site, args: dict) -> None:
    if args["reason"] not in REASONS:
        raise LabError(f"reason={args['reason']}: gpu.throttle knows {', '.join(REASONS)}")
    site.gpu(args)
    mask, degrees = REASONS[args["reason"]]
    path = ("gpu", args["gpu"])
    set_values(site, args, path, reasons=mask)
    set_values(site, args, (*path, "clock"), sm=args["clock"])
    set_values(site, args, (*path, "temperature"), gpu=degrees)


def _power_brake(site: Site, args: dict) -> None:
    for index in range(GPUS):
        set_values(site, args, ("gpu", index), reasons=0x88)
        set_values(site, args, ("gpu", index, "clock"), sm=args["clock"])


def _power_cap(site: Site, args: dict) -> None:
    for index in range(GPUS):
        set_values(site, args, ("gpu", index), reasons=0x4)
        set_values(site, args, ("gpu", index, "power"), limit_w=args["limit"])
        set_values(site, args, ("gpu", index, "clock"), sm=1410)


def _mark_row(gpu: dict) -> None:
    gpu["ecc"]["uncorrected"] += 1
    gpu["remapped"]["pending"] = True


def _double_bit(site: Site, args: dict) -> None:
    gpu = site.gpu(args)
    _mark_row(gpu)
    gpu.update(health="reset_required", recovery_action="Reset")
    victim = _kill_rank(site, args["gpu"])
    _xid(site, gpu, 48, f"{victim}, An uncorrectable double bit error (DBE) has been detected on GPU in the "
         "framebuffer at physAddr 0x30f2a1c0 partition 3, subpartition 1.")  # fmt: skip
    _xid(site, gpu, 63, f"pid='<unknown>', name=<unknown>, {_REMAPPED.format(row=0x3A7C1)}")


def _contained(site: Site, args: dict) -> None:
    gpu = site.gpu(args)
    _mark_row(gpu)
    victim = _kill_rank(site, args["gpu"])
    _xid(site, gpu, 94, f"{victim}, Ch 00000008, Contained memory error")
    _xid(site, gpu, 63, f"pid='<unknown>', name=<unknown>, {_REMAPPED.format(row=0x2B114)}")


def _out_of_rows(site: Site, args: dict) -> None:
    gpu = site.gpu(args)
    gpu["remapped"].update(failure=True, uncorrectable=8)
    _xid(
        site,
        gpu,
        64,
        "pid='<unknown>', name=<unknown>, Row Remapper: Failed to remap row, no spare left in bank",
    )


def _illegal_access(site: Site, args: dict) -> None:
    gpu = site.gpu(args)
    victim = _kill_rank(site, args["gpu"])
    _xid(site, gpu, 31, f"{victim}, Ch 00000010, intr 00000000. MMU Fault: ENGINE GRAPHICS GPC1 GPCCLIENT_T1_4 "
         "faulted @ 0x7f2c_40000000. Fault is of type FAULT_PDE ACCESS_TYPE_VIRT_READ")  # fmt: skip


def _engine_exception(site: Site, args: dict) -> None:
    gpu = site.gpu(args)
    victim = _kill_rank(site, args["gpu"])
    _xid(
        site,
        gpu,
        13,
        f"{victim}, Graphics SM Warp Exception on (GPC 2, TPC 5, SM 0): Out Of Range Address",
    )


def _links_down(site: Site, args: dict) -> None:
    gpu = site.gpu(args)
    links = list(range(NVLINKS)) if args["all"] else [args["link"]]
    gpu["nvlink"]["down"] = sorted({*gpu["nvlink"]["down"], *links})
    gpu["nvlink"]["errors"] += len(links)
    switch = site.state["nvswitch"][links[0] % len(site.state["nvswitch"])]
    switch["sxids"].append({"at": state.time_text(site.now), "code": 12028})
    _xid(site, gpu, 74, f"pid='<unknown>', name=<unknown>, NVLink: fatal error detected on link {links[0]}"
         "(0x10000, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0)")  # fmt: skip
    site.log_kernel(
        f"nvidia-nvswitch{switch['index']}: SXid (PCI:0000:{switch['bus'].lower()}:00.0): 12028, "
        f"Non-fatal, Link {32 + args['gpu']} egress non-posted PRIV error"
    )


def _set_firmware(site: Site, args: dict) -> None:
    site.gpu(args)
    set_values(site, args, ("gpu", args["gpu"]), vbios=args["version"])


def _narrow(site: Site, args: dict) -> None:
    site.gpu(args)
    set_values(site, args, ("gpu", args["gpu"], "pcie"), width=args["width"], gen=args["gen"])


def _fabric_manager_down(site: Site, args: dict) -> None:
    set_values(site, args, ("driver",), fabricmanager="inactive")
    for index in range(GPUS):
        set_values(site, args, ("gpu", index), fabric={"state": "In Progress", "status": "N/A"})


def _other_driver(site: Site, args: dict) -> None:
    version = args["version"]
    set_values(site, args, ("driver",), version=version, library=version, gsp_firmware=version)
    site.log_kernel(f"NVRM: loading NVIDIA UNIX x86_64 Kernel Module  {version}  Release Build")


def _library_ahead(site: Site, args: dict) -> None:
    version = site.state["driver"]["version"]
    set_values(site, args, ("driver",), library=args["library"])
    site.log_kernel(
        f"NVRM: API mismatch: the client has the version {args['library']}, but",
        f"NVRM: this kernel module has the version {version}.  Please",
        "NVRM: make sure that this kernel module and all NVIDIA driver",
        "NVRM: components have the same version.",
    )


def _kernel_sign(code: int) -> Sign:
    return Sign("view/kernel.iso", rf"NVRM: Xid \(PCI:0000:4e:00\): {code}, pid=")


TABLE = (
    Fault(
        name="gpu.throttle",
        about="a hot or slowed card: its clock falls and says why",
        apply=_throttle,
        undo=put_back,
        arguments={"gpu": 3, "clock": 1155, "reason": "hw_thermal"},
        signs=(
            Sign(SMI, r"0x0000000000000048"),
            Sign(SMI, r"^3\t.*\t1155\t"),
            Sign(RATES, r"^276\."),
        ),
    ),
    Fault(
        name="gpu.power_brake",
        about="the power supply brakes all eight cards",
        apply=_power_brake,
        undo=put_back,
        arguments={"clock": 1400},
        signs=(Sign(SMI, r"0x0000000000000088"), Sign(RATES, r"^335\.")),
    ),
    Fault(
        name="gpu.power_cap",
        about="the power limit of all cards is lower than gold",
        apply=_power_cap,
        undo=put_back,
        arguments={"limit": 450},
        signs=(
            Sign(SMI, r"^0\t.*\t450\.00\t"),
            Sign(SMI, r"0x0000000000000004"),
            Sign(RATES, r"^337\."),
        ),
    ),
    Fault(
        name="gpu.xid48",
        about="a double bit error: the card waits for a reset, its rank dies",
        apply=_double_bit,
        arguments={"gpu": 3},
        signs=(Sign(SMI, r"GPU requires reset"), _kernel_sign(48), _kernel_sign(63)),
        also=(*KERNEL_VIEWS, "view/docker.gpus"),
        cannot_undo="reboot the node",
    ),
    Fault(
        name="gpu.xid94",
        about="a contained memory error: one rank dies, a remap is pending",
        apply=_contained,
        arguments={"gpu": 3},
        signs=(Sign(SMI, r"^3\t.*\tYes\t"), _kernel_sign(94), _kernel_sign(63)),
        also=KERNEL_VIEWS,
        cannot_undo="reboot the node",
    ),
    Fault(
        name="gpu.remap_failure",
        about="a bank has no spare row left: the card must be replaced",
        apply=_out_of_rows,
        arguments={"gpu": 3},
        signs=(Sign(SMI, r"^3\t.*\tYes\t"), _kernel_sign(64)),
        also=KERNEL_VIEWS,
        cannot_undo="replace the card",
        outlives_boot=True,
    ),
    Fault(
        name="gpu.xid31",
        about="a program reads an address that is not its own; the card is fine",
        apply=_illegal_access,
        arguments={"gpu": 3},
        signs=(_kernel_sign(31),),
        also=KERNEL_VIEWS,
        cannot_undo="rebuild the unit; the log keeps the line until a reboot",
    ),
    Fault(
        name="gpu.xid13",
        about="a kernel of a program failed; the card is fine",
        apply=_engine_exception,
        arguments={"gpu": 3},
        signs=(_kernel_sign(13),),
        also=KERNEL_VIEWS,
        cannot_undo="rebuild the unit; the log keeps the line until a reboot",
    ),
    Fault(
        name="nvlink.down",
        about="a link of a card is down; all=1 takes all eighteen",
        apply=_links_down,
        arguments={"gpu": 3, "link": 7, "all": 0},
        signs=(
            Sign("view/topo.m", r"^GPU3\tNV17\t"),
            Sign(SMI, r"^3\t.*\t7\t"),
            Sign(RATES, r"^445\."),
            _kernel_sign(74),
            Sign("view/kernel.iso", r"nvidia-nvswitch\d: SXid \(PCI:"),
        ),
        also=KERNEL_VIEWS,
        cannot_undo="reboot the node",
    ),
    Fault(
        name="gpu.vbios",
        about="a card has another VBIOS than its sisters",
        apply=_set_firmware,
        undo=put_back,
        arguments={"gpu": 3, "version": "96.00.74.00.0D"},
        signs=(Sign(SMI, r"^3\t.*\t96\.00\.74\.00\.0D\t"),),
        outlives_boot=True,
    ),
    Fault(
        name="gpu.pcie",
        about="the PCIe link of a card came up narrow or slow",
        apply=_narrow,
        undo=put_back,
        arguments={"gpu": 3, "width": 8, "gen": 5},
        signs=(Sign(SMI, r"^3\t.*\t5\t5\t5\t8\t16\t"),),
        outlives_boot=True,
    ),
    Fault(
        name="fabricmanager.down",
        about="the fabric manager is not active: new CUDA programs cannot start",
        apply=_fabric_manager_down,
        undo=put_back,
        signs=(
            Sign("view/services", "^nvidia-fabricmanager inactive$"),
            Sign(SMI, "In Progress"),
            Sign(RATES, " starting$"),
        ),
    ),
    Fault(
        name="driver.old",
        about="the node runs another driver than gold",
        apply=_other_driver,
        undo=put_back,
        arguments={"version": "565.57.01"},
        signs=(Sign(SMI, r"\t565\.57\.01\t"), Sign("view/dmesg", r"Kernel Module  565\.57\.01")),
        also=KERNEL_VIEWS,
        outlives_boot=True,
    ),
    Fault(
        name="driver.mismatch",
        about="the driver's library was replaced and its module was not",
        apply=_library_ahead,
        arguments={"library": "570.211.01"},
        signs=(
            Sign("view/smi.down", "^Failed to initialize NVML: Driver/library version mismatch$"),
            Sign("view/smi.down.rc", "^18$"),
            Sign("view/dmesg", "NVRM: API mismatch: the client has the version 570.211.01"),
        ),
        also=KERNEL_VIEWS,
        cannot_undo="reboot the node",
    ),
)
