"""Owns the rehearsal lab while the console runs: up, wait, down. Its directory stays for the next start."""

import signal
import sys
import threading
from pathlib import Path

from console.embedded.processes import LAB_READY_TEXT
from fleet.lab.node import Lab
from fleet.lab.place import lab_directory


def main() -> None:
    """Bring the lab up in the folder and size of the arguments, and down when asked to end."""
    state_dir, nodes = Path(sys.argv[1]), int(sys.argv[2])
    asked = threading.Event()
    # Handlers, not a blocked mask: a mask is inherited, and the lab's keeper must hear its own TERM.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: asked.set())
    lab = Lab(lab_directory(state_dir))
    lab.down(keep=True)  # what a killed owner left
    lab.up(nodes=nodes)
    print(f"{LAB_READY_TEXT}, {nodes} nodes", flush=True)
    asked.wait()
    lab.down(keep=True)


if __name__ == "__main__":
    main()
