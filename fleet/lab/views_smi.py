"""nvidia-smi's answers as views of a node's state (LAB.md 3.2)."""

from collections.abc import Callable

from .hardware import NVLINKS

RESET_CELL = "[GPU requires reset]"
# Exit codes of a GPU that fell off the bus (the vendor's manual) and of a library that does not fit.
RC_LOST, RC_MISMATCH = 15, 18
CPU_RANGES = ("0-47", "48-95")
LEGEND = """
Legend:

  X    = Self
  SYS  = Connection traversing PCIe as well as the SMP interconnect between NUMA nodes (e.g., QPI/UPI)
  NODE = Connection traversing PCIe as well as the interconnect between PCIe Host Bridges within a NUMA node
  PHB  = Connection traversing PCIe as well as a PCIe Host Bridge (typically the CPU)
  PXB  = Connection traversing multiple PCIe bridges (without traversing the PCIe Host Bridge)
  PIX  = Connection traversing at most a single PCIe bridge
  NV#  = Connection traversing a bonded set of # NVLinks
"""
REASON_BITS = {
    "gpu_idle": 0x1,
    "applications_clocks_setting": 0x2,
    "sw_power_cap": 0x4,
    "hw_slowdown": 0x8,
    "sync_boost": 0x10,
    "sw_thermal_slowdown": 0x20,
    "hw_thermal_slowdown": 0x40,
    "hw_power_brake_slowdown": 0x80,
}
Cell = Callable[[dict, dict], object]


def present_gpus(state: dict) -> list[dict]:
    """Return the GPUs that the driver lists, renumbered when one is missing since boot."""
    listed = [gpu for gpu in state["gpu"] if gpu["health"] != "missing"]
    return [{**gpu, "index": index} for index, gpu in enumerate(listed)]


def handle_sentence(gpu: dict) -> str:
    """Return what the tool prints for a GPU that it can list but not reach."""
    return (
        f"Unable to determine the device handle for GPU{gpu['index']}: "
        f"0000:{gpu['bus']}:00.0: Unknown Error"
    )


def render_list(state: dict) -> str:
    """Return `nvidia-smi -L`."""
    lines = [
        handle_sentence(gpu)
        if gpu["health"] == "lost"
        else f"GPU {gpu['index']}: {gpu['name']} (UUID: {gpu['uuid']})"
        for gpu in present_gpus(state)
    ]
    return "\n".join(lines) + "\n"


def lost_gpus(state: dict) -> list[dict]:
    """Return the listed GPUs that cannot be reached."""
    return [gpu for gpu in present_gpus(state) if gpu["health"] == "lost"]


def _fixed(value: object) -> Cell:
    return lambda gpu, state: value


def _gpu(*path: str) -> Cell:
    def cell(gpu: dict, state: dict) -> object:
        for key in path:
            gpu = gpu[key]
        return gpu

    return cell


def _reason(bit: int) -> Cell:
    return lambda gpu, state: "Active" if gpu["reasons"] & bit else "Not Active"


def _yes(*path: str) -> Cell:
    return lambda gpu, state: "Yes" if _gpu(*path)(gpu, state) else "No"


def _watts(*path: str) -> Cell:
    return lambda gpu, state: f"{float(_gpu(*path)(gpu, state)):.2f}"  # type: ignore[arg-type]


def _field_rows() -> list[tuple[str, str, Cell]]:
    """Return (names with aliases, unit or "-", cell) for every field that is offered."""
    rows: list[tuple[str, str, Cell]] = [
        ("index", "-", _gpu("index")),
        ("uuid gpu_uuid", "-", _gpu("uuid")),
        ("serial gpu_serial", "-", _gpu("serial")),
        ("name gpu_name", "-", _gpu("name")),
        ("count", "-", lambda gpu, state: len(present_gpus(state))),
        ("timestamp", "-", lambda gpu, state: _slashed_time(state["at"])),
        ("pci.bus_id gpu_bus_id", "-", lambda gpu, state: f"00000000:{gpu['bus']}:00.0"),
        ("pci.domain", "-", _fixed("0x0000")),
        ("pci.bus", "-", lambda gpu, state: f"0x{gpu['bus']}"),
        ("pci.device", "-", _fixed("0x00")),
        ("pci.device_id", "-", _fixed("0x233010DE")),
        ("pcie.link.gen.current pcie.link.gen.gpucurrent", "-", _gpu("pcie", "gen")),
        ("pcie.link.gen.max", "-", _fixed(5)),
        ("pcie.link.width.current", "-", _gpu("pcie", "width")),
        ("pcie.link.width.max", "-", _fixed(16)),
        ("driver_version", "-", lambda gpu, state: state["driver"]["version"]),
        ("vbios_version", "-", _gpu("vbios")),
        ("inforom.img inforom.image", "-", _gpu("inforom")),
        ("inforom.ecc", "-", _fixed("7.16")),
        ("persistence_mode", "-", _gpu("persistence")),
        ("compute_mode", "-", _fixed("Default")),
        ("compute_cap", "-", _fixed("9.0")),
        ("mig.mode.current", "-", _gpu("mig")),
        ("mig.mode.pending", "-", _gpu("mig")),
        ("pstate", "-", _fixed("P0")),
        ("fan.speed", "%", _fixed("[N/A]")),
        ("display_active", "-", _fixed("Disabled")),
        ("gpu_recovery_action", "-", _gpu("recovery_action")),
        ("fabric.state", "-", _gpu("fabric", "state")),
        ("fabric.status", "-", _gpu("fabric", "status")),
        ("ecc.mode.current", "-", _gpu("ecc", "mode")),
        ("ecc.mode.pending", "-", _gpu("ecc", "mode")),
    ]
    return rows + _load_rows() + _reason_rows() + _error_rows() + _hidden_rows()


