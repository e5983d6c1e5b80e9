"""Entry point: `python -I -S __main__.py CONTAINER_DIR` runs the monitor, which runs the engine.

The package is found beside this file, so that a copy anywhere works.
"""

import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
# Appended, so that a neighbour's file can never shadow the standard library.
sys.path.append(os.path.dirname(HERE))


def main(argv: list[str]) -> int:
    """Run the monitor, or with `--inner UP DOWN` the engine itself."""
    from importlib import import_module

    package = os.path.basename(HERE)
    if len(argv) == 4 and argv[1] == "--inner":
        # asyncio would pull in ssl, which costs 2.5 MB in each engine.
        sys.modules["ssl"] = None  # type: ignore[assignment]
        run = import_module(f"{package}.run")
        return run.main(argv[0], up=int(argv[2]), down=int(argv[3]))
    if len(argv) == 1:
        return import_module(f"{package}.monitor").main(argv[0])
    sys.stderr.write("usage: __main__.py CONTAINER_DIR\n")
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
