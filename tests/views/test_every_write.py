"""Every address that a person can post to: told once in the trail, and never on an older page.

`WRITES` has one entry for each; an address without one fails.
"""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from django.db import models
from django.urls import reverse
from django.utils import timezone

from fleet.models import (
    Brake,
    Hold,
    Holding,
    KeyChange,
    NetRun,
    Node,
    NodeProbe,
    ProbeSchedule,
    Replica,
    TrailEntry,
    WeightsArtefact,
)
from fleet.rules import policy
from fleet.rules.fanout import Limits
from fleet.rules.hostkeys import fingerprint
from fleet.services.acceptances import acceptance_start
from fleet.services.images import image_pull
from fleet.services.imports import import_read
from fleet.services.net_matrix import golden_choose
from fleet.services.network import net_run_start
from fleet.services.probes import probe_start
from fleet.services.weights import artefact_add, distribution_start
from releases.models import Approval, GateRun, Gateway, Launch, Release, Rollout
from releases.services.gates import gate_start
from releases.services.launches import launch_preview
from releases.services.releases import release_draft, release_review_ask, release_seal
from runbooks.models import Incident, Run
from runbooks.rules import run as run_rules
from runbooks.services.incidents import incident_open
from runbooks.services.library import book_for
from runbooks.services.runs import run_propose, run_start
from tests.contents import content_with
from tests.factories import (
    host_key,
    make_actor,
    make_hold,
    make_node,
    make_nodes,
    make_person,
    make_replica,
)
from tests.golden_profiles import make_facts, make_golden
from tests.network import Answers, make_matrix, run_to_end
from tests.rollouts import make_rollout, make_world, running, submitted, tick
from tests.test_policy import MAY_WRITE, SHELL_WRITES
from tests.traffic import make_gateway, make_release

pytestmark = pytest.mark.django_db
WHY = "the fans are loud"
OLD_KEY, NEW_KEY = host_key(1), host_key(2)


@dataclass(frozen=True)
class Write:
    """A post that is right. `verbs`: what it tells of its person, each once. `said`: which of them keeps WHY."""

    verbs: tuple[str, ...]
    kwargs: dict[str, Any] = field(default_factory=dict)
    fields: dict[str, str] = field(default_factory=dict)
    subject: models.Model | None = None  # whose version it is based on
    who: str = "ana"
    said: str = ""


WRITES: dict[str, Callable[[], Write]] = {}
# Posts that only read the text they carry: they change nothing, so there is nothing to tell.
READINGS = {name for name, entry in policy.PERMISSIONS.items() if entry.is_reading}


def write(name: str) -> Callable[[Callable[[], Write]], Callable[[], Write]]:
    """Keep what makes the ground of an address and the post that is right on it."""

    def keep(make: Callable[[], Write]) -> Callable[[], Write]:
        WRITES[name] = make
        return make

    return keep


# -- nodes


def a_node(**host: Any) -> Node:
    return make_node("h100-001", host=host)


def of_node(node: Node, *verbs: str, **fields: Any) -> Write:
    return Write(verbs, {"name": node.name}, subject=node, said=verbs[0], **fields)


ONE_NODE = "- {name: gpu01, address: 127.0.9.1, user: fleet, leaf: 1, rack: R01}"


@write("import-list")
def import_list() -> Write:
    return Write(("import.read",), fields={"inventory": ONE_NODE, "whole": "1"}, who="dana")


@write("import-act")
def import_act() -> Write:
    found = import_read(
        text=ONE_NODE, file_name="f", is_whole=True, actor=make_actor("dana"),
        user=make_person("dana"),
    )  # fmt: skip
    fields = {"act": "apply", "digest": found.digest}
    verbs = ("import.apply", "node.add")
    return Write(verbs, {"pk": found.pk}, fields, who="dana", said="import.apply")


@write("node-add")
def node_add() -> Write:
    fields = {"name": "gpu01", "address": "127.0.9.1", "user": "fleet", "leaf": "1", "rack": "R01"}
    return Write(("node.add",), fields=fields, who="dana")


@write("fleet-settings")
def fleet_settings() -> Write:
    schedule = ProbeSchedule.objects.create(pk=1, every_s=600)
    return Write(("schedule.change",), fields={"minutes": "15"}, subject=schedule, who="dana")


@write("probe-start")
def a_probe() -> Write:
    a_node()
    return Write(("probe.start",), fields={"nodes": "h100-001"})


