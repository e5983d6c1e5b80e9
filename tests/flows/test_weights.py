"""Weights over a real lab: real rsync between nodes through the shim, bad shards healed, a seed that dies."""

import json
import shutil
from pathlib import Path

import pytest

from fleet.lab import releases
from fleet.lab.birth import model_directory
from fleet.rules.fanout import Limits
from fleet.rules.message import said
from tests.needs import four_nodes, needs_rsync

pytestmark = [
    pytest.mark.lab,
    pytest.mark.django_db(transaction=True),
    needs_rsync,
]
SHARD = "model-00002-of-00046.safetensors"
MODEL = "deepseek-v4-flash"
WIDE = Limits(at_once=8, per_leaf=4, per_parent=2, link_mbps=2500)


def place_of(lab, name: str) -> Path:
    return model_directory(lab.host(name).directory / "root" / "models", MODEL)


def strip(lab, *names: str) -> None:
    """Leave nothing of the model on these nodes."""
    for name in names:
        shutil.rmtree(place_of(lab, name), ignore_errors=True)


def add(seed: str):
    from fleet.models import Node
    from fleet.services.trail import Actor
    from fleet.services.weights import artefact_add

    return artefact_add(
        model=MODEL,
        revision=releases.MODELS[MODEL].revision,
        checksums=json.dumps(list(releases.seed_manifest(MODEL))),
        seed_node=Node.objects.get(host__name=seed),
        actor=Actor(name="ana"),
    )


def spread(artefact, limits: Limits = WIDE, names=None):
    from fleet.models import Node
    from fleet.services.trail import Actor
    from fleet.services.weights import distribution_start

    nodes = Node.objects.filter(host__name__in=names) if names else Node.objects.all()
    return distribution_start(
        artefact=artefact, nodes=list(nodes), limits=limits, actor=Actor(name="ana")
    )


def told() -> str:
    from fleet.models import Holding

    return "\n".join(
        f"{row.node.name} {row.state} {said(row.explanation)} from {row.parent}"
        for row in Holding.objects.select_related("node__host", "parent__host")
    )


def states() -> dict[str, str]:
    from fleet.models import Holding

    return {row.node.name: row.state for row in Holding.objects.select_related("node__host")}


def ended(distribution):
    def look() -> bool:
        distribution.refresh_from_db()
        return distribution.state not in ("running", "paused")

    return look


def ready_record(lab, name: str) -> dict:
    return json.loads((place_of(lab, name) / ".ready").read_text())


def test_a_node_without_the_revision_gets_it_verified_from_its_neighbour(console):
    from fleet.execution.models import Command, Subject
    from fleet.models import Holding

    lab = console.lab
    strip(lab, "h100-002")
    artefact = add("h100-001")
    console.until(lambda: states().get("h100-001") == "ready", "the seed to be verified")
    run = spread(artefact)
    console.until(ended(run), "the distribution to end")
    assert run.state == "done", told()
    for name in ("h100-001", "h100-002"):
        record = ready_record(lab, name)
        assert record["revision"] == releases.MODELS[MODEL].revision
        assert record["manifest_sha256"] == artefact.manifest_sha256
    copied = place_of(lab, "h100-002")
    for row in releases.seed_manifest(MODEL):
        assert (copied / row["name"]).read_bytes() == (
            place_of(lab, "h100-001") / row["name"]
        ).read_bytes()
    held = Holding.objects.get(node__host__name="h100-002")
    assert (held.parent.name, held.copies, held.verified_at is not None) == ("h100-001", 0, True)
    serve = Subject.objects.filter(name__endswith="-serve")
    console.until(lambda: not serve.exclude(state__in=("gone", "done")).exists(), "daemons gone")
    from fleet.execution.one_time import one_time_secret

    for command in Command.objects.filter(purpose__startswith="weights:"):
        for label in (command.payload.get("secret_env") or {}).values():
            assert one_time_secret(label) not in json.dumps(command.payload)
    home = lab.host("h100-001").directory / "root" / "home" / ".flotilla"
    assert not list(home.glob("serve.*")), "the secret is gone with its daemon"


def test_an_altered_shard_is_named_and_heals_by_copying_that_file_only(console):
    from fleet.models import Holding
    from fleet.services.trail import Actor
    from fleet.services.weights import holding_heal, holding_verify

    lab, ana = console.lab, Actor(name="ana")
    artefact = add("h100-001")
    run = spread(artefact)
    console.until(ended(run), "both nodes to be verified where they stand")
    assert run.state == "done", told()
    assert set(Holding.objects.values_list("parent", flat=True)) == {None}, "nothing was copied"
    before = {path.name: path.stat().st_ino for path in place_of(lab, "h100-002").iterdir()}
    lab.fault("h100-002", "shard.corrupt", n=2)
    held = Holding.objects.get(node__host__name="h100-002")
    holding_verify(holding=held, actor=ana)
    console.until(lambda: states()["h100-002"] == "failed", "the bad shard to be found")
    held.refresh_from_db()
    assert [(one["name"], one["kind"]) for one in held.findings] == [(SHARD, "altered")]
    assert held.needs == [SHARD]
    assert SHARD in said(held.explanation)
    assert not (place_of(lab, "h100-002") / ".ready").exists()
    holding_heal(holding=held, actor=ana)
    console.until(lambda: states()["h100-002"] == "ready", "the shard to be healed")
    after = {path.name: path.stat().st_ino for path in place_of(lab, "h100-002").iterdir()}
    changed = {name for name, inode in after.items() if before.get(name) != inode}
    assert changed == {SHARD, ".ready"}
    assert ready_record(lab, "h100-002")["manifest_sha256"] == artefact.manifest_sha256


