"""All checks of a node's acceptance, in the order of the page, with the word of each."""

from __future__ import annotations

from collections.abc import Callable

from fleet.rules import acceptance_cards, acceptance_host
from fleet.rules.acceptance import Check, NodeSeen, Verdict, conclude
from fleet.rules.message import say

# name -> its word for people and what makes it
CHECKS: dict[str, tuple[str, Callable[[NodeSeen], Check]]] = {
    "cards": (say("Cards"), acceptance_cards.cards),
    "nvlink": (say("NVLink paths"), acceptance_cards.nvlink),
    "paths": (say("NUMA and PCIe paths"), acceptance_cards.paths),
    "xid": (say("Xid and SXid"), acceptance_cards.xid),
    "ecc": (say("Uncorrected ECC"), acceptance_cards.ecc),
    "remap": (say("Row remap"), acceptance_cards.remap),
    "throttle": (say("Throttling"), acceptance_cards.throttle),
    "nics": (say("NIC ports"), acceptance_cards.nics),
    "allreduce": (say("all_reduce bus bandwidth"), acceptance_host.allreduce),
    "shm": (say("Shared memory"), acceptance_host.shm),
    "memlock": (say("Locked memory"), acceptance_host.memlock),
    "disk_space": (say("Model disk"), acceptance_host.disk_space),
    "disk_read": (say("Model disk, sequential read"), acceptance_host.disk_read),
    "clock": (say("Clock offset"), acceptance_host.clock),
    "image": (say("Serving image"), acceptance_host.image),
    "platform": (say("Driver and firmware"), acceptance_host.platform),
    "gold": (say("Rest of the golden profile"), acceptance_host.everything_else),
}


def judge(seen: NodeSeen) -> Verdict:
    """Return the verdict of a node with every check, in the order of the page."""
    return conclude([check(seen) for _word, check in CHECKS.values()])
