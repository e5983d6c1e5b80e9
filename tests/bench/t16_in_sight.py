"""T16: how soon a person sees what happened: a weight read back from the proxy, a row of a gate run, an incident.

A real unit of two nodes behind a real proxy, real workers, and a Chromium that has the page open. What a person waits
for has an aim in seconds; the load is printed beside it, and the machine must be quiet for the figures to count.
"""

from __future__ import annotations

import statistics
import sys
import time
from typing import Any

from tests.bench.ground import Ground
from tests.bench.targets import Outcome, Seconds, Skip, target
from tests.waiting import wait_until

WEIGHT_S, GATE_ROW_S, INCIDENT_S = 1.0, 0.3, 2.0
REPS = 5
# Notes when each element that matches came into the page, in seconds since the epoch.
_WATCH = """
([selector]) => {
  window.__seen = [];
  const known = new Set();
  const look = () => { for (const one of document.querySelectorAll(selector)) {
    const key = `${one.id}|${one.dataset.what ?? one.textContent}`;
    if (!known.has(key)) { known.add(key); window.__seen.push([key, Date.now() / 1000]); } } };
  look(); window.__seen = [];
  new MutationObserver(look).observe(document.body, {childList: true, subtree: true});
}
"""


@target("T16")
def in_sight(ground: Ground) -> Outcome:
    from tests.browser.web import chromium_path, open_browser, sign_in, web_server

    if chromium_path() is None:
        raise Skip("no chromium; run `make install` as root")
    scene = _Scene(ground)
    weights = [scene.weight(value) for value in (40, 100) * (REPS // 2 + 1)][:REPS]
    with web_server(ground.directory) as base, open_browser() as browser:
        page = browser.new_context(viewport={"width": 1440, "height": 900}).new_page()
        sign_in(page, base, "ana")
        rows = [delay for n in range(REPS) for delay in scene.gate_rows(page, base, n)]
        incident = scene.incident(
            page, base
        )  # a launch gets one case, whatever happens to it again
    median = {
        "weight": statistics.median(weights),
        "gate_row": statistics.median(rows),
        "incident": incident,
    }
    aims = {"weight": WEIGHT_S, "gate_row": GATE_ROW_S, "incident": INCIDENT_S}
    return Outcome(
        is_met=all(median[name] <= aim for name, aim in aims.items()),
        values={
            **{name: Seconds(value) for name, value in median.items()},
            **{f"{name}_aim": Seconds(value) for name, value in aims.items()},
            "gate_rows": len(rows),
        },
    )


class _Scene:
    """A unit that serves through the lab's proxy, and the processes of a console."""

    def __init__(self, ground: Ground):
        from django.conf import settings
        from django.core.management import call_command

        # As the web process will check; the tests' own hasher is a quick one that it does not know.
        settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.Argon2PasswordHasher"]
        lab = ground.lab(2)
        ground.database  # noqa: B018
        call_command("seed", inventory=str(lab.directory / "inventory.json"), stdout=sys.stderr)
        env = {"SSH_KEY_FILE": str(lab.key_path), "LAB": "1"}
        celery = [sys.executable, "-m", "celery", "-A", "console.celery"]
        ground.child([*celery, "worker", "-c", "2", "-l", "warning"], **env)
        schedule = str(ground.directory / "beat-t16")
        ground.child([*celery, "beat", "-l", "warning", "-s", schedule], **env)
        for words in (["hands"], ["hands"], ["watch"]):
            ground.child(["manage.py", *words], **env)
        self.launch = self._serving(lab)

    def _serving(self, lab: Any) -> Any:
        from fleet.models import Node, Replica
        from fleet.services.probes import probe_start
        from releases.models import Gateway
        from releases.selectors.releases import release_to_launch
        from releases.services.gateway_seed import gateway_seed
        from releases.services.launches import launch_create

        actor = _actor()
        if not Gateway.objects.exists():
            gateway_seed(lab.gateway_row(), actor=actor)
        probe_start(nodes=list(Node.objects.all()), actor=actor)
        waiting = Node.objects.exclude(state="ready", host__reach="ok")
        wait_until(lambda: not waiting.exists(), timeout_s=120, what="the nodes to be ready")
        unit = Replica.objects.get(pool__slug="glm52", name="glm52-r1")
        launch = launch_create(replica=unit, release=release_to_launch(unit.pool), actor=actor)

        def serves() -> bool:
            unit.refresh_from_db()
            return unit.shown_state == "serving"

        wait_until(serves, timeout_s=300, what="the unit to serve")
        return launch

    def weight(self, value: int) -> float:
        """Want another weight; return the seconds until the proxy was read back with it."""
        from releases.models import Endpoint
        from releases.services.endpoints import endpoint_agrees, endpoint_set

        begun = time.monotonic()
        endpoint_set(launch=self.launch, weight=value, actor=_actor(), reason="bench")
        wait_until(
            lambda: endpoint_agrees(Endpoint.objects.get(launch=self.launch)),
            timeout_s=60,
            what="the read-back",
        )
        return time.monotonic() - begun

    def gate_rows(self, page: Any, base: str, number: int) -> list[float]:
        """Open a gate run and watch it; return for each row the seconds from its commit until it was drawn."""
        from releases.models import GateRun
        from releases.services.gates import LIVE, gate_start

        run = gate_start(launch=self._fresh(), purpose=f"bench-{number}", actor=_actor())
        page.goto(f"{base}/gates/{run.public_id}/")
        page.evaluate(_WATCH, [".gate-rows .st[data-state=passed]"])
        over = GateRun.objects.filter(pk=run.pk).exclude(state__in=LIVE)
        wait_until(over.exists, timeout_s=120, what="the gate run to end")
        page.wait_for_timeout(1500)
        drawn = {_check_and_subject(key): at for key, at in page.evaluate("window.__seen")}
        rows = {(row.check_name, row.subject): row.at.timestamp() for row in run.rows.all()}
        return [drawn[key] - at for key, at in rows.items() if key in drawn]

    def incident(self, page: Any, base: str) -> float:
        """Let the unit be judged to hang; return the seconds until its incident stands on the page."""
        from fleet.models import Replica

        page.goto(f"{base}/incidents/")
        page.evaluate(_WATCH, ["a[href^='/incidents/INC-']"])
        launch = self._fresh()
        begun = time.time()
        self._judge(launch, "hung")
        wait_until(
            lambda: page.evaluate("window.__seen.length") > 0, timeout_s=60, what="the incident"
        )
        Replica.objects.filter(pk=launch.replica_id).update(doubt="", turned_at=None)
        return page.evaluate("window.__seen[0][1]") - begun

    def _fresh(self) -> Any:
        self.launch.refresh_from_db()
        return self.launch

    def _judge(self, launch: Any, doubt: str) -> None:
        from django.db import transaction

        from fleet.services.replicas import replica_doubt
        from releases.services.launch_moves import troubled_tell

        with transaction.atomic():
            replica_doubt(
                replica=launch.replica, doubt=doubt, explanation="It hangs.", actor=_actor()
            )
            troubled_tell(launch)


def _check_and_subject(key: str) -> tuple[str, str]:
    """Tell the row of a mark by its id (rs-CHECK-NUMBER) and what it marks."""
    mark, _, subject = key.partition("|")
    return mark.split("-")[1], subject


def _actor() -> Any:
    from fleet.services.trail import Actor

    return Actor(name="bench")