@pytest.mark.long
def test_a_disk_that_fills_fails_with_words_and_nothing_becomes_ready(console):
    lab = console.lab
    strip(lab, "h100-002")
    artefact = add("h100-001")
    console.until(lambda: states().get("h100-001") == "ready", "the seed to be verified")
    lab.fault("h100-002", "disk.full")
    run = spread(artefact)
    console.until(ended(run), "the distribution to end")
    assert run.state == "failed"
    assert "h100-002 failed The disk is full" in told()
    assert not (place_of(lab, "h100-002") / ".ready").exists()


@pytest.mark.long
def test_a_manifest_is_made_on_the_seed_node_and_a_cancelled_copy_leaves_no_process(console):
    from fleet.execution.models import Subject
    from fleet.models import Node, WeightsArtefact
    from fleet.services.trail import Actor
    from fleet.services.weights import artefact_add, distribution_act

    lab, ana = console.lab, Actor(name="ana")
    strip(lab, "h100-002")
    artefact = artefact_add(
        model=MODEL,
        revision=releases.MODELS[MODEL].revision,
        seed_node=Node.objects.get(host__name="h100-001"),
        actor=ana,
    )
    console.until(lambda: states().get("h100-001") == "ready", "the seed to be read and verified")
    artefact.refresh_from_db()
    assert artefact.state == WeightsArtefact.State.READY
    hashes = releases.seed_hashes(MODEL)
    assert artefact.tokenizer_sha256 == hashes["tokenizer"]
    assert artefact.template_sha256 == hashes["template"]
    lab.fault("h100-002", "copy.slow", kbps=8)
    run = spread(artefact)
    console.until(lambda: states().get("h100-002") == "copying", "the slow copy to begin")
    pull = Subject.objects.filter(name__endswith="-pull")
    console.until(lambda: pull.filter(state="live").exists(), "the pull to live")
    distribution_act(distribution=run, act="cancel", reason="the wrong night", actor=ana)
    console.until(lambda: states()["h100-002"] == "cancelled", "the copy to be gone")
    ours = Subject.objects.filter(name__endswith="-pull") | Subject.objects.filter(
        name__endswith="-serve"
    )
    console.until(lambda: not ours.exclude(state__in=("gone", "done")).exists(), "no process left")
    assert not (place_of(lab, "h100-002") / ".ready").exists()


@pytest.mark.long
@four_nodes
def test_the_children_of_a_seed_that_dies_find_another_parent(console):
    """One node holds it; a child becomes the second source, the first one dies while it serves the others."""
    from fleet.models import Holding

    lab = console.lab
    others = ("h100-002", "h100-003", "h100-004")
    strip(lab, *others)
    artefact = add("h100-001")
    console.until(lambda: states().get("h100-001") == "ready", "the seed to be verified")
    for name in ("h100-003", "h100-004"):
        lab.fault(name, "copy.slow", kbps=24)
    run = spread(artefact, Limits(at_once=3, per_leaf=3, per_parent=3))
    console.until(lambda: states()["h100-002"] == "ready", "a second source")
    serving = Holding.objects.filter(parent__host__name="h100-001", state="copying")
    assert serving.exists(), told()
    lab.fault("h100-001", "node.dead")
    console.until(ended(run), "the distribution to end without its first seed")
    assert run.state == "done", told()
    assert set(states().values()) == {"ready"}
    slow = Holding.objects.filter(node__host__name__in=("h100-003", "h100-004"))
    assert "h100-001" not in {row.parent.name for row in slow}, told()
    for name in others:
        assert ready_record(lab, name)["manifest_sha256"] == artefact.manifest_sha256
    again = Holding.objects.get(node__host__name="h100-002")
    assert (again.parent.name, again.attempt) == ("h100-001", 3), "copied once, never again"


