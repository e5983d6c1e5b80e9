"""Entry point of the docker stub; kept tiny because this file alone is compiled at each call."""

import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
# Appended, so that a neighbour's file can never shadow the standard library.
sys.path.append(os.path.dirname(HERE))

from docker_stub.cli import main  # noqa: E402

sys.exit(main(sys.argv[1:]))
