import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
from django.db import connection, transaction
from django.utils import timezone

from console.celery import app
from fleet import tasks
from fleet.execution.models import Host
from fleet.execution.signals import batch_carried
from fleet.models import Brake, Hold, Replica, Tick, TrailEntry
from fleet.rules.message import said
from fleet.rules.refusals import Conflict, NeedsReason
from fleet.selectors import conductor_tick_age_s
from fleet.selectors.brake import brake_now, is_braked
from fleet.services.brake import brake_clear, brake_judge
from fleet.services.reach import reach_settle
from fleet.services.ticks import single_flight
from tests.factories import make_actor, make_hold, make_host, make_node, make_nodes, make_replica


def lose(count: int, *, seconds_ago: float = 0.0, reach: str = Host.Reach.UNREACHABLE) -> None:
    names = [f"h100-{number:03d}" for number in range(1, count + 1)]
    since = timezone.now() - timedelta(seconds=seconds_ago)
    Host.objects.filter(name__in=names).update(reach=reach, missed_since=since)


@pytest.mark.django_db(transaction=True)
class TestSingleFlight:
    def test_a_second_conductor_returns_at_once(self):
        inside, done = threading.Event(), threading.Event()

        def first() -> None:
            with single_flight("x") as is_mine:
                assert is_mine
                inside.set()
                done.wait(20)
            connection.close()

        with ThreadPoolExecutor(max_workers=1) as pool:
            job = pool.submit(first)
            assert inside.wait(20)
            with single_flight("x") as is_mine:
                assert not is_mine
            with single_flight("y") as is_mine:
                assert is_mine
            done.set()
            job.result(timeout=20)

    def test_a_tick_that_fails_is_not_recorded_and_frees_the_lock(self):
        with pytest.raises(ZeroDivisionError), single_flight("x"):
            raise ZeroDivisionError
        assert not Tick.objects.exists()
        with single_flight("x") as is_mine:
            assert is_mine
        assert Tick.objects.get().name == "x"


@pytest.mark.django_db
class TestTick:
    def test_the_age_of_the_tick_most_behind_is_told(self):
        assert conductor_tick_age_s() is None
        Tick.objects.create(name="reach", at=timezone.now() - timedelta(hours=1))
        Tick.objects.create(name="sweep", at=timezone.now())
        assert conductor_tick_age_s() > 3000
        tasks.tick()
        assert conductor_tick_age_s() < 30

    def test_a_tick_of_an_older_version_is_never_behind(self):
        Tick.objects.create(name="forgotten", at=timezone.now() - timedelta(hours=1))
        assert conductor_tick_age_s() is None

    def test_nothing_is_raised_into_a_tick_from_outside(self):
        assert app.conf.task_soft_time_limit is None
        assert app.conf.task_time_limit > 0

    def test_two_ticks_after_each_other_change_nothing_more(self):
        make_node(host={"reach": Host.Reach.UNREACHABLE})
        tasks.tick()
        before = TrailEntry.objects.count(), Hold.objects.count()
        tasks.tick()
        tasks.sweep()
        assert (TrailEntry.objects.count(), Hold.objects.count()) == before == (1, 1)

    def test_a_part_that_fails_does_not_stop_the_others(self, monkeypatch):
        def fail() -> int:
            with transaction.atomic():
                raise ZeroDivisionError

        monkeypatch.setattr(tasks, "probe_settle", fail)
        make_hold(make_node(), expires_at=timezone.now() - timedelta(seconds=1))
        with pytest.raises(ZeroDivisionError):
            tasks.tick()
        assert not Hold.objects.filter(lifted_at=None).exists()

    def test_sealing_chains_anchors_and_forgets_old_answers(self, settings, tmp_path):
        from fleet.services.seal import anchors_read
        from fleet.services.trail import trail_add

        settings.STATE_DIR = tmp_path
        trail_add(actor=make_actor(), verb="node.add", object_kind="node", object_id="x")
        tasks.seal_trail()
        tasks.seal_trail()
        assert [anchor.position for anchor in anchors_read()] == [1]


