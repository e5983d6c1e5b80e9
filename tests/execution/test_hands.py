"""A batch against plain SSH daemons: what is sent, what is written, and what is left alone."""

import json
import threading
from datetime import timedelta

import pytest
from django.db import DataError
from django.utils import timezone

from fleet.execution import moves, results, states
from fleet.execution.batch import Batch, Task
from fleet.execution.dispatch import command_cancel, command_dispatch, subject_create
from fleet.execution.hands import carry_out
from fleet.execution.message import said
from fleet.execution.models import Command, Host, Subject
from fleet.execution.output import command_sections
from fleet.execution.remote import Unreachable
from fleet.execution.signals import command_settled
from tests.execution.orders import TREE, fresh, order_probe, order_start, order_stop
from tests.waiting import wait_until

pytestmark = pytest.mark.django_db


@pytest.fixture
def settled():
    """Ids of the commands that listeners were told of."""
    told: list[int] = []

    def note(command_id: int, **_: object) -> None:
        told.append(command_id)

    command_settled.connect(note)
    yield told
    command_settled.disconnect(note)


def now_due(*commands: Command) -> list[int]:
    ids = [command.pk for command in commands]
    Command.objects.filter(pk__in=ids).update(due_at=timezone.now() - timedelta(seconds=1))
    return ids


class TestProbe:
    def test_a_probe_brings_its_sections(self, sshd, settled, django_capture_on_commit_callbacks):
        command = order_probe(sshd.host(), topic="node-a")
        with django_capture_on_commit_callbacks(execute=True):
            assert carry_out([command.pk]) == 1
        command = fresh(command)
        assert command.state == states.SUCCEEDED, command.explanation
        section = command_sections(command)["hello"]
        assert (section.rc, section.body) == (0, b"hello\n")
        assert command.answer["boot_id"]
        assert settled == [command.pk]

    def test_a_second_job_for_the_same_command_touches_nothing(self, sshd):
        command = order_probe(sshd.host())
        assert [carry_out([command.pk]) for _ in range(3)] == [1, 0, 0]
        assert sshd.log.count("Accepted publickey") == 1

    def test_ids_that_do_not_exist_are_harmless(self):
        assert carry_out([987654321, "1; drop table", None, -1]) == 0

    def test_several_commands_of_a_node_share_one_connection(self, sshd):
        host = sshd.host()
        commands = [order_probe(host, f"p{n}") for n in range(12)]
        assert carry_out([command.pk for command in commands]) == 12
        assert {fresh(c).explanation for c in commands} == {""}
        assert sshd.log.count("Accepted publickey") == 1

    def test_one_bad_node_does_not_hold_up_another(self, sshd, make_sshd):
        good, bad = sshd.host("good"), make_sshd(start=False).host("bad")
        commands = [order_probe(good), order_probe(bad)]
        carry_out([command.pk for command in commands])
        assert fresh(commands[0]).state == states.SUCCEEDED
        assert fresh(commands[1]).state == states.QUEUED
        assert "refused" in fresh(commands[1]).explanation

    def test_collect_brings_files_with_their_hash(self, sshd):
        (sshd.home / "notes").write_bytes(b"a\0b")
        command = order_probe(
            sshd.host(), verb="collect", payload={"files": [str(sshd.home / "notes"), "/nope"]}
        )
        carry_out([command.pk])
        sections = command_sections(fresh(command))
        assert sections[str(sshd.home / "notes")].body == b"a\0b"
        assert sections["/nope"].error == "no such file"


