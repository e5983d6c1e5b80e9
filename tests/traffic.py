"""Units behind a gateway for tests without a proxy: rows, and answers as a proxy words them."""

from __future__ import annotations

from datetime import timedelta

from django.utils import timezone

from fleet.execution.models import Scrape, Subject
from fleet.models import Pool
from releases.models import Endpoint, GateRun, Gateway, Launch, LaunchPosition, Release
from releases.rules.gates import CHECKS
from releases.selectors.gate_proof import is_gated
from releases.selectors.gateways import gateway_routes
from releases.services.endpoints import endpoint_open, endpoint_set
from releases.services.gateway_effects import files_of, scrape_key, watch_gateway
from releases.services.gateways import gateway_advance
from releases.services.launch_effects import purpose_of
from releases.services.launches import launch_create
from tests.browser.scene import CONTENT
from tests.factories import make_actor, make_host, make_node, make_pool, make_replica
from tests.proxy_answers import answer_text


def make_gateway(name: str = "gw", *, is_live: bool = True) -> Gateway:
    """A gateway whose proxy runs and knows the pools of now, unless told otherwise."""
    gateway = Gateway.objects.create(
        name=name, host=make_host("gw-1"), port=8080, admin_port=9999, directory="gateway"
    )
    if is_live:
        gateway.subject = Subject.objects.create(
            host=gateway.host, name=f"gateway-{name}", state="live", epoch=1
        )
        gateway.frame_sha256 = files_of(gateway, gateway_routes(gateway)).frame_sha256
        gateway.save()
        watch_gateway(gateway)
    return gateway


def make_release(number: int = 1, pool: Pool | None = None, **fields) -> Release:
    pool = pool or Pool.objects.filter(slug="glm52").first() or make_pool()
    defaults = {"title": f"release {number}", "state": "reviewed", "content": CONTENT}
    return Release.objects.create(
        pool=pool, content_sha256=f"{number:064d}", **{**defaults, **fields}
    )


def make_ready(number: int, release: Release, **fields) -> Launch:
    """A unit of two nodes that is ready, its engine answering; it is behind no gateway yet."""
    nodes = [make_node(f"h100-{2 * number - 1 + i:03d}") for i in range(2)]
    replica = make_replica(f"glm52-r{number}", pool=release.pool, nodes=nodes)
    launch = launch_create(replica=replica, release=release, actor=make_actor(), **fields)
    for place in launch.positions.select_related("node__host"):
        subject = Subject.objects.create(
            host=place.node.host, name=f"{replica}-n{place.position}", state="live"
        )
        LaunchPosition.objects.filter(pk=place.pk).update(subject=subject, phase="ready")
    long_ago = timezone.now() - timedelta(hours=1)
    Launch.objects.filter(pk=launch.pk).update(state="ready", ready_at=long_ago, state_at=long_ago)
    type(replica).objects.filter(pk=replica.pk).update(state="ready", state_at=long_ago)
    engine_says(launch, running=0)
    Scrape.objects.create(
        host=nodes[0].host, key=purpose_of(launch, "golden"), kind="golden", port=8000,
        tried_at=timezone.now(), ok_at=timezone.now(),
    )  # fmt: skip
    launch.refresh_from_db()
    return launch


def pass_gate(launch: Launch) -> None:
    """Let a run over every check have passed a launch."""
    GateRun.objects.create(
        launch=launch, purpose=f"test:{launch.public_id}", checks=list(CHECKS), state="passed"
    )


def give(launch: Launch, weight: int = 100) -> Endpoint:
    """Put a launch behind the gateway with this weight; its gate passed."""
    endpoint_open(launch=launch, actor=make_actor())
    if not is_gated(launch):
        pass_gate(launch)
    return endpoint_set(launch=launch, weight=weight, actor=make_actor())


def engine_says(launch: Launch, *, running: int) -> None:
    """The engine's own metrics, read just now."""
    host = launch.positions.select_related("node__host").first().node.host
    values = {"vllm:num_requests_running": running, "vllm:num_requests_waiting": 0}
    Scrape.objects.update_or_create(
        key=purpose_of(launch, "metrics"),
        defaults={
            "host": host, "kind": "metrics", "port": 8000, "values": values,
            "ok_at": timezone.now(),
        },
    )  # fmt: skip


def proxy_says(gateway: Gateway, **units: dict) -> None:
    """The proxy is read back: as wanted, but for what is told of units, as `r1={"weight": 7}`. Then a tick."""
    text = answer_text(gateway_routes(gateway), units)
    Scrape.objects.filter(key=scrape_key(gateway)).update(
        answer=text, ok_at=timezone.now(), tried_at=timezone.now(), latency_ms=0.1
    )
    gateway_advance(gateway.pk)
    gateway.refresh_from_db()


def endpoint(launch: Launch) -> Endpoint:
    return Endpoint.objects.get(launch=launch)
