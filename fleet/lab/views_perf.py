"""How fast a node is when it is measured: rates that follow from its state (LAB.md 3.7, 5.2). Invented values."""

from .hardware import NVLINKS

# One node of eight cards, large messages, GB/s; near public reports of 430 to 480.
ALLREDUCE_GBS = 474.0
# A card with one link of eighteen down slows the ring to this share; without any it goes over PCIe.
ONE_LINK_DOWN, NO_LINK = 0.94, 0.05
_IDLE, _CLOCK_SETTING = 0x1, 0x2


def render_rates(state: dict) -> str:
    """Return `all_reduce GB/s, read of the model disk GB/s, fabric state` on one line."""
    ready = all(gpu["fabric"]["state"] == "Completed" for gpu in state["gpu"])
    return f"{_allreduce(state):.3f} {_disk_read(state):.3f} {'ready' if ready else 'starting'}\n"


def _allreduce(state: dict) -> float:
    """The slowest card sets the pace of a collective."""
    return ALLREDUCE_GBS * min(_links(gpu) * _clock(gpu) for gpu in state["gpu"])


def _links(gpu: dict) -> float:
    down = len(gpu["nvlink"]["down"])
    return NO_LINK if down >= NVLINKS else ONE_LINK_DOWN**down


def _clock(gpu: dict) -> float:
    """An idle card speeds up when it is asked; one that is held back does not."""
    is_held = bool(gpu["reasons"] & ~(_IDLE | _CLOCK_SETTING))
    return gpu["clock"]["sm"] / gpu["clock"]["max_sm"] if is_held else 1.0


def _disk_read(state: dict) -> float:
    """A stripe over the model disks reads as fast as its slowest member lets it."""
    members = [disk["read_gbs"] for disk in state["disks"] if disk["is_model"]]
    return min(members) * len(members) if members else 0.0