class TestStart:
    def test_a_start_makes_its_subject_live(self, sshd):
        command = order_start(sshd.host(), ["sleep", "100"])
        carry_out([command.pk])
        command = fresh(command)
        assert command.state == states.SUCCEEDED, command.explanation
        subject = command.subject
        assert subject.state == states.SUBJECT_LIVE
        wait_until(lambda: subject.pid in sshd.node.processes("s1"), what="the process by its mark")
        assert subject.fence == command.fence
        assert subject.started_at

    def test_a_stop_ends_it_with_proof(self, sshd):
        start = order_start(sshd.host(), ["sh", "-c", "trap '' TERM; sleep 100 & wait; sleep 100"])
        carry_out([start.pk])
        stop = order_stop(fresh(start).subject, grace_s=10)
        carry_out([stop.pk])
        assert fresh(stop).state == states.SUCCEEDED, fresh(stop).explanation
        assert sshd.node.processes() == []
        assert fresh(stop).subject.state == states.SUBJECT_GONE
        assert fresh(stop).subject.rc == 137

    def test_a_stop_cancels_a_start_that_was_not_sent(self, sshd):
        start = order_start(sshd.host(), ["touch", f"{sshd.home}/ran"])
        stop = order_stop(start.subject)
        assert fresh(start).state == states.CANCELLED
        carry_out([stop.pk, start.pk])
        assert not (sshd.home / "ran").exists()

    def test_a_full_disk_fails_the_start_with_the_reason(self, sshd):
        (sshd.home / ".flotilla").mkdir()
        (sshd.home / ".flotilla" / "subjects").write_text("in the way")
        command = order_start(sshd.host(), ["true"])
        carry_out([command.pk])
        assert fresh(command).state == states.FAILED
        assert "cannot write below" in fresh(command).explanation

    @pytest.mark.parametrize("late", [False, True])
    def test_a_start_whose_deadline_passed_is_not_sent(self, sshd, late):
        command = order_start(sshd.host(), ["touch", f"{sshd.home}/ran"])
        Command.objects.update(
            expires_at=timezone.now() - timedelta(seconds=1),
            sent_at=timezone.now() if late else None,
        )
        carry_out([command.pk])
        command = fresh(command)
        assert command.state == states.FAILED
        assert not (sshd.home / "ran").exists()
        # One that may have been sent before is found out about, not believed.
        assert ("never started there" in command.explanation) == late

    def test_a_late_look_finds_what_an_earlier_attempt_started(self, sshd):
        command = order_start(sshd.host(), ["sleep", "100"])
        sshd.node.start("s1", 1, ["sleep", "100"])
        Command.objects.update(
            state=states.UNKNOWN, sent_at=timezone.now(), expires_at=timezone.now()
        )
        carry_out([command.pk])
        assert fresh(command).state == states.SUCCEEDED
        assert fresh(command).subject.state == states.SUBJECT_LIVE


class TestUnreachable:
    def test_it_goes_back_with_a_growing_wait_and_then_fails(self, make_sshd):
        command = order_start(make_sshd(start=False).host(), ["true"], deadline_s=60)
        waits = []
        for _ in range(3):
            carry_out(now_due(command))
            command = fresh(command)
            waits.append((command.due_at - timezone.now()).total_seconds())
        assert command.state == states.QUEUED
        assert command.sent_at is None
        assert waits[0] < waits[1] < waits[2]
        Command.objects.update(expires_at=timezone.now() + timedelta(seconds=0.9))
        carry_out(now_due(command))
        assert fresh(command).state == states.FAILED
        assert "given up after 4 attempts" in said(fresh(command).explanation)

    def test_it_tries_once_more_while_there_is_time(self, make_sshd, settings):
        settings.TIME_SCALE = 1.0  # the wait for the next attempt would be 5 s
        command = order_start(make_sshd(start=False).host(), ["true"], deadline_s=60)
        Command.objects.update(expires_at=timezone.now() + timedelta(seconds=4))
        carry_out(now_due(command))
        command = fresh(command)
        assert command.state == states.QUEUED, command.explanation
        assert command.due_at < command.expires_at

    def test_a_probe_whose_connection_breaks_is_asked_again_at_once(self, sshd):
        script = f"echo x >>{sshd.home}/tries; [ $(wc -l <{sshd.home}/tries) -gt 1 ] || sleep 60"
        section = {"name": "hello", "timeout_s": 90, "argv": ["sh", "-c", script]}
        command = order_probe(sshd.host(), payload={"sections": [section]}, deadline_s=120)

        def cut() -> None:
            wait_until((sshd.home / "tries").exists, what="the first attempt on the node")
            sshd.end_sessions()

        cutter = threading.Thread(target=cut)
        cutter.start()
        carry_out([command.pk])
        cutter.join()
        # In one attempt: a wait before the next would leave it queued.
        assert fresh(command).state == states.SUCCEEDED, fresh(command).explanation
        assert (sshd.home / "tries").read_text() == "x\nx\n"

    def test_a_start_whose_connection_breaks_is_not_sent_twice(self, sshd):
        host = sshd.host()
        command = order_start(host, ["sleep", "100"])
        batch = Batch([], 0)
        batch.links.get(host)._transport.close()
        calls = []

        def break_off(task, link):
            calls.append(link)
            link.close()
            raise Unreachable("n: the connection broke", may_have_run=True)

        batch._call = break_off
        (claimed,) = moves.commands_claim([command.pk], "hand")
        result = batch._carry_out(Task(fresh(command), claimed))
        assert (len(calls), result.settlement.state) == (1, states.UNKNOWN)

    def test_a_stop_is_never_given_up_and_says_what_is_not_confirmed(self, sshd):
        start = order_start(sshd.host("h100-7"), ["sleep", "100"])
        carry_out([start.pk])
        sshd.stop()
        stop = order_stop(fresh(start).subject)
        for _ in range(3):
            carry_out(now_due(stop))
            stop = fresh(stop)
            assert stop.state == states.UNKNOWN
        for word in ("h100-7", "s1", str(stop.subject.pid), "sleep 100", "refused"):
            assert word in stop.explanation
        sshd.start()
        carry_out(now_due(stop))
        assert fresh(stop).state == states.SUCCEEDED
        assert sshd.node.processes() == []

    def test_what_must_happen_once_waits_for_a_person_when_unsure(self, sshd, monkeypatch):
        command = order_start(sshd.host(), ["true"], effect="once")
        monkeypatch.setattr("fleet.execution.verbs.CALL_S", 0.0)
        carry_out([command.pk])
        assert fresh(command).state == states.UNKNOWN
        assert "a person has to look" in fresh(command).explanation
        assert carry_out(now_due(command)) == 0

    def test_a_missing_host_key_is_offered_and_a_changed_one_blocks(self, sshd):
        host = sshd.host()
        Host.objects.update(host_key="", key_state="unset")
        command = order_probe(host, "first")
        carry_out([command.pk])
        host.refresh_from_db()
        assert fresh(command).state == states.FAILED
        assert host.offered_key == sshd.host_key
        Host.objects.update(host_key=sshd.host_key, key_state="pinned", offered_key="")
        offered = sshd.swap_key()
        command = order_probe(host, "second")
        carry_out([command.pk])
        host.refresh_from_db()
        assert fresh(command).state == states.FAILED
        assert (host.key_state, host.offered_key) == ("changed", offered)
        assert "Accepted" not in sshd.log
        assert "userauth" not in sshd.log.lower()


