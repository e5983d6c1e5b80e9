"""The gateway of the scene: its proxy runs and was read back, somebody changed a weight, and one unit drains."""

from __future__ import annotations

from datetime import timedelta

from django.db import transaction
from django.utils import timezone

from fleet.execution.models import Scrape, Subject
from fleet.models import Replica
from fleet.readings.haproxy import parse_exchange
from fleet.rules.message import say
from releases.models import Drain, Endpoint, Gateway
from releases.rules.gateway import DRAIN
from releases.rules.gateway import differences as find_differences
from releases.selectors.gateways import gateway_routes
from releases.services.gateway_effects import files_of
from releases.services.gateway_seen import ReadBack, reading_store
from tests.proxy_answers import answer_text

DRAINING, CHANGED = "dsv4-r4", "dsv4-r9"


@transaction.atomic
def draw() -> None:
    gateway = Gateway.objects.get()
    _drain(Endpoint.objects.get(launch__replica__name=DRAINING))
    gateway.subject = Subject.objects.create(
        host=gateway.host, name="gateway-edge", state="live", epoch=2, pid=4711,
        started_at=timezone.now() - timedelta(hours=31),
    )  # fmt: skip
    routes = gateway_routes(gateway)
    told = {
        row.launch.replica.name: {"running": 40 + row.pk % 9, "sessions": 20_000 + row.pk * 37}
        for row in gateway.endpoints.select_related("launch__replica")
    }
    told[DRAINING] |= {"running": 9}
    told[CHANGED] |= {"weight": 7, "errors": 12}
    text = answer_text(routes, told)
    # Nothing reads here, and the pictures are not to say so.
    later = timezone.now() + timedelta(minutes=30)
    Endpoint.objects.update(changed_at=timezone.now() - timedelta(hours=1), requests=0)
    reading_store(gateway, ReadBack(parse_exchange(text), later))
    gateway.differences = [one.explain() for one in find_differences(routes, parse_exchange(text))]
    gateway.frame_sha256 = files_of(gateway, routes).frame_sha256
    gateway.save()
    _engines(gateway)


def _drain(endpoint: Endpoint) -> None:
    Endpoint.objects.filter(pk=endpoint.pk).update(mode=DRAIN)
    Replica.objects.filter(pk=endpoint.launch.replica_id).update(state="draining")
    Drain.objects.create(
        launch=endpoint.launch, purpose="scene/1", reason="new fans in gpu011",
        deadline_at=timezone.now() + timedelta(minutes=7),
        explanation=say(
            "Requests that run, by the proxy: %(proxy)s, by the engine: %(engine)s.", proxy=9, engine=9
        ),
    )  # fmt: skip
    other = Endpoint.objects.get(launch__replica__name="dsv4-r5")
    Drain.objects.create(
        launch=other.launch, purpose="scene/2", reason="kernel update", state="cut", cut=2,
        deadline_at=timezone.now() - timedelta(hours=3), ended_at=timezone.now() - timedelta(hours=3),
        explanation=say("The deadline is over; requests cut: %(count)s.", count=2),
    )  # fmt: skip


def _engines(gateway: Gateway) -> None:
    for row in gateway.endpoints.select_related("launch"):
        values = {
            "vllm:num_requests_running": row.seen_running or 0,
            "vllm:num_requests_waiting": 0,
            "vllm:kv_cache_usage_perc": 0.31 + row.pk % 7 / 40,
        }
        Scrape.objects.update_or_create(
            key=f"launch:{row.launch.public_id}/metrics",
            defaults={
                "host": gateway.host, "kind": "metrics", "port": 8000, "values": values,
                "ok_at": timezone.now(),
            },
        )  # fmt: skip
