from datetime import UTC, datetime, timedelta

import pytest
from django.db import IntegrityError, connection, transaction

from fleet.models import Evidence, TrailEntry, TrailSeal
from fleet.rules.refusals import NeedsReason
from fleet.services import seal
from fleet.services.trail import Actor, rule_actor, trail_add
from fleet.services.trail_chain import trail_verify
from tests.factories import make_actor

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def own_folder(settings, tmp_path):
    settings.STATE_DIR = tmp_path


def add(verb: str = "node.add", **fields) -> TrailEntry:
    defaults = {"actor": make_actor(), "object_kind": "node", "object_id": "h100-001"}
    return trail_add(verb=verb, **{**defaults, **fields})


def add_many(count: int) -> None:
    for number in range(count):
        add(object_id=f"h100-{number:03d}", after={"n": number})


def tamper(statement: str, *values: object) -> None:
    """Change rows as the owner of the database could: past the triggers."""
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL session_replication_role = replica")
        cursor.execute(statement, values)
        cursor.execute("SET LOCAL session_replication_role = origin")


def test_an_entry_tells_who_what_from_where_and_why():
    entry = add("hold.add", reason="  fans  ", before={"a": 1}, after={"a": 2})
    entry.refresh_from_db()
    assert (entry.actor, entry.source, entry.address, entry.request_id) == (
        "ana",
        "web",
        "127.0.0.1",
        "r-1",
    )
    assert (entry.reason, entry.before, entry.after, entry.outcome) == (
        "fans",
        {"a": 1},
        {"a": 2},
        "done",
    )


@pytest.mark.parametrize(
    "verb",
    ["hold.add", "hold.lift", "hold.override", "launch.stop", "command.cancel", "brake.clear"],
)
def test_what_takes_something_away_needs_a_reason(verb):
    with pytest.raises(NeedsReason):
        add(verb, reason="   ")
    assert not TrailEntry.objects.exists()


def test_a_refused_attempt_needs_no_reason_of_its_own():
    assert add("hold.lift", outcome="refused").outcome == "refused"


def test_a_rule_is_named_as_such():
    assert rule_actor("lost-rank") == Actor("rule:lost-rank", "rule")


@pytest.mark.parametrize("change", ["UPDATE {} SET {} = {}", "DELETE FROM {}"])
@pytest.mark.parametrize(
    ("table", "column"),
    [("fleet_trailentry", "actor"), ("fleet_trailseal", "mac"), ("fleet_evidence", "title")],
)
def test_the_database_refuses_to_change_the_record(change, table, column):
    add()
    seal.trail_seal()
    Evidence.objects.create(
        object_kind="node", object_id="n", title="t", origin="o", body=b"x", size_bytes=1, sha256=""
    )
    with (
        pytest.raises(IntegrityError, match="append-only"),
        transaction.atomic(),
        connection.cursor() as cursor,
    ):
        cursor.execute(change.format(table, column, "'x'"))


@pytest.mark.django_db(transaction=True)
def test_it_refuses_to_write_outside_the_transaction_of_a_change():
    with pytest.raises(RuntimeError, match="transaction"):
        add()


def test_seals_are_numbered_from_one_and_the_second_run_adds_nothing():
    add_many(3)
    assert seal.trail_seal() == 3
    assert seal.trail_seal() == 0
    assert list(TrailSeal.objects.order_by("position").values_list("position", flat=True)) == [
        1,
        2,
        3,
    ]
    assert trail_verify().is_whole


def test_a_row_that_commits_late_is_sealed_at_a_later_position():
    add_many(3)
    late = TrailEntry.objects.order_by("id")[1]
    early_ids = [entry.pk for entry in TrailEntry.objects.exclude(pk=late.pk).order_by("id")]
    key, mac = seal.seal_key(), seal.GENESIS
    for position, pk in enumerate(early_ids, start=1):
        mac = seal.seal_mac(key, mac, TrailEntry.objects.get(pk=pk))
        TrailSeal.objects.create(entry_id=pk, position=position, mac=mac)
    assert seal.trail_seal() == 1
    assert TrailSeal.objects.get(entry=late).position == 3
    assert trail_verify().is_whole


