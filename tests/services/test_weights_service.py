"""What is asked of weights and what the tick makes of it, from rows alone: no node is behind them."""

import hashlib

import pytest
from django.db.models.functions import Now

from fleet.execution.models import Command, Subject
from fleet.execution.one_time import one_time_secret
from fleet.execution.output import Section, sections_pack
from fleet.models import (
    Distribution,
    Holding,
    Leaf,
    Node,
    Rack,
    TrailEntry,
    WeightsArtefact,
)
from fleet.rules import copier, shards
from fleet.rules.fanout import Limits
from fleet.rules.message import said
from fleet.rules.refusals import Conflict, NeedsReason, NotAllowed, Refused
from fleet.services import weights, weights_tick
from fleet.services.weights_tick import weights_advance
from tests.factories import make_actor, make_node, make_nodes, make_person

pytestmark = pytest.mark.django_db
REVISION = "c" * 40
FILES = {f"model-{n}.safetensors": hashlib.sha256(bytes([n])).hexdigest() for n in range(3)}
SUMS = "".join(f"{digest}  {name}\n10 {name}\n" for name, digest in FILES.items())
NAMES = sorted(FILES)


@pytest.fixture(autouse=True)
def _redis(redis_client):
    """Dispatching nudges the queue."""


@pytest.fixture
def nodes():
    return make_nodes(4)


def add(**fields) -> WeightsArtefact:
    words = {"model": "glm", "revision": REVISION, "checksums": SUMS, "actor": make_actor()}
    return weights.artefact_add(**{**words, **fields})


def spread(artefact, nodes, **limits) -> Distribution:
    return weights.distribution_start(
        artefact=artefact, nodes=nodes, limits=Limits(**limits), actor=make_actor()
    )


def row(node) -> Holding:
    return Holding.objects.get(node=node)


def started(purpose: str, state: str = "succeeded") -> Command:
    command = Command.objects.get(purpose=purpose)
    Command.objects.filter(pk=command.pk).update(state=state, settled_at=Now(), explanation="why")
    if command.subject_id and state == "succeeded":
        Subject.objects.filter(pk=command.subject_id, state="new").update(state="live")
    return command


def finish(subject: Subject, rc: int, text: str) -> None:
    """End a process as the watch would, and hand over what it printed once that is asked for."""
    Subject.objects.filter(pk=subject.pk).update(state="done", rc=rc, ended_at=Now())
    weights_advance()
    command = Command.objects.filter(subject=subject, verb="collect").first()
    if command is not None:
        sections_pack(command.pk, [Section("out", body=text.encode())]).save()
        started(command.purpose)
        weights_advance()


def lines(**other: str) -> str:
    """What a check prints for files that are right, but for those named here."""
    found = {**FILES, **{name.replace("_", "-") + ".safetensors": d for name, d in other.items()}}
    return "".join(f"F 10 {name}\nH {digest} {name}\n" for name, digest in found.items())


def check(node, rc: int, text: str) -> Holding:
    weights_advance()
    held = row(node)
    assert held.state == "verifying", said(held.explanation)
    assert held.check_run is not None
    finish(held.check_run, rc, text)
    return row(node)


def make_ready(node) -> Holding:
    held = check(node, 0, lines())
    assert held.state == "ready", said(held.explanation)
    return held


def test_a_list_with_sizes_is_a_manifest_at_once():
    artefact = add()
    assert artefact.state == "ready"
    assert (artefact.total_bytes, len(artefact.manifest)) == (30, 3)
    assert artefact.manifest_sha256 == shards.manifest_sha256(shards.read_checksums(SUMS))


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"revision": "main"}, "40 hex digits"),
        ({"model": "../x"}, "name of a directory"),
        ({"checksums": ""}, "Paste a checksum list"),
        ({"checksums": f"{'a' * 64}  x.safetensors"}, "no sizes"),
        ({"checksums": "x"}, "line 1"),
        ({"store": "example.org"}, "Store: "),
        ({"store": "169.254.1.1"}, "link-local"),
    ],
)
def test_what_cannot_be_an_artefact_is_refused_with_the_next_step(fields, words):
    with pytest.raises(Refused, match=words):
        add(**fields)
    assert not WeightsArtefact.objects.exists()


def test_a_revision_is_known_once():
    add()
    with pytest.raises(Conflict, match="known already"):
        add()


def test_a_viewer_may_not_spread_weights(nodes):
    with pytest.raises(NotAllowed):
        add(user=make_person("chen"))


def test_a_distribution_is_refused_while_another_is_open_or_with_impossible_limits(nodes):
    artefact = add()
    with pytest.raises(Refused, match="at_once is 0"):
        spread(artefact, nodes, at_once=0)
    spread(artefact, nodes)
    with pytest.raises(Conflict, match="still open"):
        spread(artefact, nodes)


