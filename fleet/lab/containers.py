"""A node's containers as the lab's command line sees them: read from their directories.

Starting and stopping them is docker's stub; here they are found, lost in a power cut, removed.
"""

import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from . import procs
from .place import LabError
from .state import replace_text, time_text

EXIT_AFTER_REBOOT = 255


@dataclass(frozen=True)
class Container:
    """One container directory: what was asked for and what became of it."""

    directory: Path
    config: dict
    state: dict

    @property
    def is_running(self) -> bool:
        return self.state.get("status") == "running" and procs.is_alive(
            self.state.get("pid") or 0, self.state.get("start_ticks") or 0
        )

    @property
    def unit(self) -> str:
        return self.config.get("labels", {}).get("fleet.unit", "")

    @property
    def position(self) -> int:
        text = str(self.config.get("labels", {}).get("fleet.position", "0"))
        return int(text) if text.isdigit() else 0

    def workers(self) -> list[dict]:
        """Return the living rows of workers.json."""
        rows = _read_json(self.directory / "workers.json", [])
        return [row for row in rows if procs.is_alive(row["pid"], row["start_ticks"])]


def all_containers(node_dir: Path) -> Iterator[Container]:
    """Yield every container of the node, whatever its state."""
    for directory in sorted((node_dir / "docker" / "containers").glob("*")):
        config = _read_json(directory / "config.json", None)
        if config is not None:
            yield Container(directory, config, _read_json(directory / "state.json", {}))


def running(node_dir: Path) -> list[Container]:
    """Return the node's running containers."""
    return [container for container in all_containers(node_dir) if container.is_running]


def rank_on_gpu(node_dir: Path, gpu: int) -> dict:
    """Return the workers.json row of the rank on a GPU; LabError when none runs there."""
    rows = [row for container in running(node_dir) for row in container.workers()]
    found = [row for row in rows if row.get("local_rank") == gpu]
    if not found:
        raise LabError(f"{node_dir.name}: no rank runs on GPU {gpu}; launch a unit there first")
    return found[0]


def lose_all(node_dir: Path, now: datetime) -> None:
    """Mark what was running as docker finds it after a power cut: exited, code 255."""
    for container in all_containers(node_dir):
        if container.state.get("status") not in ("running", "created"):
            continue
        after = {
            **container.state,
            "status": "exited",
            "exit_code": EXIT_AFTER_REBOOT,
            "finished_at": time_text(now),
        }
        replace_text(container.directory / "state.json", json.dumps(after))


def remove_all(node_dir: Path) -> None:
    """Remove every container's directory; nothing of them may run any more."""
    for container in list(all_containers(node_dir)):
        shutil.rmtree(container.directory, ignore_errors=True)
    shutil.rmtree(node_dir / "docker" / "names", ignore_errors=True)


def _read_json(path: Path, default):
    try:
        return json.loads(path.read_text())
    except (OSError, ValueError):
        return default
