"""Orders: one purpose, one row; the queue is a nudge that may be lost."""

import contextlib
from datetime import timedelta

import django_rq
import pytest
from django.db import IntegrityError, transaction
from django.utils import timezone

from fleet.execution import moves, states
from fleet.execution.dispatch import (
    PurposeTaken,
    command_cancel,
    command_dispatch,
    subject_create,
    sweep,
)
from fleet.execution.models import Command, Host, LogStream, Subject
from fleet.execution.wire import WireError
from tests.execution.orders import fresh, order_probe, order_start, order_stop

pytestmark = pytest.mark.django_db


@pytest.fixture
def host() -> Host:
    return Host.objects.create(name="n1", address="127.0.0.1", user="x")


@pytest.fixture
def queued(redis_client):
    """The ids in a queue, job by job."""

    def read(name: str) -> list[list[int]]:
        return [sorted(job.args[0]) for job in django_rq.get_queue(name).jobs]

    return read


@pytest.fixture
def swept(redis_client, django_capture_on_commit_callbacks):
    """The sweep of a conductor, committed."""

    def run() -> int:
        with django_capture_on_commit_callbacks(execute=True):
            return sweep()

    return run


def past(**span: float):
    return timezone.now() - timedelta(**span)


class TestPurpose:
    def test_a_purpose_is_ordered_once(self, host):
        first, second = order_probe(host), order_probe(host)
        assert first == second
        assert Command.objects.count() == 1

    def test_a_purpose_of_another_order_is_refused(self, host):
        order_probe(host)
        with pytest.raises(PurposeTaken):
            order_probe(host, verb="collect", payload={"files": ["a"]})

    def test_a_subject_comes_with_its_stream_and_stays_on_its_host(self, host):
        subject = subject_create(host=host, name="s1", layout={"tp": 8})
        assert subject_create(host=host, name="s1") == subject
        assert LogStream.objects.get(subject=subject).layout == {"tp": 8}
        other = Host.objects.create(name="n2", address="127.0.0.2", user="x")
        with pytest.raises(PurposeTaken):
            subject_create(host=other, name="s1")

    @pytest.mark.parametrize(
        "changes",
        [
            {"verb": "exec"},
            {"queue": "fast"},
            {"effect": "maybe"},
            {"payload": {"sections": [{"name": "a b", "argv": ["x"]}]}},
            {"payload": {"sections": [{"name": "a", "argv": []}]}},
            {"payload": {"sections": [{"name": "a", "argv": ["x\0"]}]}},
            {"verb": "http", "payload": {"path": "no-slash", "port": 1}},
            {"verb": "http", "payload": {"path": "/a b", "port": 1}},
            {"verb": "http", "payload": {"path": "/a\r\nHost: x", "port": 1}},
            {"verb": "start", "payload": {"argv": ["x"]}},
        ],
    )
    def test_what_cannot_be_said_to_a_node_is_refused_at_once(self, host, changes):
        with pytest.raises(WireError):
            order_probe(host, **changes)
        assert not Command.objects.exists()

    @pytest.mark.parametrize(
        "payload", [{"argv": []}, {"argv": ["-v"]}, {"argv": ["a\0b"]}, {"env": {"A B": "x"}}]
    )
    def test_a_command_that_cannot_be_started_is_refused_at_once(self, host, payload):
        with pytest.raises(WireError):
            order_start(host, ["x"], payload=payload)


class TestQueue:
    def test_orders_of_one_transaction_become_one_job(
        self, host, queued, django_capture_on_commit_callbacks
    ):
        with django_capture_on_commit_callbacks(execute=True):
            commands = [order_probe(host, f"p{n}") for n in range(70)]
            start = order_start(host, ["true"])
        ids = [command.pk for command in commands]
        assert queued("probe") == [ids[:64], ids[64:]]
        assert queued("start") == [[start.pk]]

    def test_a_rolled_back_order_is_not_queued(
        self, host, queued, django_capture_on_commit_callbacks
    ):
        with django_capture_on_commit_callbacks(execute=True):
            with contextlib.suppress(RuntimeError), transaction.atomic():
                order_probe(host, "lost")
                raise RuntimeError
            kept = order_probe(host, "kept")
        assert [kept.pk] in queued("probe")

    def test_an_absent_redis_loses_nothing(
        self, host, django_capture_on_commit_callbacks, free_port
    ):
        connection = django_rq.get_queue("probe").connection
        kept = connection.connection_pool.connection_kwargs.copy()
        connection.connection_pool.disconnect()
        connection.connection_pool.connection_kwargs["port"] = free_port()
        try:
            with django_capture_on_commit_callbacks(execute=True):
                command = order_probe(host)
        finally:
            connection.connection_pool.disconnect()
            connection.connection_pool.connection_kwargs = kept
        assert fresh(command).state == states.QUEUED

    def test_a_later_order_waits_for_its_time(
        self, host, queued, django_capture_on_commit_callbacks, swept
    ):
        with django_capture_on_commit_callbacks(execute=True):
            command = order_probe(host, due_at=timezone.now() + timedelta(hours=1))
        swept()
        assert queued("probe") == []
        Command.objects.update(due_at=past(seconds=1))
        swept()
        assert queued("probe") == [[command.pk]]


