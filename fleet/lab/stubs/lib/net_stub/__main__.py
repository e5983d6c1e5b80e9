"""Run one network tool as the node would: `__main__.py TOOL ARGV`."""

import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
# Appended, so that a neighbour's file can never shadow the standard library.
sys.path.append(os.path.dirname(HERE))

from net_stub import collective, ib_write_bw, reach, wires  # noqa: E402

TOOLS = {
    "ping": reach.ping,
    "ip": reach.ip,
    "ib_write_bw": ib_write_bw.main,
    "mpirun": collective.main,
}

try:
    sys.exit(TOOLS[sys.argv[1]](sys.argv[2:]))
except wires.UnknownForm as error:
    wires.note_unknown(sys.argv[1:])
    sys.stderr.write(f"{sys.argv[1]}: {error}\n")
    sys.exit(1)
except (KeyboardInterrupt, BrokenPipeError):
    sys.exit(130)