@write("probe-cancel")
def probe_cancel() -> Write:
    probe_start(nodes=[a_node()], actor=make_actor("bo"), user=make_person("bo"))
    where = {"name": "h100-001", "pk": NodeProbe.objects.get().command_id}
    return Write(("probe.give_up",), where)


@write("acceptance-start")
def an_acceptance() -> Write:
    a_node()
    return Write(("acceptance.start", "probe.start"), fields={"nodes": "h100-001"})


@write("acceptance-cancel")
def acceptance_cancel() -> Write:
    run = acceptance_start(nodes=[a_node()], actor=make_actor("bo"), user=make_person("bo"))
    verbs = ("acceptance.cancel", "probe.give_up", "acceptance.not_measured")
    return Write(verbs, {"name": run.public_id}, said="acceptance.cancel")


@write("hold-add")
def hold_add() -> Write:
    return of_node(a_node(), "hold.add", fields={"kind": "cordon"})


@write("hold-lift")
def hold_lift() -> Write:
    node = a_node()
    make_hold(node)
    return Write(
        ("hold.lift",),
        {"name": node.name, "pk": Hold.objects.get().pk},
        subject=node,
        said="hold.lift",
    )


@write("host-key")
def a_changed_key() -> Write:
    node = a_node(host_key=OLD_KEY, offered_key=NEW_KEY, key_state="changed")
    prints = {"fingerprint": fingerprint(NEW_KEY), "old_fingerprint": fingerprint(OLD_KEY)}
    return of_node(node, "host_key.request", fields=prints, who="dana")


@write("host-key-sign")
def host_key_sign() -> Write:
    node = a_node(host_key=OLD_KEY, offered_key=NEW_KEY, key_state="changed")
    change = KeyChange.objects.create(
        host=node.host, old_key=OLD_KEY, new_key=NEW_KEY, reason="a new board",
        requested_by=make_person("dana"),
    )  # fmt: skip
    where = {"name": node.name, "pk": change.pk}
    return Write(("host_key.sign",), where, subject=node, who="bo")


@write("brake-clear")
def brake_clear() -> Write:
    where = {"pk": Brake.objects.create(cause="too many").pk}
    return Write(("brake.clear",), where, said="brake.clear")


# -- weights


def an_artefact() -> WeightsArtefact:
    node = a_node()
    return artefact_add(
        model="glm", revision="c" * 40, seed_node=node, actor=make_actor("bo"),
        checksums=f"{'a' * 64}  x.safetensors\n5 x.safetensors",
    )  # fmt: skip


@write("artefact-add")
def an_artefact_to_add() -> Write:
    a_node()
    return Write(
        ("artefact.add",),
        fields={"model": "glm", "revision": "c" * 40, "seed_node": "h100-001"},
    )


@write("artefact-read")
def an_artefact_to_read() -> Write:
    artefact = an_artefact()
    WeightsArtefact.objects.update(state="failed")
    return Write(("artefact.read",), {"name": artefact.public_id})


@write("distribution-start")
def a_distribution() -> Write:
    where = {"name": an_artefact().public_id}
    return Write(("distribution.start",), where, {"nodes": "h100-001"}, said="distribution.start")


@write("distribution-act")
def a_distribution_to_stop() -> Write:
    run = distribution_start(
        artefact=an_artefact(), nodes=[Node.objects.get()], limits=Limits(), actor=make_actor("bo")
    )
    where = {"name": run.public_id}
    return Write(("distribution.cancel",), where, {"act": "cancel"}, said="distribution.cancel")


@write("holding-act")
def a_holding_to_verify() -> Write:
    artefact = an_artefact()
    Holding.objects.update(state="ready")
    where = {"name": artefact.public_id, "node": "h100-001"}
    return Write(("holding.verify",), where, {"act": "verify"})


# -- container images

IMAGE_REF = f"registry.internal/vllm@sha256:{'e' * 64}"


@write("image-pull")
def an_image_to_pull() -> Write:
    a_node()
    return Write(("image.pull",), fields={"ref": IMAGE_REF, "nodes": "h100-001"}, said="image.pull")


@write("image-act")
def an_image_to_verify() -> Write:
    found = image_pull(ref=IMAGE_REF, nodes=[a_node()], actor=make_actor("bo"))
    found.holdings.update(state="ready")
    where = {"name": found.public_id, "node": "h100-001"}
    return Write(("image.verify",), where, {"act": "verify"})


# -- golden profiles