class TestCancel:
    def test_a_queued_command_is_cancelled_at_once(self, sshd):
        command = command_cancel(command=order_start(sshd.host(), ["true"]))
        assert command.state == states.CANCELLED
        assert command.settled_at

    def test_a_started_tree_is_stopped_by_a_command_of_its_own(self, sshd):
        start = order_start(sshd.host(), ["sh", "-c", TREE])
        carry_out([start.pk])
        wait_until(lambda: len(sshd.node.processes("s1")) >= 7, what="the whole tree")
        stop = command_cancel(command=fresh(start))
        assert stop.verb == "stop"
        assert command_cancel(command=fresh(start)) == stop
        carry_out([stop.pk])
        assert fresh(stop).state == states.SUCCEEDED
        assert sshd.node.processes() == []

    def test_an_unsure_start_is_cancelled_only_when_proved_gone(self, sshd):
        start = order_start(sshd.host("h9"), ["sleep", "100"])
        pid = sshd.node.start("s1", 1, ["sleep", "100"])["pid"]
        Command.objects.update(state=states.UNKNOWN, sent_at=timezone.now())
        Subject.objects.update(pid=pid)
        sshd.stop()
        command_cancel(command=start)
        carry_out(now_due(start))
        start = fresh(start)
        assert start.state == states.UNKNOWN
        for word in ("h9", str(pid), "sleep 100"):
            assert word in start.explanation
        sshd.start()
        carry_out(now_due(start))
        assert fresh(start).state == states.CANCELLED
        assert sshd.node.processes() == []

    @pytest.mark.django_db(transaction=True, available_apps=["fleet.execution"])
    def test_a_cancel_during_a_long_probe_frees_the_hand(self, sshd):
        slow = {"sections": [{"name": "x", "timeout_s": 30, "argv": ["sleep", "30"]}]}
        command = order_probe(sshd.host(), payload=slow, deadline_s=60)
        running = threading.Thread(target=_in_thread, args=([command.pk],))
        running.start()
        wait_until(lambda: fresh(command).state == states.CLAIMED, what="claim")
        command_cancel(command=command)
        running.join(15)
        assert not running.is_alive()
        assert fresh(command).state == states.CANCELLED