def test_it_names_the_first_edited_row():
    add_many(4)
    seal.trail_seal()
    second = TrailSeal.objects.get(position=2)
    tamper("UPDATE fleet_trailentry SET actor = 'bo' WHERE id = %s", second.entry_id)
    assert f"position 2, entry {second.entry_id}" in trail_verify().problem


def test_it_names_a_deleted_row():
    add_many(4)
    seal.trail_seal()
    third = TrailSeal.objects.get(position=3)
    tamper("DELETE FROM fleet_trailseal WHERE position = 3")
    tamper("DELETE FROM fleet_trailentry WHERE id = %s", third.entry_id)
    assert trail_verify().problem.startswith("position 3: the row is missing")


def test_it_notices_two_swapped_rows():
    add_many(4)
    seal.trail_seal()
    one, two = TrailSeal.objects.filter(position__in=[2, 3]).order_by("position")
    tamper("UPDATE fleet_trailentry SET object_id = 'x' WHERE id = %s", one.entry_id)
    tamper(
        "UPDATE fleet_trailentry SET object_id = 'h100-001' WHERE id = %s",
        two.entry_id,
    )
    tamper(
        "UPDATE fleet_trailentry SET object_id = 'h100-002' WHERE id = %s",
        one.entry_id,
    )
    assert "position 2" in trail_verify().problem


def test_a_cut_tail_is_told_by_the_anchor():
    add_many(3)
    seal.trail_seal()
    assert seal.trail_anchor()
    last = TrailSeal.objects.get(position=3)
    tamper("DELETE FROM fleet_trailseal WHERE position = 3")
    tamper("DELETE FROM fleet_trailentry WHERE id = %s", last.entry_id)
    assert trail_verify().problem.startswith("position 3: the tail is cut")


def test_a_chain_written_anew_differs_from_its_anchor():
    add_many(2)
    seal.trail_seal()
    seal.trail_anchor()
    tamper("DELETE FROM fleet_trailseal")
    first = TrailEntry.objects.order_by("id").first()
    tamper("UPDATE fleet_trailentry SET reason = 'forged' WHERE id = %s", first.pk)
    seal.trail_seal()
    assert "differs from the anchor" in trail_verify().problem


def test_an_anchor_at_the_end_of_a_long_file_is_found_and_a_torn_one_left_out():
    add()
    seal.trail_seal()
    now = datetime.now(UTC)
    old = f"{now - timedelta(days=1):%Y-%m-%dT%H:%M:%S+00:00} 1 {'a' * 64}\n"
    seal.anchor_path().write_text(old * 200)
    assert not seal.trail_anchor(now), "nothing was sealed since"
    add()
    seal.trail_seal()
    assert seal.trail_anchor(now)
    seal.anchor_path().write_text(seal.anchor_path().read_text() + "2026-11-30T")
    assert not seal.trail_anchor(now), "the newest whole one is young"
    assert [anchor.position for anchor in seal.anchors_read()] == [1] * 200 + [2]


def test_the_head_is_anchored_once_an_hour():
    add_many(1)
    seal.trail_seal()
    assert seal.trail_anchor()
    add_many(1)
    seal.trail_seal()
    assert not seal.trail_anchor()
    assert seal.trail_anchor(every_s=0)
    assert [anchor.position for anchor in seal.anchors_read()] == [1, 2]


def test_the_key_is_made_once_and_only_the_owner_reads_it(tmp_path):
    assert seal.seal_key() == seal.seal_key()
    assert (tmp_path / "trail.key").stat().st_mode & 0o777 == 0o600


def test_the_command_exits_when_the_chain_is_broken(capsys):
    from django.core.management import CommandError, call_command

    add_many(2)
    seal.trail_seal()
    call_command("trail_verify")
    assert "whole: 2 rows sealed" in capsys.readouterr().out
    tamper("UPDATE fleet_trailentry SET verb = 'x'")
    with pytest.raises(CommandError, match="position 1"):
        call_command("trail_verify")
