"""What a fault is: a row of the table, with its signs. The rows lie in faults.py and faults_*.py."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from .effects import Site

Value = int | float | str
Act = Callable[[Site, dict], None]
BOOT_ID = "root/proc/sys/kernel/random/boot_id"
# A log and a counter tell of the past: clearing a fault does not take back what they say.
KERNEL_VIEWS = ("view/dmesg", "view/dmesg.T", "view/kernel.iso")
COUNTER_VIEWS = tuple(f"view/stats.rail{rail}np0" for rail in range(8))
BOOT_VIEWS = ("view/boot", *KERNEL_VIEWS)


@dataclass(frozen=True)
class Sign:
    """A view (path below the node's directory) and what it must show after the fault."""

    view: str
    pattern: str


@dataclass(frozen=True)
class Fault:
    """One row; `arguments` maps a name to its default value, which also gives its type."""

    name: str
    about: str
    apply: Act
    undo: Act | None = None
    arguments: Mapping[str, Value] = field(default_factory=dict)
    signs: tuple[Sign, ...] = ()
    # Views that may change besides those of the signs; every other view must stay as it is.
    also: tuple[str, ...] = ()
    # Why it cannot be undone, and what would; empty when `undo` does it.
    cannot_undo: str = ""
    # The kinds of host that can have it.
    kinds: tuple[str, ...] = ("node",)
    # False for a fault that is over at once: it leaves no row behind.
    is_lasting: bool = True
    # A cable, a setting or a part: a power cycle does not help. Without it, state.power_cycled must.
    outlives_boot: bool = False
