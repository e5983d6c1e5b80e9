"""Real workers as child processes, and the conductor's part played by the test."""

from pathlib import Path

from fleet.execution import states
from fleet.execution.dispatch import sweep
from fleet.execution.models import Command
from tests.children import Child
from tests.execution.orders import fresh
from tests.waiting import wait_until

ROOT = Path(__file__).resolve().parents[2]


class Hand(Child):
    """A worker process; its work-horse is its child."""

    def horses(self) -> list[int]:
        found = []
        for entry in Path("/proc").glob("[0-9]*/stat"):
            try:
                head, _, rest = entry.read_text().rpartition(") ")
            except OSError:
                continue
            if int(rest.split()[1]) == self.pid and rest[0] not in "ZX":
                found.append(int(head.split()[0]))
        return found


def settle(*commands: Command, within_s: float = 60.0, state: str = "") -> list[Command]:
    """Play the conductor's sweep until all are settled, or in `state`."""

    def all_there() -> bool:
        sweep()
        found = {fresh(command).state for command in commands}
        return found <= ({state} if state else states.TERMINAL)

    wait_until(all_there, timeout_s=within_s, what=f"{[fresh(c).state for c in commands]} settled")
    return [fresh(command) for command in commands]


def is_live(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0] not in "ZX"
    except OSError:
        return False
