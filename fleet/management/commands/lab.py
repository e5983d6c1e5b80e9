"""`manage.py lab`: the rehearsal lab from the command line (LAB.md 7.1).

Exit codes: 0 done, 1 failed, 2 wrong use, 3 the lab does not run. stdout is data.
"""

import json
import sys
from argparse import ArgumentParser
from pathlib import Path

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from fleet.lab.node import Lab, NotRunning
from fleet.lab.place import LabError, lab_directory
from fleet.lab.words import fault_line, gateway_words, node_line, read_pairs

FAILED, WRONG_USE, NOT_RUNNING = 1, 2, 3


class Command(BaseCommand):
    help = "Rehearsed GPU nodes on this machine: up, down, status, fault, clear, state, unknown."
    requires_system_checks: list[str] = []
    requires_migrations_checks = False

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--dir", type=Path, help="the lab's directory (default: STATE_DIR/lab)")
        verbs = parser.add_subparsers(dest="verb", required=True)
        up = _verb(verbs, "up", "start the lab; does nothing when it runs")
        up.add_argument("--nodes", type=int, default=48, choices=range(1, 49), metavar="1..48")
        up.add_argument("--seed", type=int, default=1)
        up.add_argument("--block", help="first three numbers of the addresses, as 127.0.13")
        up.add_argument("--scale", default="", help="launch=60,watch=10")
        up.add_argument("--weights", choices=["seeded", "none"], default="seeded")
        up.add_argument("--owner", type=int, default=0, help="end with this process (a pid)")
        down = _verb(verbs, "down", "end everything the lab started")
        down.add_argument("--keep", action="store_true", help="keep the directory for a later up")
        _verb(verbs, "status", "one line a node")
        fault = _verb(verbs, "fault", "put a fault on a node, unit, leaf:N or all; none: list them")
        fault.add_argument("target", nargs="?")
        fault.add_argument("fault", nargs="?")
        fault.add_argument("pairs", nargs="*", metavar="k=v")
        clear = _verb(verbs, "clear", "undo the faults of a node, unit, leaf:N or all")
        clear.add_argument("target")
        clear.add_argument("fault", nargs="?", help="a fault's name or id; none: every fault")
        state = _verb(verbs, "state", "a node's state, or one part of it")
        state.add_argument("target")
        state.add_argument("path", nargs="?", default="", help="gpu.3.health")
        _verb(verbs, "unknown", "calls that no stub knew")

    def handle(self, *args: object, **options) -> None:
        lab = Lab(options["dir"] or lab_directory(Path(settings.STATE_DIR)))
        try:
            answer, text = getattr(self, options["verb"])(lab, options)
        except NotRunning as error:
            raise CommandError(str(error), returncode=NOT_RUNNING) from error
        except ValueError as error:
            raise CommandError(str(error), returncode=WRONG_USE) from error
        except LabError as error:
            raise CommandError(str(error), returncode=FAILED) from error
        self.stdout.write(json.dumps(answer) if options["as_json"] else text)
        if options["verb"] == "clear" and not all(row["is_cleared"] for row in answer["cleared"]):
            sys.exit(FAILED)

    def up(self, lab: Lab, options: dict) -> tuple[dict, str]:
        lab.up(
            options["nodes"],
            block=options["block"],
            seed=options["seed"],
            scales={key: float(value) for key, value in read_pairs(options["scale"].split(","))},
            weights=options["weights"],
            owner_pid=options["owner"],
        )
        record = lab.record()
        return (
            {"directory": str(lab.directory), **record, "key": str(lab.key_path)},
            f"{record['nodes']} nodes on {record['block']}.0/24, operator key {lab.key_path}",
        )

    def down(self, lab: Lab, options: dict) -> tuple[dict, str]:
        if not lab.record():
            raise NotRunning(f"no lab in {lab.directory}")
        lab.down(keep=options["keep"])
        return {"is_running": False, "kept": options["keep"]}, "the lab is down"

    def status(self, lab: Lab, options: dict) -> tuple[dict, str]:
        if not lab.is_running():
            raise NotRunning(f"the lab in {lab.directory} is not running; start it with lab up")
        status = lab.status()
        lines = [node_line(row) for row in status["nodes"]]
        lines.append(
            f"{len(lines)} nodes, launch x{status['scales']['launch']:g}, "
            f"watch x{status['scales']['watch']:g}, unknown calls: {status['unknown']}; "
            + gateway_words(status["gateway"])
            + "; store {daemon} at {address} {port}".format_map(status["store"])
        )
        return status, "\n".join(lines)

    def fault(self, lab: Lab, options: dict) -> tuple[dict, str]:
        from fleet.lab.faults import TABLE

        if not options["fault"]:
            rows = [{"name": f.name, "about": f.about, "args": dict(f.arguments)} for f in TABLE]
            return {"faults": rows}, "\n".join(map(fault_line, rows))
        pairs = dict(read_pairs(options["pairs"]))
        fault_id = lab.fault(options["target"], options["fault"], **pairs)
        return {"id": fault_id, "name": options["fault"]}, fault_id

    def clear(self, lab: Lab, options: dict) -> tuple[dict, str]:
        told = lab.clear(options["target"], options["fault"])
        lines = [
            f"{row['node']} {row['id']} {row['name']}: "
            + ("cleared" if row["is_cleared"] else f"stays; {row['explanation']}")
            for row in told
        ]
        return {"cleared": told}, "\n".join(lines) or "no such fault there"

    def state(self, lab: Lab, options: dict) -> tuple[object, str]:
        found: object = lab.state(options["target"])
        for step in filter(None, options["path"].split(".")):
            try:
                found = found[int(step)] if isinstance(found, list) else found[step]  # type: ignore[index]
            except (KeyError, IndexError, TypeError, ValueError) as error:
                raise ValueError(
                    f"no {step} in {options['path']} of {options['target']}"
                ) from error
        return found, json.dumps(found, indent=1)

    def unknown(self, lab: Lab, options: dict) -> tuple[dict, str]:
        calls = lab.unknown()
        return {"unknown": calls}, "\n".join(calls) or "none"


def _verb(verbs, name: str, about: str) -> ArgumentParser:
    parser = verbs.add_parser(name, help=about)
    parser.add_argument("--json", action="store_true", dest="as_json")
    return parser
