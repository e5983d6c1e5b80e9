"""T1: the inventory of 48 nodes, from the click to stored facts, against ansible-playbook on the same nodes.

The peer runs exactly the commands of the probe, a task for each section, and stores nothing: the comparison
favours it.
"""

import os
import sys
import time
from typing import Any

from tests.bench.ansible import Ansible
from tests.bench.ground import Ground
from tests.bench.targets import Outcome, Seconds, interleave, target
from tests.waiting import wait_until

NODES = 48
NEED = 20.0


@target("T1")
def probe_fan_out(ground: Ground) -> Outcome:
    program = ground.peer("ansible-playbook")
    lab = ground.lab(NODES)
    peer = Ansible(program, ground.directory / "ansible", lab, _questions())
    console = Console(ground, lab)
    mine, theirs = interleave(console.probe_all, peer.ask_all)
    ratio = theirs / mine
    return Outcome(
        is_met=ratio >= NEED,
        values={"ratio": ratio, "need": NEED, "ours": Seconds(mine), "peer": Seconds(theirs)},
    )


def _questions() -> list[list[str]]:
    from fleet.rules.gather import plan_probe

    return [list(ask.argv) for ask in plan_probe("{{ model_root }}")]


class Console:
    """Conductor and hands over the lab; the click is the service that the page calls."""

    def __init__(self, ground: Ground, lab: Any):
        from django.core.management import call_command

        ground.database  # noqa: B018
        call_command("seed", inventory=str(lab.directory / "inventory.json"), stdout=sys.stderr)
        env = {"SSH_KEY_FILE": str(lab.key_path), "LAB": "1"}
        celery = [sys.executable, "-m", "celery", "-A", "console.celery"]
        ground.child([*celery, "worker", "-c", "2", "-l", "warning"], **env)
        ground.child(
            [*celery, "beat", "-l", "warning", "-s", str(ground.directory / "beat")], **env
        )
        for _ in range(int(os.environ.get("HANDS", "4"))):
            ground.child(["manage.py", "hands"], **env)
        self.probe_all()  # the first one also waits for the processes to come up

    def probe_all(self) -> float:
        """Ask for a probe of every node; return the time until the last fact is stored."""
        from fleet.models import Node, NodeProbe
        from fleet.services.probes import probe_start
        from fleet.services.trail import Actor

        nodes = list(Node.objects.all())
        started = time.monotonic()
        run = probe_start(nodes=nodes, actor=Actor(name="bench"))
        open_probes = NodeProbe.objects.filter(run=run, settled_at=None)
        wait_until(lambda: not open_probes.exists(), timeout_s=180, what="the probe to be settled")
        took_s = time.monotonic() - started
        bad = NodeProbe.objects.filter(run=run).exclude(verdict="pass")
        if reasons := sorted(set(bad.values_list("summary", flat=True))):
            raise RuntimeError(f"{len(nodes)} nodes expected to pass their probe: {reasons}")
        return took_s