@write("golden-take")
def golden_take() -> Write:
    make_facts(a_node(), gpu_count=8, gpu_name="H100", driver_version="570")
    return Write(("golden.take",), fields={"node": "h100-001"}, said="golden.take")


@write("golden-edit")
def golden_edit() -> Write:
    profile = make_golden({"gpu_count": (8, "equal")})
    fields = {"tolerance:gpu_count": "ignore"}
    return Write(("golden.edit",), {"name": profile.public_id}, fields, profile, said="golden.edit")


@write("golden-current")
def golden_current() -> Write:
    profile = make_golden({"gpu_count": (8, "equal")}, is_current=False)
    return Write(
        ("golden.current",), {"name": profile.public_id}, subject=profile, who="bo",
        said="golden.current",
    )  # fmt: skip


# -- network acceptance


def a_network_run() -> NetRun:
    make_matrix()
    return net_run_start(nodes=make_nodes(2), actor=make_actor("bo"), layers=("collective",))


@write("network-start")
def network_start() -> Write:
    make_matrix()
    make_nodes(2)
    return Write(("network.start",), fields={"nodes": "h100-[001-002]", "layer": "collective"})


@write("network-cancel")
def network_cancel() -> Write:
    return Write(("network.cancel",), {"name": a_network_run().public_id}, said="network.cancel")


@write("network-golden")
def network_golden() -> Write:
    run = run_to_end(a_network_run(), Answers())
    where = {"name": run.public_id, "pk": run.pairs.get().pk}
    return Write(("network_golden.choose",), where, who="bo")


@write("golden-pair-bar")
def golden_pair_bar() -> Write:
    pair = run_to_end(a_network_run(), Answers()).pairs.get()
    gold = golden_choose(pair=pair, actor=make_actor("bo"))
    where, fields = {"pk": gold.pk}, {"bar": "90"}
    return Write(("network_golden.bar",), where, fields, who="bo", said="network_golden.bar")


@write("network-matrix-write")
def network_matrix_write() -> Write:
    fields = {"node_class": a_node().node_class, "hcas": "mlx5_0", "interface": "bond0"}
    return Write(("network_matrix.write",), fields={**fields, "mtu": "9000"})


@write("network-matrix-sign")
def network_matrix_sign() -> Write:
    return Write(("network_matrix.sign",), {"pk": make_matrix().pk}, who="bo")


# -- units, launches, traffic


def a_unit() -> Replica:
    release = make_release(state="sealed")
    nodes = [make_node("h100-001"), make_node("h100-002")]
    return make_replica("glm52-r1", pool=release.pool, nodes=nodes)


@write("launch-plan")
def launch_plan() -> Write:
    unit, release = a_unit(), Release.objects.get()
    sha = launch_preview(replica=unit, release=release).plan_sha256
    fields = {"release": release.public_id, "plan_sha": sha}
    return Write(("launch.create", "replica.move"), {"name": unit.name}, fields, subject=unit)


def a_serving_unit(*verbs: str, **fields: Any) -> Write:
    make_world(units=2)
    launch = Launch.objects.select_related("replica").get(replica__name="glm52-r1")
    launch.replica.refresh_from_db()
    where = {"name": "glm52-r1", "generation": launch.generation}
    return Write(verbs, where, subject=launch.replica, said=verbs[0], **fields)


@write("launch-stop")
def launch_stop() -> Write:
    return a_serving_unit(
        "launch.stop", "drain.start", "endpoint.set", fields={"confirm": "glm52-r1"}
    )


@write("endpoint-set")
def endpoint_set() -> Write:
    return a_serving_unit("endpoint.set", fields={"weight": "40"})


@write("endpoint-drain")
def endpoint_drain() -> Write:
    return a_serving_unit("drain.start", "endpoint.set")


@write("gateway-restart")
def gateway_restart() -> Write:
    gateway: Gateway = make_gateway()
    return Write(
        ("gateway.restart",), {"name": gateway.name}, {"confirm": gateway.name},
        said="gateway.restart",
    )  # fmt: skip


@write("gate-start")
def a_gate_run() -> Write:
    found = a_serving_unit("gate.start")
    return Write(found.verbs, found.kwargs, subject=found.subject)


@write("gate-cancel")
def gate_cancel() -> Write:
    make_world(units=2)
    launch = Launch.objects.get(replica__name="glm52-r1")
    run: GateRun = gate_start(launch=launch, purpose="x", actor=make_actor("bo"))
    return Write(("gate.cancelled",), {"name": run.public_id}, subject=run, said="gate.cancelled")


