"""A supervised tree of three shells, for tests: `tiny_tree.py TOKEN MARKER_FOLDER [DYING_AFTER]`."""

import sys
from pathlib import Path

from console.embedded.supervise import ChildEnded, Service, StopAsked, Supervisor

_STAY = "trap 'echo {name} >> {folder}/stopped; exit 0' TERM; echo {name} is up; while :; do sleep 0.1; done"


def main() -> int:
    token, folder = sys.argv[1], Path(sys.argv[2])
    supervisor = Supervisor(token)
    try:
        for wave, name in enumerate(("base", "middle", "top")):
            script = _STAY.format(name=name, folder=folder)
            supervisor.start(Service(name, ["sh", "-c", script], wave=wave, ready_text="is up"))
            supervisor.wait_ready(name)
        if len(sys.argv) > 3:
            supervisor.start(Service("mortal", ["sh", "-c", f"sleep {sys.argv[3]}; exit 7"]))
        print("ready", flush=True)
        supervisor.watch()
    except StopAsked:
        return 0
    except ChildEnded as problem:
        return problem.code
    finally:
        supervisor.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