def test_what_lies_there_verified_is_never_copied(nodes):
    run = spread(add(), nodes[:2])
    for node in nodes[:2]:
        make_ready(node)
    weights_advance()
    run.refresh_from_db()
    assert run.state == "done"
    assert not Command.objects.filter(purpose__endswith="/pull").exists()
    assert weights_advance() == 0


def test_only_the_bad_files_are_pulled_and_read_again(nodes):
    spread(add(), nodes[:2])
    make_ready(nodes[0])
    held = check(nodes[1], copier.DIFFERS_RC, lines(model_1="f" * 64))
    assert (held.state, held.needs) == ("wanted", [NAMES[1]])
    weights_advance()
    held = row(nodes[1])
    assert (held.state, held.parent_id, held.port) == ("copying", nodes[0].pk, 8730)
    serve = started(f"weights:{held.pk}/{held.attempt}/serve")
    weights_advance()
    pull = Command.objects.get(purpose=f"weights:{held.pk}/{held.attempt}/pull")
    assert pull.payload["argv"][-1] == NAMES[1]
    assert pull.payload["argv"][-2] == "1", "an altered file may look the same"
    for command in (serve, pull):
        (label,) = command.payload["secret_env"].values()
        assert one_time_secret(label) not in str(command.payload)
    started(pull.purpose)
    finish(row(nodes[1]).pull, 0, "")
    held = row(nodes[1])
    assert held.state == "verifying"
    assert Command.objects.filter(subject=held.serve, verb="stop").exists()
    read = Command.objects.get(purpose=f"weights:{held.pk}/{held.attempt}/check").payload["argv"]
    assert [text.split()[0] != "-" for text in read[-3:]] == [False, True, False]
    finish(held.check_run, 0, f"{lines()}READY\n")
    assert row(nodes[1]).state == "ready"


def copying(nodes) -> Holding:
    """The second node pulls from the first one."""
    spread(add(), nodes[:2])
    make_ready(nodes[0])
    check(nodes[1], copier.DIFFERS_RC, "no directory\n")
    weights_advance()
    held = row(nodes[1])
    started(f"weights:{held.pk}/{held.attempt}/serve")
    weights_advance()
    started(f"weights:{held.pk}/{held.attempt}/pull")
    return row(nodes[1])


def test_a_full_disk_fails_with_its_words(nodes):
    held = copying(nodes)
    finish(held.pull, 11, "rsync: write failed: No space left on device (28)\n")
    held = row(nodes[1])
    assert held.state == "failed"
    assert "disk is full" in said(held.explanation)


def test_a_parent_that_goes_away_is_replaced_only_once_the_old_process_is_gone(nodes):
    held = copying(nodes)
    nodes[0].host.reach = "unreachable"
    nodes[0].host.save()
    weights_advance()
    held.refresh_from_db()
    assert (held.state, held.stop_for) == ("copying", "wanted")
    weights_advance()
    assert Command.objects.filter(subject=held.pull, verb="stop").count() == 1
    assert row(nodes[1]).state == "copying"
    Subject.objects.filter(pk=held.pull_id).update(state="gone", ended_at=Now())
    weights_advance()
    assert row(nodes[1]).state == "wanted"
    weights_advance()
    assert "No source" in said(row(nodes[1]).explanation)


def test_a_node_that_says_ready_but_shows_other_hashes_is_not_believed(nodes):
    spread(add(), nodes[:1])
    held = check(nodes[0], 0, lines(model_2="e" * 64))
    assert held.state != "ready"
    held = Holding.objects.get()
    assert held.findings[0]["kind"] == "altered"


def test_a_check_that_told_nothing_is_no_pass(nodes):
    spread(add(), nodes[:1])
    held = check(nodes[0], 0, "")
    assert held.state == "wanted"
    assert held.needs == NAMES


def test_a_check_that_a_person_asked_for_tells_and_does_not_copy(nodes):
    spread(add(), nodes[:2])
    make_ready(nodes[0]), make_ready(nodes[1])
    weights.holding_verify(holding=row(nodes[1]), actor=make_actor())
    held = check(nodes[1], copier.DIFFERS_RC, lines(model_0="f" * 64))
    assert held.state == "failed"
    assert NAMES[0] in said(held.explanation)
    weights.holding_heal(holding=held, actor=make_actor())
    weights_advance()
    assert (row(nodes[1]).state, row(nodes[1]).needs) == ("copying", [NAMES[0]])


def test_a_pause_ends_the_copy_with_proof_and_resuming_goes_on(nodes):
    held, run = copying(nodes), Distribution.objects.get()
    weights.distribution_act(distribution=run, act="pause", reason="", actor=make_actor())
    weights_advance()
    assert row(nodes[1]).state == "copying"
    Subject.objects.filter(pk=held.pull_id).update(state="gone", ended_at=Now())
    weights_advance()
    assert row(nodes[1]).state == "paused"
    assert weights_advance() == 0
    weights.distribution_act(distribution=run, act="resume", reason="", actor=make_actor())
    weights_advance()
    assert row(nodes[1]).state == "copying"