def _hidden_rows() -> list[tuple[str, str, Cell]]:
    """Return what other forms of the tool print and `--query-gpu` does not offer: names with a `_`."""
    return [
        ("_minor", "-", _gpu("minor")),
        ("_cuda", "-", lambda gpu, state: state["driver"]["cuda"]),
        ("_gsp", "-", lambda gpu, state: state["driver"]["gsp_firmware"]),
        ("_down", "-", lambda gpu, state: ",".join(map(str, gpu["nvlink"]["down"])) or "-"),
        ("_link_errors", "-", _gpu("nvlink", "errors")),
        ("_replays", "-", _gpu("pcie", "replays")),
    ]


def _slashed_time(at: str) -> str:
    return f"{at[:10].replace('-', '/')} {at[11:19]}.000"


def _free_mib(gpu: dict, state: dict) -> int:
    memory = gpu["memory"]
    return memory["total_mib"] - memory["reserved_mib"] - memory["used_mib"]


def _load_rows() -> list[tuple[str, str, Cell]]:
    clocks = {"gr graphics": "sm", "sm": "sm", "mem memory": "mem"}
    rows: list[tuple[str, str, Cell]] = [
        ("memory.total", "MiB", _gpu("memory", "total_mib")),
        ("memory.reserved", "MiB", _gpu("memory", "reserved_mib")),
        ("memory.used", "MiB", _gpu("memory", "used_mib")),
        ("memory.free", "MiB", _free_mib),
        ("utilization.gpu", "%", _gpu("utilization", "gpu")),
        ("utilization.memory", "%", _gpu("utilization", "memory")),
        ("temperature.gpu", "-", _gpu("temperature", "gpu")),
        ("temperature.memory", "-", _gpu("temperature", "memory")),
        ("power.draw power.draw.average power.draw.instant", "W", _watts("power", "draw_w")),
        ("power.limit enforced.power.limit", "W", _watts("power", "limit_w")),
        ("power.default_limit power.max_limit", "W", _fixed("700.00")),
        ("power.min_limit", "W", _fixed("200.00")),
        ("clocks.video clocks.current.video", "MHz", _gpu("clock", "sm")),
    ]
    for names, domain in clocks.items():
        for name in names.split():
            current = f"clocks.{name} clocks.current.{name}"
            rows.append((current, "MHz", _gpu("clock", domain)))
            rows.append((f"clocks.max.{name}", "MHz", _gpu("clock", f"max_{domain}")))
            rows.append((f"clocks.applications.{name}", "MHz", _gpu("clock", f"max_{domain}")))
    return rows


def _reason_rows() -> list[tuple[str, str, Cell]]:
    def mask(gpu: dict, state: dict) -> str:
        return f"0x{gpu['reasons']:016x}"

    names = "clocks_event_reasons.{0} clocks_throttle_reasons.{0}"
    rows: list[tuple[str, str, Cell]] = [(names.format("active"), "-", mask)]
    rows += [(names.format(name), "-", _reason(bit)) for name, bit in REASON_BITS.items()]
    return [*rows, (names.format("supported"), "-", _fixed("0x00000000000001FF"))]


def _error_rows() -> list[tuple[str, str, Cell]]:
    rows: list[tuple[str, str, Cell]] = []
    for kind in ("corrected", "uncorrected"):
        for span in ("volatile", "aggregate"):
            stem = f"ecc.errors.{kind}.{span}"
            rows.append((f"{stem}.total {stem}.dram {stem}.device_memory", "-", _gpu("ecc", kind)))
            rows.append((f"{stem}.sram", "-", _fixed(0)))
    for kind in ("correctable", "uncorrectable"):
        rows.append((f"remapped_rows.{kind}", "-", _gpu("remapped", kind)))
    for kind in ("pending", "failure"):
        rows.append((f"remapped_rows.{kind}", "-", _yes("remapped", kind)))
    for name in ("single_bit_ecc.count sbe", "double_bit.count dbe", "pending"):
        rows.append((" ".join(f"retired_pages.{n}" for n in name.split()), "-", _fixed("[N/A]")))
    return rows


