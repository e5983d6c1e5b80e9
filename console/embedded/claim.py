"""One console a state folder: the lock, and the note by which other commands find the running
services.
"""

import fcntl
import json
import os
import time
from pathlib import Path
from typing import IO

from console.embedded import places
from console.embedded.ports import describe_process


class InUse(RuntimeError):
    """Somebody else holds the state folder or the port; exit code 3."""


def claim_state_dir(state_dir: Path) -> IO[str]:
    """Lock the folder until the returned file is closed or this process ends. Raises `InUse`,
    saying by whom.
    """
    places.make_state_dir(state_dir)
    lock = open(state_dir / "up.lock", "a+")  # noqa: SIM115 - held open on purpose
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        lock.seek(0)
        holder = lock.read().strip()
        lock.close()
        by = describe_process(int(holder)) if holder.isdigit() else "an unknown process"
        raise InUse(
            f"STATE_DIR {state_dir} is in use by {by}; stop it or set another STATE_DIR"
        ) from None
    lock.truncate(0)
    lock.write(f"{os.getpid()}\n")
    lock.flush()
    return lock


def write_run_note(state_dir: Path, token: str, env: dict[str, str]) -> None:
    """Write run.json: it holds passwords, so only the owner may read it."""
    note = {"pid": os.getpid(), "started_at": time.time(), "token": token, "env": env}
    places.write_private(state_dir / "run.json", json.dumps(note, indent=1) + "\n")


def take_old_token(state_dir: Path) -> str:
    """Return the mark of a run that was killed before it could clear up, and remove its note."""
    path = state_dir / "run.json"
    try:
        token = json.loads(path.read_text()).get("token", "")
    except (OSError, ValueError, AttributeError):
        token = ""
    path.unlink(missing_ok=True)
    return token if isinstance(token, str) else ""