class TestForeignNode:
    """A plain SSH daemon of somebody else: reasons, never a traceback."""

    @pytest.mark.parametrize(
        ("change", "word"),
        [
            ({"force": "/bin/false"}, "no answer of the shim"),
            ({"force": "/bin/cat"}, "no answer of the shim"),
            ({"force": "/usr/bin/yes"}, "no answer of the shim"),
            ({"user": "nobody-here"}, "does not accept"),
            ({"home": "/proc/none"}, "cannot be put there"),
            ({"lie": '{"answer":"PROBE"'}, "not an answer"),
            ({"lie": '{"answer":"DONE","subject":"node"}'}, "cannot be believed"),
            ({"lie": '{"answer":"PROBE","subject":"other","fence":0}'}, "cannot be believed"),
            ({"lie": '{"answer":"PROBE","subject":"node","fence":99999999}'}, "fence"),
            ({"lie": '{"answer":"PROBE","subject":"node","fence":"x"}'}, "fence"),
            ({"lie": '{"answer":"PROBE","subject":"node"}\n{"section":"b","bytes":1}'}, "hello"),
            (
                {
                    "lie": '{"answer":"PROBE","subject":"node"}\n{"section":"hello","bytes":10000000000}'
                },
                "bytes",
            ),
        ],
    )
    def test_a_probe_fails_with_the_reason(self, make_sshd, change, word):
        sshd = make_sshd(start=False)
        sshd.force = change.get("force", "")
        sshd.env = {"HOME": change["home"]} if "home" in change else {}
        if "lie" in change:
            (sshd.directory / "lie").write_text(change["lie"] + "\n")
            sshd.force = f"/bin/cat {sshd.directory}/lie"
        sshd.start()
        host = sshd.host()
        Host.objects.update(user=change.get("user", sshd.user))
        command = order_probe(host)
        carry_out([command.pk])
        assert fresh(command).state == states.FAILED
        assert word in fresh(command).explanation

    def test_numbers_that_are_none_are_left_out(self, make_sshd):
        sshd = make_sshd(start=False)
        (sshd.directory / "lie").write_text(
            '{"answer":"PROBE","subject":"node","x":NaN,"y":[1e999],"z":"\\ud800\\u0000"}\n'
            '{"section":"hello","rc":1e2,"ms":-5,"bytes":2}\nok'
        )
        sshd.force = f"/bin/cat {sshd.directory}/lie"
        sshd.start()
        command = order_probe(sshd.host())
        carry_out([command.pk])
        command = fresh(command)
        assert command.state == states.SUCCEEDED, command.explanation
        assert (command.answer["x"], command.answer["y"]) == (None, [None])
        section = command_sections(command)["hello"]
        assert (section.rc, section.ms, section.body) == (None, None, b"ok")

    def test_one_result_that_cannot_be_stored_spoils_no_other(self, sshd, monkeypatch):
        commands = [order_probe(sshd.host(), f"p{n}") for n in range(1)]
        commands += [order_probe(commands[0].host, f"p{n}") for n in range(1, 4)]
        store = results.moves.commands_settle

        def settle(settlements):
            if any(
                one.id == commands[1].pk and one.state == states.SUCCEEDED for one in settlements
            ):
                raise DataError("cannot be stored")
            return store(settlements)

        monkeypatch.setattr(results.moves, "commands_settle", settle)
        carry_out([command.pk for command in commands])
        found = [fresh(command).state for command in commands]
        assert found == [states.SUCCEEDED, states.FAILED, states.SUCCEEDED, states.SUCCEEDED]
        assert "a fault of the console" in fresh(commands[1]).explanation

    def test_a_poor_path_still_works(self, make_sshd):
        sshd = make_sshd(start=False)
        sshd.path = "/nonexistent"
        sshd.start()
        command = order_probe(sshd.host())
        carry_out([command.pk])
        assert fresh(command).state == states.SUCCEEDED, fresh(command).explanation

    @pytest.mark.parametrize("verb", ["start", "stop"])
    def test_a_lie_about_an_effect_is_unknown(self, make_sshd, verb):
        sshd = make_sshd(start=False)
        answer = {
            "answer": "STARTED" if verb == "start" else "GONE",
            "subject": "other",
            "fence": 1,
        }
        (sshd.directory / "lie").write_text(json.dumps(answer, separators=(",", ":")) + "\n")
        sshd.force = f"/bin/cat {sshd.directory}/lie"
        sshd.start()
        host = sshd.host()
        command = order_start(host, ["true"])
        if verb == "stop":
            command = order_stop(subject_create(host=host, name="s2"))
        carry_out([command.pk])
        assert fresh(command).state == states.UNKNOWN
        assert "cannot be believed" in fresh(command).explanation

    def test_an_endless_answer_is_cut(self, make_sshd, monkeypatch):
        monkeypatch.setattr("fleet.execution.remote_body.BODY_CAP_BYTES", 1024 * 1024)
        sshd = make_sshd(start=False)
        lie = sshd.directory / "lie"
        lie.write_text(
            '#!/bin/sh\necho \'{"answer":"LIST","subject":"all"}\'\nexec yes 1234567890\n'
        )
        lie.chmod(0o755)
        sshd.force = str(lie)
        sshd.start()
        from fleet.execution.remote import ShimRefused, connect

        connection = connect(sshd.host(), deadline=10)
        _, body = connection.shim("list", "all", 0, deadline=10)
        with pytest.raises(ShimRefused, match="more than"):
            for _ in body:
                pass
        connection.close()