FIELDS = _field_rows()
# A card that waits for a reset still answers these; the rest reads as a sentence in brackets.
ANSWERED_BEFORE_RESET = {"index", "uuid", "serial", "name", "pci.bus_id", "driver_version"}
ANSWERED_BEFORE_RESET |= {"memory.total", "memory.used", "count", "timestamp", "vbios_version"}
ANSWERED_BEFORE_RESET |= {"gpu_recovery_action", "_cuda", "_gsp", "_down"}


def render_snapshot(state: dict) -> str:
    """Return smi.tsv: names, units, one line a GPU; the query program selects columns from it."""
    names = [name for field, _unit, _cell in FIELDS for name in field.split()]
    units = [unit for field, unit, _cell in FIELDS for _ in field.split()]
    lines = ["\t".join(names), "\t".join(units)]
    lines += [_snapshot_row(gpu, state) for gpu in present_gpus(state)]
    return "\n".join(lines) + "\n"


def _snapshot_row(gpu: dict, state: dict) -> str:
    if gpu["health"] == "lost":
        return f"{gpu['index']}\t!{handle_sentence(gpu)}"
    if gpu["health"] == "reset_required":
        gpu = {**gpu, "memory": {**gpu["memory"], "used_mib": 0}}
    cells = []
    for field, _unit, cell in FIELDS:
        for name in field.split():
            cells.append(str(_cell_text(name, cell, gpu, state)))
    return "\t".join(cells)


def _cell_text(name: str, cell: Cell, gpu: dict, state: dict) -> object:
    if gpu["health"] == "reset_required" and name not in ANSWERED_BEFORE_RESET:
        return RESET_CELL
    return cell(gpu, state)


def render_topology(state: dict) -> str:
    """Return `nvidia-smi topo -m`; a lost card yields the handle sentence and no matrix."""
    if lost := lost_gpus(state):
        return handle_sentence(lost[0]) + "\n"
    gpus, nics = present_gpus(state), state["nic"]
    head = [f"GPU{gpu['index']}" for gpu in gpus] + [f"NIC{i}" for i in range(len(nics))]
    tail = ["CPU Affinity", "NUMA Affinity", "GPU NUMA ID"]
    # Drivers of this age underline the header even into a pipe.
    lines = ["\t\x1b[4m" + "\t".join(head + tail) + "\x1b[0m"]
    lines += [_gpu_row(gpu, gpus, nics) for gpu in gpus]
    lines += [_nic_row(index, gpus, nics) for index in range(len(nics))]
    names = [f"  NIC{index}: {nic['device']}" for index, nic in enumerate(nics)]
    return "\n".join(lines) + "\n" + LEGEND + "\nNIC Legend:\n\n" + "\n".join(names) + "\n\n"


def _socket(gpu: dict) -> int:
    return gpu["minor"] // 4


def _gpu_row(gpu: dict, gpus: list[dict], nics: list[dict]) -> str:
    cells = [" X " if other is gpu else _gpu_gpu(gpu, other) for other in gpus]
    cells += [_gpu_nic(gpu, nic) for nic in nics]
    socket = _socket(gpu)
    return "\t".join([f"GPU{gpu['index']}", *cells, CPU_RANGES[socket], str(socket), "", "N/A"])


def _gpu_gpu(gpu: dict, other: dict) -> str:
    """Return the path of two cards: as many links as the poorer one has to the switches."""
    links = NVLINKS - max(len(card["nvlink"]["down"]) for card in (gpu, other))
    if links:
        return f"NV{links}"
    return "NODE" if _socket(gpu) == _socket(other) else "SYS"


def _nic_row(index: int, gpus: list[dict], nics: list[dict]) -> str:
    nic = nics[index]
    cells = [_gpu_nic(gpu, nic) for gpu in gpus]
    cells += [
        " X " if other is nic else "NODE" if other["socket"] == nic["socket"] else "SYS"
        for other in nics
    ]
    return "\t".join([f"NIC{index}", *cells, "", "", "", ""])


def _gpu_nic(gpu: dict, nic: dict) -> str:
    if gpu["minor"] == nic["pix_gpu"]:
        return "PIX"
    return "NODE" if _socket(gpu) == nic["socket"] else "SYS"


def render_mismatch(state: dict) -> str:
    """Return what every form of the tool says while its library is not the module's; empty when it is."""
    driver = state["driver"]
    if driver["library"] == driver["version"]:
        return ""
    version = ".".join(driver["library"].split(".")[:2])
    return (
        "Failed to initialize NVML: Driver/library version mismatch\n"
        f"NVML library version: {version}\n"
    )
