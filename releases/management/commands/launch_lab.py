"""`manage.py launch_lab POOLS|none|all`: bring the lab's units up through the console's own services.

Probes the nodes that were not probed since they booted, waits until what an earlier run left is judged,
and launches every wanted unit that does not answer. Not in charge of repairing: a unit that fails is shown.
"""

import time
from datetime import datetime

from django.core.management.base import BaseCommand, CommandError
from django.utils import timezone

from fleet.execution.models import Scrape
from fleet.models import Node, NodeProbe, Pool, Replica
from fleet.rules.message import said
from fleet.services.probes import probe_start
from fleet.services.trail import command_actor
from releases.models import Launch, Release
from releases.rules.release import LAUNCHABLE as LAUNCHABLE_RELEASES
from releases.selectors.releases import release_to_launch
from releases.services.launch_effects import purpose_of
from releases.services.launches import LAUNCHABLE, LaunchRefused, launch_create

ACTOR = command_actor("launch_lab")
POLL_S = 0.5


class Command(BaseCommand):
    help = "Launch every unit of the named pools that does not answer."

    def add_arguments(self, parser) -> None:
        parser.add_argument("pools", help="pool slugs with commas, or none, or all")
        parser.add_argument("--wait", type=float, default=180.0, help="seconds for nodes to answer")

    def handle(self, *args, pools: str, wait: float, **options) -> None:
        waiting = {replica.pk: replica for replica in _units(pools)}
        began, deadline = timezone.now(), time.monotonic() + wait
        _probe_nodes(list(waiting.values()))
        refusals: dict[str, str] = {}
        while waiting and time.monotonic() < deadline:
            for pk in list(waiting):
                self._settle(waiting, pk, began, refusals)
            time.sleep(POLL_S if waiting else 0)
        if waiting:
            lines = "; ".join(f"{replica}: {refusals.get(replica.name, 'no answer')}"
                              for replica in waiting.values())  # fmt: skip
            raise CommandError(f"not launched within {wait:.0f} s: {lines}")

    def _settle(self, waiting, pk: int, began: datetime, refusals: dict[str, str]) -> None:
        """Drop a unit from `waiting` when it answers or was launched; note why it was refused."""
        replica = Replica.objects.select_related("pool").get(pk=pk)
        live = replica.launches.filter(state__in=Launch.LIVE).first()
        if live is not None:
            refusals[replica.name] = f"{live.public_id} is {live.state}: {said(live.explanation)}"
            if _answers(live, began):
                self.stdout.write(f"{replica}: {live.public_id} answers")
                del waiting[pk]
        elif replica.state in LAUNCHABLE:
            try:
                launch = _launch(replica)
            except LaunchRefused as error:
                refusals[replica.name] = "; ".join(map(said, error.reasons))
                _probe_nodes([replica])
            else:
                self.stdout.write(f"{replica}: {launch.public_id} launched")
                del waiting[pk]


def _units(pools: str) -> list[Replica]:
    if pools == "none":
        return []
    known = set(Pool.objects.filter(is_spare=False).values_list("slug", flat=True))
    wanted = known if pools == "all" else set(pools.split(","))
    if unknown := wanted - known:
        raise CommandError(
            f"expected pools of {', '.join(sorted(known))}, found {', '.join(sorted(unknown))}"
        )
    # A canary is its rollout's to bring up.
    return list(Replica.objects.filter(pool__slug__in=wanted, is_canary=False))


def _probe_nodes(units: list[Replica]) -> None:
    """Probe the units' nodes that are not ready, unless a probe of them is under way."""
    open_probes = NodeProbe.objects.filter(settled_at=None).values("node")
    members = (
        Node.objects.filter(memberships__replica__in=units, memberships__released_at=None)
        .exclude(state=Node.State.READY)
        .exclude(pk__in=open_probes)
    )
    if nodes := list(members):
        probe_start(nodes=nodes, actor=ACTOR, user=None)


def _answers(launch: Launch, began: datetime) -> bool:
    """A launch of this run, or one that answered its golden prompt since this run began."""
    if launch.created_at >= began:
        return True
    golden = Scrape.objects.filter(key=purpose_of(launch, "golden")).first()
    return bool(golden and golden.ok_at and golden.ok_at >= began)


def _launch(replica: Replica) -> Launch:
    release = _last_release(replica) or release_to_launch(replica.pool)
    if release is None:
        raise LaunchRefused([f"pool {replica.pool.slug} has no sealed release"])
    return launch_create(replica=replica, release=release, actor=ACTOR)


def _last_release(replica: Replica) -> Release | None:
    """Return what the unit served before the lab was switched off: a newer one is for a rollout to bring."""
    last = replica.launches.exclude(ready_at=None).select_related("release").first()
    return last.release if last and last.release.state in LAUNCHABLE_RELEASES else None