@pytest.mark.django_db
class TestBrake:
    def test_forty_eight_nodes_that_time_out_at_once_are_not_acted_on(self):
        make_nodes(48)
        lose(48)
        for _ in range(3):
            reach_settle()
        assert is_braked()
        assert Brake.objects.count() == 1
        assert not Hold.objects.exists()
        assert [entry.verb for entry in TrailEntry.objects.all()] == ["brake.pull"]

    def test_suspicion_is_enough_so_that_it_is_on_before_anything_acts(self):
        make_nodes(8)
        lose(4, reach=Host.Reach.SUSPECT)
        assert "4 of 8 nodes" in said(brake_judge().cause)

    def test_a_host_that_is_no_node_does_not_count(self):
        make_nodes(8)
        lose(1, reach=Host.Reach.SUSPECT)
        for name in ("edge-1", "edge-2", "edge-3"):
            make_host(name, reach="suspect", missed_since=timezone.now())
        assert brake_judge() is None

    def test_one_lost_node_is_held_as_ever(self):
        make_nodes(8)
        lose(1)
        reach_settle()
        assert not is_braked()
        assert Hold.objects.get().owner == "unreachable"

    def test_three_units_that_failed_at_once_pull_it(self):
        for number in range(1, 4):
            make_replica(f"glm52-r{number}", state=Replica.State.FAILED)
        assert brake_judge() is not None

    def test_a_person_clears_it_with_a_reason_and_it_stays_off_for_what_was_judged(self):
        make_nodes(8)
        lose(4)
        reach_settle()
        brake = brake_now()
        with pytest.raises(NeedsReason):
            brake_clear(brake=brake, reason=" ", actor=make_actor())
        assert is_braked()
        brake_clear(brake=brake, reason="leaf switch rebooted", actor=make_actor())
        reach_settle()
        assert not is_braked()
        assert Hold.objects.filter(owner="unreachable").count() == 4
        cleared = TrailEntry.objects.get(verb="brake.clear")
        assert (cleared.actor, cleared.reason) == ("ana", "leaf switch rebooted")

    def test_one_that_was_pulled_since_is_not_cleared_by_who_read_the_one_before(self):
        read = Brake.objects.create(cause="first")
        brake_clear(brake=read, reason="leaf switch rebooted", actor=make_actor())
        Brake.objects.create(cause="second")
        with pytest.raises(Conflict):
            brake_clear(brake=read, reason="leaf switch rebooted", actor=make_actor("bo"))
        assert brake_now().cause == "second"
        assert TrailEntry.objects.filter(verb="brake.clear").count() == 1

    def test_nodes_that_answer_again_are_freed_while_it_is_on(self):
        nodes = make_nodes(8)
        make_hold(nodes[7], "unreachable")
        lose(4)
        reach_settle()
        assert is_braked()
        assert not Hold.objects.filter(lifted_at=None).exists()


def test_a_nudge_without_a_broker_is_only_noted(settings, caplog, monkeypatch):
    monkeypatch.setattr(tasks, "_nudged_at", -1e9)

    def refuse(**_: object) -> None:
        raise ConnectionRefusedError("no broker")

    monkeypatch.setattr(tasks.tick, "apply_async", refuse)
    tasks.nudge()
    assert "tick not nudged: no broker" in caplog.text


def test_the_last_nudge_of_a_job_is_sent_however_soon(monkeypatch):
    sent = []
    monkeypatch.setattr(tasks, "_nudged_at", -1e9)
    monkeypatch.setattr(tasks.tick, "apply_async", lambda **_: sent.append(1))
    tasks.nudge()
    tasks.nudge()
    assert len(sent) == 1, "within the same moment once is enough"
    batch_carried.send(sender=None)
    assert len(sent) == 2


@pytest.mark.django_db
def test_a_tick_settles_what_ended_while_it_settled(monkeypatch):
    left = [3, 1, 0]
    monkeypatch.setattr(tasks, "probe_settle", lambda: left.pop(0))
    tasks.tick()
    assert left == []
