"""Owns the rehearsal lab while the console runs: up, wait for a signal, down. Its directory stays
for the next start.
"""

import signal
import sys
from pathlib import Path

from console.embedded.processes import LAB_READY_TEXT
from fleet.lab.node import Lab
from fleet.lab.place import lab_directory


def main() -> None:
    state_dir, nodes = Path(sys.argv[1]), int(sys.argv[2])
    # Blocked from the start and waited for at the end, so that a signal during `up` is neither lost
    # nor early.
    asked = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP}
    signal.pthread_sigmask(signal.SIG_BLOCK, asked)
    lab = Lab(lab_directory(state_dir))
    lab.down(keep=True)  # what a killed owner left
    lab.up(nodes=nodes)
    print(f"{LAB_READY_TEXT}, {nodes} nodes", flush=True)
    signal.sigwait(asked)
    lab.down(keep=True)


if __name__ == "__main__":
    main()