class TestHttp:
    def test_it_asks_through_the_node(self, sshd, make_http):
        server = make_http(b'{"ok": true}')
        command = command_dispatch(
            purpose="http",
            host=sshd.host(),
            verb="http",
            queue="gate",
            effect="probe",
            payload={"method": "POST", "port": server.port, "path": "/v1/x?y=1", "body": {"a": 1}},
        )
        carry_out([command.pk])
        command = fresh(command)
        assert command.state == states.SUCCEEDED, command.explanation
        assert command.answer["status"] == 200
        assert command_sections(command)["body"].body == b'{"ok": true}'
        assert server.seen == [("POST", "/v1/x?y=1", b'{"a": 1}')]

    def test_nobody_listening_is_an_answer_with_an_error(self, sshd, free_port):
        command = command_dispatch(
            purpose="http",
            host=sshd.host(),
            verb="http",
            queue="gate",
            effect="probe",
            payload={"port": free_port(), "path": "/health"},
        )
        carry_out([command.pk])
        assert fresh(command).state == states.FAILED
        assert fresh(command).answer["status"] is None
        assert fresh(command).answer["error"]


class TestLease:
    def test_a_hand_that_lost_its_command_writes_nothing_and_sends_nothing(self, sshd):
        command = order_start(sshd.host(), ["touch", f"{sshd.home}/ran"])
        (claimed,) = moves.commands_claim([command.pk], "sleeper")
        Command.objects.update(lease_until=timezone.now() - timedelta(seconds=1))
        assert moves.commands_release_expired() == 1
        assert fresh(command).state == states.QUEUED
        assert carry_out([command.pk]) == 1
        assert moves.commands_permit([(claimed.id, claimed.fence, states.RUNNING)]) == set()
        late = moves.Settlement(claimed.id, claimed.fence, states.FAILED, "late")
        assert moves.commands_settle([late]) == set()
        assert fresh(command).state == states.SUCCEEDED

    def test_an_effect_that_may_have_been_sent_becomes_unknown_not_queued(self, sshd):
        command = order_start(sshd.host(), ["sleep", "100"])
        (claimed,) = moves.commands_claim([command.pk], "dead")
        moves.commands_permit([(claimed.id, claimed.fence, states.RUNNING)])
        Command.objects.update(lease_until=timezone.now() - timedelta(seconds=1))
        moves.commands_release_expired()
        assert fresh(command).state == states.UNKNOWN
        carry_out([command.pk])
        assert fresh(command).state == states.SUCCEEDED

    def test_the_fence_grows_with_every_claim(self, sshd):
        command = order_probe(sshd.host())
        fences = []
        for _ in range(3):
            fences += [claimed.fence for claimed in moves.commands_claim([command.pk], "x")]
            Command.objects.update(lease_until=timezone.now() - timedelta(seconds=1))
            moves.commands_release_expired()
        assert fences == sorted(set(fences))
        assert len(fences) == 3


def _in_thread(ids: list[int]) -> None:
    from django.db import connection

    try:
        carry_out(ids)
    finally:
        connection.close()