# -- releases


def a_draft() -> Release:
    origin = make_release(state="in_service")
    return release_draft(
        pool=origin.pool, title="next", content=content_with("env", {}), actor=make_actor("cora"),
        user=make_person("cora", role=""), based_on=origin,
    )  # fmt: skip


def a_sealed() -> Release:
    return release_seal(release=a_draft(), actor=make_actor("cora"))


def of_release(release: Release, verb: str, said: str = "", **fields: Any) -> Write:
    return Write((verb,), {"name": release.public_id}, subject=release, said=said, **fields)


@write("release-new")
def release_new() -> Write:
    make_release()
    return Write(("release.draft",), fields={"pool": "glm52", "title": "first"})


@write("release-draft")
def another_draft() -> Write:
    release = make_release(state="in_service")
    return of_release(release, "release.draft", fields={"title": "second"})


@write("release-edit")
def release_edit() -> Write:
    return of_release(a_draft(), "release.edit", fields={"title": "other"})


@write("release-seal")
def a_seal() -> Write:
    return of_release(a_draft(), "release.sealed")


@write("release-ask")
def release_ask() -> Write:
    return of_release(a_sealed(), "approval.ask", said="approval.ask")


@write("release-sign")
def release_sign() -> Write:
    release = a_sealed()
    release_review_ask(release=release, actor=make_actor("cora"), user=make_person("cora"))
    digest = Approval.objects.get().facts_digest
    fields = {"facts_digest": digest, "decision": "approved"}
    return of_release(release, "approval.sign", "approval.sign", fields=fields, who="bo")


@write("release-withdraw")
def release_withdraw() -> Write:
    return of_release(a_sealed(), "release.withdrawn", said="release.withdrawn")


# -- rollouts


def of_rollout(rollout: Rollout, *verbs: str, said: str = "", **fields: Any) -> Write:
    rollout.refresh_from_db()
    return Write(verbs, {"name": rollout.public_id}, subject=rollout, said=said, **fields)


@write("rollout-new")
def rollout_new() -> Write:
    world = make_world(units=2)
    fields = {"pool": "glm52", "release": str(world.new.pk)}
    return Write(("rollout.create",), fields=fields, said="rollout.create")


@write("rollout-act")
def rollout_act() -> Write:
    rollout = make_rollout(make_world(units=2))
    return of_rollout(rollout, "rollout.submitted", "approval.ask", fields={"act": "submit"})


@write("rollout-halt")
def rollout_halt() -> Write:
    rollout = running(make_world(units=2))
    fields = {"act": "rollback", "confirm": rollout.public_id}
    return of_rollout(rollout, "rollout.rolling_back", said="rollout.rolling_back", fields=fields)


@write("rollout-sign")
def rollout_sign() -> Write:
    rollout = submitted(make_world(units=2))
    asked = rollout.approvals.get()
    fields = {"facts_digest": asked.facts_digest, "decision": "approved"}
    found = of_rollout(rollout, "approval.sign", "rollout.approved", said="approval.sign")
    return Write(
        found.verbs, found.kwargs | {"pk": asked.pk}, fields, found.subject, "bo", found.said
    )


@write("wave-ask")
def wave_ask() -> Write:
    world = make_world(units=2)
    rollout = running(world, has_canary=False)
    tick(world, rollout)
    return of_rollout(rollout, "approval.ask", said="approval.ask", fields={"number": "1"})


# -- incidents and runs


def an_incident() -> Incident:
    unit = a_unit()
    incident, _is_new = incident_open(
        signature="hang", pool=unit.pool, replica=unit, launch=None, title="it hangs", symptoms=[],
        began_at=timezone.now(), actor=make_actor("bo"),
    )  # fmt: skip
    return incident


def a_run() -> Run:
    incident = an_incident()
    return run_propose(
        incident=incident, shelved=book_for("hang"), params={"unit": "glm52-r1"},
        actor=make_actor("bo"),
    )  # fmt: skip


def a_started_run() -> Run:
    return run_start(run=a_run(), user=make_person("bo"), actor=make_actor("bo"))


@write("incident-act")
def incident_act() -> Write:
    incident = an_incident()
    fields = {"act": "mitigate"}
    return Write(
        ("incident.mitigated",), {"name": incident.public_id}, fields, incident,
        said="incident.mitigated",
    )  # fmt: skip


