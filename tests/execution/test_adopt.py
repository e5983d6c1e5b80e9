"""What a node lists against what the rows say: adopted, recorded as an orphan, or stopped by order."""

from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.utils import timezone

from fleet.execution import states
from fleet.execution.adopt import host_adopt
from fleet.execution.dispatch import subject_create
from fleet.execution.hands import carry_out
from fleet.execution.models import Command, Host, Orphan, Subject
from fleet.execution.remote import connect
from fleet.execution.watch_adopt import read_list
from tests.execution.orders import fresh, order_start, order_stop
from tests.waiting import wait_until

pytestmark = pytest.mark.django_db

LIST = {"answer": "LIST", "containers": "ok"}
BOOT = "02b2b24e-543a-4015-84b4-aaf7e146b45f"


@pytest.fixture
def host() -> Host:
    with connection.cursor() as cursor:  # fences up to 100 were given
        cursor.execute("SELECT nextval('execution_fence') FROM generate_series(1, 100)")
    return Host.objects.create(name="n1", address="127.0.0.1", user="x")


def row(name: str, answer: str = "RUNNING", **changes: Any) -> dict[str, Any]:
    facts = {"pid": 10, "start_ticks": 5, "boot_id": BOOT, "rc": None, "epoch": 1, "fence": 0}
    return {"answer": answer, "subject": name, **facts, **changes}


def box(subject: str, state: str = "running") -> dict[str, Any]:
    labels = f"fleet.unit=u1,fleet.subject={subject},fleet.fence=3"
    return {"container": {"ID": "ab12", "Names": "fc-u1", "State": state, "Labels": labels}}


def long_ago(subject: Subject, **changes: Any) -> Subject:
    then = timezone.now() - timedelta(minutes=5)
    Subject.objects.filter(pk=subject.pk).update(started_at=then, ended_at=then, **changes)
    subject.refresh_from_db()
    return subject


class TestSubjects:
    def test_a_living_one_is_adopted(self, host):
        subject = subject_create(host=host, name="s1")
        host_adopt(host, LIST, [row("s1")])
        subject.refresh_from_db()
        assert (subject.state, subject.pid, subject.boot_id) == (states.SUBJECT_LIVE, 10, BOOT)
        assert not Orphan.objects.exists()

    def test_an_ended_one_gives_its_exit_code(self, host):
        subject = subject_create(host=host, name="s1")
        host_adopt(host, LIST, [row("s1", "DONE", rc=3)])
        subject.refresh_from_db()
        assert (subject.state, subject.rc) == (states.SUBJECT_DONE, 3)

    def test_one_lost_by_a_reboot_keeps_the_reason(self, host):
        subject = subject_create(host=host, name="s1")
        host_adopt(host, LIST, [row("s1", "LOST", explanation="the node was started again")])
        subject.refresh_from_db()
        assert subject.state == states.SUBJECT_LOST
        assert "started again" in subject.explanation

    def test_a_scan_of_the_same_facts_changes_nothing(self, host):
        subject_create(host=host, name="s1")
        for _ in range(2):
            host_adopt(host, LIST, [row("s1"), row("other")])
        assert Orphan.objects.count() == 1
        assert not Command.objects.exists()

    def test_one_that_the_node_forgot_is_unknown(self, host):
        subject = long_ago(subject_create(host=host, name="s1"), state=states.SUBJECT_LIVE)
        host_adopt(host, LIST, [])
        subject.refresh_from_db()
        assert subject.state == states.SUBJECT_UNKNOWN
        assert "no record" in subject.explanation

    def test_an_ended_subject_that_lives_is_stopped_by_one_order(self, host):
        subject = long_ago(subject_create(host=host, name="s1"), state=states.SUBJECT_GONE, epoch=1)
        for _ in range(2):
            host_adopt(host, LIST, [row("s1")])
        (stop,) = Command.objects.all()
        assert (stop.verb, stop.queue, stop.subject) == ("stop", "stop", subject)