def test_a_cancel_needs_words_and_is_told(nodes):
    copying(nodes)
    run = Distribution.objects.get()
    with pytest.raises(NeedsReason):
        weights.distribution_act(distribution=run, act="cancel", reason=" ", actor=make_actor())
    weights.distribution_act(distribution=run, act="cancel", reason="late", actor=make_actor())
    assert TrailEntry.objects.get(verb="distribution.cancel").reason == "late"
    with pytest.raises(Conflict):
        weights.distribution_act(distribution=run, act="pause", reason="", actor=make_actor())


def test_copies_rest_on_a_leaf_whose_units_breach_their_slo(nodes, monkeypatch):
    why: dict[int, str] = {}
    monkeypatch.setattr(weights_tick, "_PRESSURES", [lambda: why])
    held = copying(nodes)
    why[1] = "p99 of glm52-r1 is over its limit"
    weights_advance()
    held.refresh_from_db()
    assert (held.stop_for, held.explanation) == ("wanted", why[1])
    Subject.objects.filter(pk=held.pull_id).update(state="gone", ended_at=Now())
    weights_advance()
    weights_advance()
    assert (row(nodes[1]).state, row(nodes[1]).explanation) == ("wanted", why[1])
    why.clear()
    weights_advance()
    assert row(nodes[1]).state == "copying"


def test_a_leaf_is_reached_once_whichever_tick_its_seed_is_found_ready_in(nodes):
    rack = Rack.objects.create(name="R09", leaf=Leaf.objects.create(number=2))
    Node.objects.filter(pk__in=[node.pk for node in nodes[2:]]).update(rack=rack)
    spread(add(), [nodes[0], *nodes[2:]])
    weights_advance()
    for node in (nodes[0], *nodes[2:]):
        finish(
            row(node).check_run,
            0 if node == nodes[0] else 3,
            lines() if node == nodes[0] else "x\n",
        )
    weights_advance()
    held = row(nodes[2])
    assert (held.state, row(nodes[3]).state) == ("copying", "wanted")
    started(f"weights:{held.pk}/{held.attempt}/serve")
    weights_advance()
    started(f"weights:{held.pk}/{held.attempt}/pull")
    finish(row(nodes[2]).pull, 0, "")
    assert row(nodes[3]).state == "wanted"
    finish(row(nodes[2]).check_run, 0, lines())
    assert row(nodes[2]).state == "ready"
    weights_advance()
    assert row(nodes[3]).parent_id == nodes[2].pk


def test_a_bad_source_is_named_after_three_copies(nodes):
    held = copying(nodes)
    for _ in range(3):
        finish(held.pull, 0, "")
        finish(row(nodes[1]).check_run, copier.DIFFERS_RC, lines(model_0="f" * 64))
        held = row(nodes[1])
        if held.state == "failed":
            break
        weights_advance()
        held = row(nodes[1])
        started(f"weights:{held.pk}/{held.attempt}/serve")
        weights_advance()
        started(f"weights:{held.pk}/{held.attempt}/pull")
        held = row(nodes[1])
    assert held.state == "failed"
    assert nodes[0].name in said(held.explanation)


def test_a_list_without_sizes_gets_them_from_a_node_that_holds_the_very_files(nodes):
    bare = "".join(f"{digest}  {name}\n" for name, digest in FILES.items())
    artefact = add(checksums=bare, seed_node=nodes[0])
    assert artefact.state == "making"
    weights_advance()
    artefact.refresh_from_db()
    finish(artefact.subject, 0, lines())
    artefact.refresh_from_db()
    assert (artefact.state, artefact.total_bytes) == ("ready", 30)
    assert row(nodes[0]).state in ("wanted", "verifying")


def test_a_seed_node_with_other_files_makes_nothing(nodes):
    artefact = add(checksums=SUMS.replace("10 model", "# model"), seed_node=nodes[0])
    weights_advance()
    artefact.refresh_from_db()
    finish(artefact.subject, 0, lines(model_1="f" * 64))
    artefact.refresh_from_db()
    assert artefact.state == "failed"
    assert "altered" in said(artefact.explanation)


def test_the_queries_of_a_tick_do_not_grow_with_what_merely_waits(
    nodes, django_assert_max_num_queries
):
    artefact = add()
    run = Distribution.objects.create(artefact=artefact)
    more = [make_node(f"h100-{number:03d}") for number in range(10, 50)]
    Holding.objects.bulk_create(
        Holding(node=node, artefact=artefact, distribution=run, needs=NAMES)
        for node in [*nodes, *more]
    )
    weights_advance()
    with django_assert_max_num_queries(12):
        weights_advance()