@write("run-propose")
def a_proposal() -> Write:
    incident = an_incident()
    return Write(("run.propose",), {"name": incident.public_id}, {"book": "case-c"}, incident)


@write("run-start")
def a_start() -> Write:
    run = a_run()
    return Write(("run.running", "incident.mitigating"), {"name": run.public_id}, subject=run)


@write("run-halt")
def run_halt() -> Write:
    run = a_started_run()
    return Write(
        ("run.aborted", "step.cancelled"),
        {"name": run.public_id},
        {"act": "abort"},
        said="run.aborted",
    )


@write("step-act")
def step_act() -> Write:
    run = a_started_run()
    step = run.steps.exclude(step_id="evidence").first()
    step.state, run.state = run_rules.UNKNOWN, run_rules.WAITING
    step.save(), run.save()
    where = {"name": run.public_id, "step": step.step_id}
    return Write(("step.passed",), where, {"act": "passed", "words": WHY}, step, said="step.passed")


# -- the tests


def test_every_address_that_is_posted_to_is_here():
    urls = (
        set(MAY_WRITE) - {"launch-create"} - READINGS
    )  # launch-create is what launch-plan posts to
    assert set(WRITES) == urls
    assert {
        name for name, entry in policy.PERMISSIONS.items() if entry.write and "." not in name
    } == (set(MAY_WRITE) | SHELL_WRITES)


@pytest.mark.parametrize("name", sorted(READINGS))
def test_a_post_that_only_reads_tells_nothing_and_needs_no_key(client, name):
    client.force_login(make_person("ana"))
    answer = client.post(reverse(name), {"kind": "auto", "text": "GPU 0: x\n"})
    assert answer.status_code == 200
    assert not TrailEntry.objects.exists()


def send(client, name: str, row: Write, version: int | None = None, **fields: str):
    client.force_login(make_person(row.who))
    key = {"idempotency_key": str(uuid.uuid4()), "reason": WHY}
    if row.subject is not None:
        row.subject.refresh_from_db()
        key["base_version"] = str(row.subject.version if version is None else version)
    return client.post(reverse(name, kwargs=row.kwargs), {**key, **row.fields, **fields})


def what(entry: TrailEntry) -> tuple[str, str, str]:
    """What an entry tells of: a verb and its object, of a run also the step."""
    return entry.verb, entry.object_id, (entry.after or {}).get("step", "")


# What takes something away from somebody, or starts what others have to judge.
NEED_WORDS = {
    "hold-add",
    "hold-lift",
    "host-key",
    "golden-take",
    "golden-edit",
    "golden-current",
    "brake-clear",
    "distribution-act",
    "import-act",
    "launch-stop",
    "endpoint-set",
    "endpoint-drain",
    "gateway-restart",
    "gate-cancel",
    "release-withdraw",
    "rollout-new",
    "rollout-halt",
    "wave-ask",
    "run-halt",
}
VERSIONED = {name for name in WRITES if policy.entry_of(name).is_versioned}


@pytest.mark.parametrize("name", sorted(WRITES))
def test_it_is_told_once_and_changes_nothing_on_an_older_page_or_without_words(client, name):
    """In one, because making the ground costs more than the posts."""
    row = WRITES[name]()
    before = TrailEntry.objects.count()
    assert refusals(client, name, row) == []
    assert TrailEntry.objects.count() == before
    answer = send(client, name, row)
    assert answer.status_code == 302, answer.content.decode()[:3000]
    told = list(TrailEntry.objects.filter(request_id=answer["X-Request-ID"], actor=row.who))
    assert {entry.verb for entry in told} == set(row.verbs)
    assert max(Counter(map(what, told)).values()) == 1
    for entry in told:
        assert (entry.source, entry.address, entry.outcome) == ("web", "127.0.0.1", "done")
        assert entry.object_id
        assert entry.before or entry.after or entry.reason
    if row.said:
        assert WHY in next(entry.reason for entry in told if entry.verb == row.said)


def refusals(client, name: str, row: Write) -> list[int]:
    """Post it as it must be refused; return the answers that are something else."""
    found = []
    if name in VERSIONED:
        row.subject.refresh_from_db()
        for version in (row.subject.version - 1, row.subject.version + 1):
            found.append((send(client, name, row, version).status_code, 409))
    if name in NEED_WORDS:
        found.append((send(client, name, row, reason="  ").status_code, 422))
    return [status for status, wanted in found if status != wanted]
