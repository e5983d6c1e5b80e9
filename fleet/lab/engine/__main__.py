"""Entry point: `python -I -S __main__.py CONTAINER_DIR` runs the monitor, which runs the engine.

The package is found beside this file, so that a copy anywhere works.
"""

import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
# Appended, so that a neighbour's file can never shadow the standard library.
sys.path.append(os.path.dirname(HERE))


def main(argv: list[str]) -> int:
    """Run the monitor, which forks the engine."""
    from importlib import import_module

    if len(argv) != 1:
        sys.stderr.write("usage: __main__.py CONTAINER_DIR\n")
        return 2
    # The engine's asyncio would pull in ssl, which costs 2.5 MB in each.
    sys.modules["ssl"] = None  # type: ignore[assignment]
    return import_module(f"{os.path.basename(HERE)}.monitor").main(argv[0])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