@four_nodes
def test_a_revision_that_no_node_holds_comes_from_the_store_once_for_each_leaf(console):
    from fleet.models import Holding, Leaf, Node, Rack, TrailEntry
    from fleet.services.trail import Actor
    from fleet.services.weights import artefact_add

    lab, store = console.lab, console.lab.store()
    assert store["daemon"] == "up"
    # Every node of so small a lab lies on one leaf; two of them are told to lie on another.
    far = Rack.objects.create(name="R99", leaf=Leaf.objects.create(number=9))
    names = ("h100-001", "h100-002", "h100-003", "h100-004")
    Node.objects.filter(host__name__in=names[2:]).update(rack=far)
    strip(lab, *names)
    artefact = artefact_add(
        model=MODEL,
        revision=releases.MODELS[MODEL].revision,
        checksums=json.dumps(list(releases.seed_manifest(MODEL))),
        store=f"{store['address']} {store['port']}",
        actor=Actor(name="ana"),
    )
    run = spread(artefact)
    console.until(ended(run), "the distribution to end")
    assert run.state == "done", told()
    rows = Holding.objects.select_related("node__host", "parent__host").order_by("node__host__name")
    assert [row.parent.name if row.parent else "store" for row in rows] == [
        "store", "h100-001", "store", "h100-003",
    ]  # fmt: skip
    for name in names:
        assert ready_record(lab, name)["manifest_sha256"] == artefact.manifest_sha256
    moves = TrailEntry.objects.filter(verb="holding.move", after__state="ready").order_by("id")
    order = [entry.object_id for entry in moves]
    assert order.index("h100-001") < order.index("h100-002")
    assert order.index("h100-003") < order.index("h100-004")
    assert console.lab.store()["daemon"] == "up", "the store serves and goes on"


@pytest.mark.long
@pytest.mark.parametrize("lab", [14], indirect=True, ids=["fourteen-nodes"])
def test_fourteen_nodes_over_two_leaves_with_one_seed_each_and_a_bad_shard_healed(console):
    from fleet.models import Holding, Node
    from fleet.services.trail import Actor
    from fleet.services.weights import holding_heal, holding_verify

    lab, ana = console.lab, Actor(name="ana")
    names = sorted(Node.objects.values_list("host__name", flat=True))
    strip(lab, *names[1:])
    artefact = add(names[0])
    console.until(lambda: states().get(names[0]) == "ready", "the seed to be verified")
    run = spread(artefact)
    console.until(ended(run), "the distribution to end", timeout_s=600)
    assert run.state == "done", told()
    rows = list(Holding.objects.select_related("node__rack__leaf", "parent__rack__leaf"))
    crossed = [
        row.node.name
        for row in rows
        if row.parent and row.parent.rack.leaf_id != row.node.rack.leaf_id
    ]
    assert len(crossed) == 1, "the second leaf was reached once"
    lab.fault(names[13], "shard.corrupt", n=2)
    held = Holding.objects.get(node__host__name=names[13])
    holding_verify(holding=held, actor=ana)
    console.until(lambda: states()[names[13]] == "failed", "the bad shard to be found")
    held.refresh_from_db()
    holding_heal(holding=held, actor=ana)
    console.until(lambda: states()[names[13]] == "ready", "the shard to be healed")
    assert {ready_record(lab, name)["manifest_sha256"] for name in names} == {
        artefact.manifest_sha256
    }


@pytest.mark.long
@four_nodes
def test_an_image_is_pulled_by_its_digest_on_nodes_that_lack_it_and_a_refusal_is_dockers_own(
    console,
):
    from fleet.models import ImageHolding, Node
    from fleet.services.images import image_act, image_pull
    from fleet.services.trail import Actor

    lab, ana = console.lab, Actor(name="ana")
    for name in ("h100-001", "h100-002"):
        lab.fault(name, "image.absent")
    lab.fault("h100-002", "registry.down")
    ref = f"{releases.REGISTRY}@{releases.image_digest('v0.23.0')}"
    image_pull(ref=ref, nodes=list(Node.objects.all()), actor=ana)

    def held() -> dict[str, str]:
        rows = ImageHolding.objects.values_list("node__host__name", "state")
        return dict(rows)

    console.until(
        lambda: not {"wanted", "pulling"} & set(held().values()), "every pull to come to its end"
    )
    assert held() == {
        "h100-001": "ready", "h100-002": "failed", "h100-003": "ready", "h100-004": "ready",
    }  # fmt: skip
    bad = ImageHolding.objects.get(node__host__name="h100-002")
    assert "Error response from daemon" in said(bad.explanation)
    assert "connection refused" in said(bad.explanation)
    lab.clear("h100-002", "registry.down")
    image_act(holding=bad, act="pull", actor=ana)
    console.until(lambda: held()["h100-002"] == "ready", "the image to be pulled again")
    lab.fault("h100-003", "image.absent")
    image_act(
        holding=ImageHolding.objects.get(node__host__name="h100-003"), act="verify", actor=ana
    )
    console.until(lambda: held()["h100-003"] == "failed", "the missing image to be found")
    gone = ImageHolding.objects.get(node__host__name="h100-003")
    assert "No such image" in said(gone.explanation)


@pytest.mark.long
def test_a_digest_that_the_registry_does_not_know_fails_in_dockers_words(console):
    from fleet.models import ImageHolding, Node
    from fleet.services.images import image_pull
    from fleet.services.trail import Actor

    ref = f"{releases.REGISTRY}@sha256:{'0' * 64}"
    image_pull(ref=ref, nodes=[Node.objects.first()], actor=Actor(name="ana"))
    console.until(lambda: ImageHolding.objects.get().state == "failed", "the pull to fail")
    assert "manifest unknown" in said(ImageHolding.objects.get().explanation)