class TestSweep:
    def test_it_queues_again_what_no_worker_took(self, host, queued, swept):
        command = order_probe(host)
        assert swept() == 0
        Command.objects.update(enqueued_at=past(minutes=5))
        assert swept() == 1
        assert swept() == 0
        assert queued("probe") == [[command.pk]]

    def test_a_long_queue_is_not_filled_with_doubles(
        self, host, swept, django_capture_on_commit_callbacks
    ):
        order_probe(host, "p1")
        with django_capture_on_commit_callbacks(execute=True):
            django_rq.get_queue("probe").enqueue_call("x.y", args=([0],))
        Command.objects.update(enqueued_at=past(seconds=2))
        assert swept() == 0

    def test_it_gives_up_what_nobody_could_begin_in_time(self, host, swept):
        command = order_probe(host)
        Command.objects.update(expires_at=past(seconds=1))
        assert swept() == 1
        assert fresh(command).state == states.FAILED
        assert "no worker took it" in fresh(command).explanation

    def test_it_never_gives_up_a_stop(self, host, queued, swept):
        stop = order_stop(subject_create(host=host, name="s1"))
        assert stop.expires_at is None
        Command.objects.update(created_at=past(days=30), enqueued_at=None)
        assert swept() == 1
        assert queued("stop") == [[stop.pk]]

    @pytest.mark.parametrize(
        ("state", "effect", "sent", "after"),
        [
            (states.CLAIMED, "ensure", False, states.QUEUED),
            (states.CLAIMED, "ensure", True, states.UNKNOWN),
            (states.RUNNING, "probe", False, states.QUEUED),
            (states.RUNNING, "ensure", True, states.UNKNOWN),
            (states.RUNNING, "once", True, states.UNKNOWN),
            (states.STOPPING, "ensure", True, states.UNKNOWN),
        ],
    )
    def test_it_takes_over_from_a_dead_hand(self, host, state, effect, sent, after, swept):
        command = order_start(host, ["true"], effect=effect)
        Command.objects.update(
            state=state,
            lease_owner="dead",
            lease_until=past(seconds=1),
            sent_at=past(seconds=9) if sent else None,
        )
        assert swept() >= 1
        assert fresh(command).state == after
        assert fresh(command).lease_until is None
        is_again = bool(moves.commands_claim([command.pk], "next"))
        assert is_again == (effect != "once")

    def test_a_living_lease_is_left_alone(self, host, swept):
        command = order_probe(host)
        moves.commands_claim([command.pk], "alive")
        swept()
        assert fresh(command).state == states.CLAIMED


class TestCancel:
    def test_cancelling_twice_or_after_the_end_changes_nothing(self, host):
        command = order_probe(host)
        assert command_cancel(command=command).state == states.CANCELLED
        settled = fresh(command).settled_at
        assert command_cancel(command=command).settled_at == settled

    def test_what_a_hand_holds_is_only_asked_to_end(self, host):
        command = order_start(host, ["true"])
        (claimed,) = moves.commands_claim([command.pk], "hand")
        command_cancel(command=command)
        assert fresh(command).state == states.CLAIMED
        assert moves.commands_beat({claimed.id: claimed.fence}) == {claimed.id: True}
        assert moves.commands_permit([(claimed.id, claimed.fence, states.RUNNING)]) == set()

    def test_a_stop_that_was_sent_is_not_taken_back(self, host):
        stop = order_stop(subject_create(host=host, name="s1"))
        Command.objects.update(state=states.UNKNOWN, sent_at=timezone.now())
        assert command_cancel(command=stop).state == states.UNKNOWN


class TestStates:
    @pytest.mark.parametrize("before", sorted(states.COMMAND_MOVES))
    @pytest.mark.parametrize("after", sorted(states.COMMAND_MOVES))
    def test_a_command_moves_only_as_the_table_says(self, host, before, after):
        command = order_probe(host)
        Command.objects.update(state=before)
        moved = moves.command_move(Command.objects.filter(pk=command.pk), after)
        is_allowed = after in states.COMMAND_MOVES[before]
        assert bool(moved) == is_allowed
        assert fresh(command).state == (after if is_allowed else before)

    @pytest.mark.parametrize("final", sorted(states.TERMINAL))
    def test_the_database_keeps_a_final_state(self, host, final):
        order_probe(host)
        Command.objects.update(state=final)
        with pytest.raises(IntegrityError, match="for good"), transaction.atomic():
            Command.objects.update(state=states.QUEUED)
        assert Command.objects.get().state == final

    @pytest.mark.parametrize("model", [Command, Subject])
    def test_the_database_refuses_a_lower_fence(self, host, model):
        order_start(host, ["true"])
        model.objects.update(fence=7)
        with pytest.raises(IntegrityError, match="older"), transaction.atomic():
            model.objects.update(fence=6)

    def test_a_result_with_hostile_text_is_stored(self, host):
        command = order_probe(host)
        (claimed,) = moves.commands_claim([command.pk], "hand")
        hostile = "a\x00b\ud800" + "x" * 5000
        moves.commands_settle(
            [moves.Settlement(command.pk, claimed.fence, states.FAILED, hostile, {"x": hostile})]
        )
        assert fresh(command).explanation.startswith("a\N{REPLACEMENT CHARACTER}b")
        assert len(fresh(command).explanation) == moves.EXPLANATION_CAP

    def test_two_claims_of_the_same_command_give_one(self, host):
        command = order_probe(host)
        assert len(moves.commands_claim([command.pk], "a")) == 1
        assert moves.commands_claim([command.pk], "b") == []


class TestOrderOnHost:
    def test_an_http_order_needs_no_subject(self, host):
        command = command_dispatch(
            purpose="h",
            host=host,
            verb="http",
            queue="gate",
            effect="probe",
            payload={"port": 8000, "path": "/health"},
        )
        assert command.state == states.QUEUED