class TestOrphans:
    def test_an_unknown_living_subject_is_recorded_and_not_stopped(self, host):
        host_adopt(host, LIST, [row("stranger", plan_sha="ab")])
        orphan = Orphan.objects.get()
        assert (orphan.kind, orphan.name, orphan.labels["pid"]) == ("subject", "stranger", "10")
        assert not Command.objects.exists()

    def test_an_unknown_dead_subject_is_nobodys_business(self, host):
        host_adopt(host, LIST, [row("stranger", "DONE", rc=0)])
        assert not Orphan.objects.exists()

    def test_it_is_resolved_when_the_node_shows_it_no_more(self, host):
        host_adopt(host, LIST, [row("stranger")])
        host_adopt(host, LIST, [])
        assert Orphan.objects.get().resolved_at
        host_adopt(host, LIST, [row("stranger")])
        assert Orphan.objects.filter(resolved_at=None).count() == 1

    def test_a_silent_docker_resolves_no_container(self, host):
        host_adopt(host, LIST, [box("stranger")])
        host_adopt(host, {**LIST, "containers": "unavailable"}, [])
        assert not Orphan.objects.get().resolved_at

    @pytest.mark.parametrize(
        ("changes", "word"),
        [
            ({"fence": 10**15}, "last one given"),
            ({"fence": 3}, "older claim"),
            ({"pid": "x"}, "cannot be believed"),
            ({"rc": 4711}, "cannot be believed"),
        ],
    )
    def test_a_listing_that_cannot_be_true_is_not_adopted(self, host, changes, word):
        subject = subject_create(host=host, name="s1")
        Subject.objects.update(fence=7)
        host_adopt(host, LIST, [row("s1", **{"fence": 0, **changes})])
        subject.refresh_from_db()
        assert subject.state == states.SUBJECT_NEW
        assert word in Orphan.objects.get().explanation

    def test_a_container_is_known_by_its_label(self, host):
        subject_create(host=host, name="s1")
        host_adopt(host, LIST, [box("s1"), box("stranger"), box("old", "exited")])
        orphan = Orphan.objects.get()
        assert (orphan.kind, orphan.name) == ("container", "ab12")
        assert orphan.labels["fleet.subject"] == "stranger"

    def test_a_container_of_an_ended_subject_is_stopped(self, host):
        subject = subject_create(host=host, name="s1", container="fc-u1")
        long_ago(subject, state=states.SUBJECT_DONE)
        host_adopt(host, LIST, [box("s1")])
        assert Command.objects.get().payload == {"container": "fc-u1"}

    def test_hostile_texts_are_capped_and_stored(self, host):
        hostile = {
            "Labels": "fleet.subject=\x00<b>," + "x=1," * 5000,
            "ID": "i" * 999,
            "State": "running",
        }
        host_adopt(host, LIST, [{"container": hostile}, {"container": "no"}, {"subject": 7}])
        assert len(Orphan.objects.get().name) == 120


class TestOfflineStop:
    """A stop while the node is away outlives the absence (P05)."""

    def test_the_node_that_comes_back_is_stopped_at_once(self, sshd, settings):
        settings.TIME_SCALE = 1.0  # the next attempt is 5 s away, on a slow machine too
        host = sshd.host()
        start = order_start(host, ["sleep", "100"])
        carry_out([start.pk])
        sshd.stop()
        stop = order_stop(start.subject)
        carry_out([stop.pk])
        assert fresh(stop).state == states.UNKNOWN
        assert carry_out([stop.pk]) == 0  # it waits
        sshd.start()
        link = connect(host, deadline=20)
        host_adopt(host, *read_list(link))
        link.close()
        assert carry_out([stop.pk]) == 1
        assert fresh(stop).state == states.SUCCEEDED
        assert sshd.node.processes() == []

    def test_the_real_listing_of_a_node_is_adopted(self, sshd):
        host = sshd.host()
        sshd.node.start("s1", 1, ["sleep", "100"], ";epoch 1")
        subject = subject_create(host=host, name="s1")
        link = connect(host, deadline=20)
        host_adopt(host, *read_list(link))
        link.close()
        subject.refresh_from_db()
        assert subject.state == states.SUBJECT_LIVE
        wait_until(lambda: subject.pid in sshd.node.processes(), what="the process by its mark")
