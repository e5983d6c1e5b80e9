"""Rollouts of the scene: one whose third wave waits for a signature, and one that a trigger halted."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.db import transaction
from django.utils import timezone

from fleet.models import Member, Node, Pool, Replica
from fleet.rules.message import say
from fleet.services.trail import rule_actor, trail_add
from releases.models import Approval, Endpoint, GateRun, Gateway, Launch, Release, Rollout, Wave
from releases.services.approvals import approval_ask, facts_digest
from releases.services.rollout_facts import rollout_facts, wave_facts
from tests import factories

STRATEGY = {"canary_weights": [1, 5, 25], "wave_weights": [10, 100], "observe_s": 1800.0}
QUIET = [
    {
        "name": "golden",
        "state": "quiet",
        "found": say("Units that answer right: %(count)s", count=3),
        "limit": say("%(count)s misses in a row", count=2),
    },
    {
        "name": "error_rate",
        "state": "quiet",
        "found": say("%(percent)s %%, requests: %(requests)s", percent="0.024", requests=4118),
        "limit": "1 %",
    },
]
WRONG = say("%(unit)s: wrong answer %(misses)s times", unit="glm52-r2", misses=2)


@transaction.atomic
def draw(content: dict[str, Any]) -> None:
    gateway = Gateway.objects.first() or Gateway.objects.create(
        name="edge", port=8080, admin_port=9999, directory="gw",
        host=factories.make_host("edge-1", address="127.0.13.200"),
    )  # fmt: skip
    one_node = content | {"shape": content["shape"] | {"nodes": 1, "pp": 1}}
    _waiting(gateway, Pool.objects.get(slug="dsv4"), one_node)
    _halted(gateway, Pool.objects.get(slug="glm52"), content)


@transaction.atomic
def ask() -> None:
    """Ask for the third wave, once everything else of the scene is as it stays: a signature is for these facts."""
    rollout = Rollout.objects.get(pool__slug="dsv4")
    wave = rollout.waves.get(number=3)
    approval_ask(
        kind="wave", facts=wave_facts(rollout, wave), actor=factories.make_actor("ana"),
        user=factories.make_person("ana"), rollout=rollout, wave=wave,
        reason="Canary clean for 22 h; waves 1 and 2 within their limits.",
    )  # fmt: skip


def _waiting(gateway: Gateway, pool: Pool, content: dict[str, Any]) -> None:
    old, new = _releases(pool, content, "DeepSeek-V4-Flash vLLM 0.33.0")
    rollout = _rollout(pool, new, "running", hours=2)
    Rollout.objects.filter(pk=rollout.pk).update(
        triggers=QUIET, explanation=say("Waits for approval.")
    )
    canary = factories.make_replica(
        "dsv4-c1", pool=pool, nodes=[_spare()], state="serving", is_canary=True, generation=1
    )
    _wave(rollout, 0, canary, None, "passed", 3)
    _live(gateway, canary, new, 25, "b", 9180)
    for number in range(1, 15):
        unit = Replica.objects.get(name=f"dsv4-r{number}")
        Replica.objects.filter(pk=unit.pk).update(state="serving", generation=2)
        is_done = number < 3
        state = "passed" if is_done else "awaiting_approval" if number == 3 else "pending"
        _wave(rollout, number, unit, old, state, 2 if is_done else 0)
        _live(gateway, unit, new if is_done else old, 100, "b" if is_done else "a", 20_118)
    rollout.refresh_from_db()
    _signed(rollout, None, rollout_facts(rollout), "canary clean over one peak")
    wave = rollout.waves.get(number=3)
    _signed(rollout, rollout.waves.get(number=2), wave_facts(rollout, wave), "wave 1 stable")
    for verb, why in (
        ("wave.passed", say("%(unit)s serves at full weight.", unit="dsv4-r2")),
        ("wave.awaiting_approval", say("Waits for approval.")),
    ):
        trail_add(
            actor=rule_actor("rollout"), verb=verb, object_kind="rollout",
            object_id=rollout.public_id, reason=why,
        )  # fmt: skip


def _halted(gateway: Gateway, pool: Pool, content: dict[str, Any]) -> None:
    old, new = _releases(pool, content, "glm-5.2 new engine")
    fired = say("Trigger %(name)s: %(found)s", name="Golden answers", found=WRONG)
    rollout = _rollout(pool, new, "paused", hours=1)
    Rollout.objects.filter(pk=rollout.pk).update(
        triggers=[QUIET[0] | {"state": "fired", "found": WRONG}, QUIET[1]],
        fired=fired, explanation=fired,
    )  # fmt: skip
    states = {2: "observing", 3: "pending", 5: "pending", 7: "pending"}
    for number, state in states.items():
        unit = Replica.objects.get(name=f"glm52-r{number}")
        is_new = state == "observing"
        _wave(rollout, number - 1, unit, old, state, 0)
        _live(gateway, unit, new if is_new else old, 10 if is_new else 100, "ba"[not is_new], 61)


def _releases(pool: Pool, content: dict[str, Any], title: str) -> tuple[Release, Release]:
    made = [
        Release.objects.create(
            pool=pool, title=f"{title}{more}", state=state, content=content, is_rehearsal=True,
            content_sha256=f"{pool.slug}{state}".ljust(64, "0"), sealed_at=timezone.now(),
        )
        for more, state in (("", "superseded"), (", MTP 3", "in_service"))
    ]  # fmt: skip
    return made[0], made[1]


def _rollout(pool: Pool, new: Release, state: str, *, hours: int) -> Rollout:
    at = timezone.now() - timedelta(hours=hours)
    return Rollout.objects.create(
        pool=pool, new_release=new, strategy=STRATEGY, state=state, started_at=at,
        reason="MTP off to 3: a fifth more tokens a second in the experiment",
        author=factories.make_person("ana"),
    )  # fmt: skip


def _wave(
    rollout: Rollout, number: int, unit: Replica, old: Release | None, state: str, step: int
) -> None:
    sentences = {
        "passed": say("%(unit)s passed.", unit=unit.name),
        "awaiting_approval": say("Waits for approval."),
        "observing": say(
            "Observing at %(weight)s %%; requests so far: %(requests)s.", weight=10, requests=61
        ),
    }
    explanation = sentences.get(state, "")
    Wave.objects.create(
        rollout=rollout, number=number, replica=unit, old_release=old, state=state, step=step,
        is_canary=number == 0 and old is None, explanation=explanation,
    )  # fmt: skip


def _live(
    gateway: Gateway, unit: Replica, release: Release, weight: int, slot: str, requests: int
) -> None:
    launch = Launch.objects.create(
        replica=unit, release=release, generation=Replica.objects.get(pk=unit.pk).generation + 1,
        plan={"positions": [], "http": {"address": "127.0.0.1", "port": 8000}, "world_size": 8},
        plan_sha256="d" * 64, state="ready", ready_at=timezone.now(),
    )  # fmt: skip
    Endpoint.objects.create(
        gateway=gateway, launch=launch, slot=slot, weight=weight, seen_weight=weight,
        seen_mode="ready", seen_running=3, seen_at=timezone.now(), requests=requests,
    )  # fmt: skip
    ended = timezone.now() - timedelta(minutes=90)
    GateRun.objects.create(
        launch=launch, purpose=f"scene/{launch.pk}", state="passed", ended_at=ended
    )


def _signed(rollout: Rollout, wave: Wave | None, facts: dict[str, Any], reason: str) -> None:
    Approval.objects.create(
        kind="wave" if wave else "rollout", rollout=rollout, wave=wave, facts=facts,
        facts_digest=facts_digest(facts), asked_by=factories.make_person("ana"),
        expires_at=timezone.now(), decision="approved", decided_by=factories.make_person("bo"),
        decided_at=timezone.now() - timedelta(minutes=70), reason=reason,
    )  # fmt: skip


def _spare() -> Any:
    taken = Member.objects.filter(released_at=None).values("node_id")
    return Node.objects.exclude(pk__in=taken).order_by("pk").last()
