"""What nodes are asked to forget: only what is ours, ended for certain, wholly read, and old or one of many."""

from datetime import timedelta

import pytest
from django.utils import timezone

from fleet.execution import forget, states
from fleet.execution.dispatch import subject_create
from fleet.execution.forget import subjects_forget
from fleet.execution.hands import carry_out
from fleet.execution.models import Command, LogStream, Subject
from tests.execution.orders import fresh, order_start, order_stop
from tests.waiting import wait_until

pytestmark = pytest.mark.django_db

DAY = timedelta(days=1)


@pytest.fixture
def host(make_sshd):
    return make_sshd(start=False).host()


def ended(host, name: str = "s1", *, age=8 * DAY, is_read: bool = True, **fields) -> Subject:
    subject = subject_create(host=host, name=name)
    LogStream.objects.filter(subject=subject).update(is_complete=is_read)
    fields = {"state": states.SUBJECT_DONE, "ended_at": timezone.now() - age, **fields}
    Subject.objects.filter(pk=subject.pk).update(**fields)
    return subject


def asked() -> set[str]:
    return set(Command.objects.filter(verb="forget").values_list("subject__name", flat=True))


class TestChoice:
    def test_an_old_subject_that_is_read_to_its_end_is_forgotten_once(self, host):
        ended(host)
        assert (subjects_forget(), subjects_forget()) == (1, 0)
        assert asked() == {"s1"}

    @pytest.mark.parametrize(
        "fields",
        [
            {"age": 6 * DAY},
            {"is_read": False},
            {"state": states.SUBJECT_LIVE},
            {"state": states.SUBJECT_UNKNOWN},
            {"state": states.SUBJECT_NEW},
            {"ended_at": None},
        ],
    )
    def test_what_is_young_unread_or_not_proved_ended_is_kept(self, host, fields):
        ended(host, **fields)
        assert subjects_forget() == 0

    def test_a_subject_with_an_open_command_is_kept(self, host):
        order_stop(ended(host))
        assert subjects_forget() == 0

    def test_of_many_ended_subjects_a_node_keeps_the_newest(self, host, make_sshd, monkeypatch):
        monkeypatch.setattr(forget, "KEEP_MOST", 2)
        for hours in range(2, 6):
            ended(host, f"s{hours}", age=timedelta(hours=hours))
        ended(host, "fresh", age=timedelta(minutes=5))
        ended(make_sshd(start=False).host("other"), "alone", age=timedelta(hours=9))
        assert subjects_forget() == 2
        assert asked() == {"s4", "s5"}

    def test_a_node_that_refuses_is_not_asked_for_ever(self, host):
        ended(host)
        for _ in range(forget.TRIES):
            assert subjects_forget() == 1
            Command.objects.filter(verb="forget").update(state=states.FAILED)
        assert subjects_forget() == 0


class TestOnANode:
    def start(self, host, argv: list[str], name: str = "s1") -> Subject:
        command = order_start(host, argv, name)
        carry_out([command.pk])
        assert fresh(command).state == states.SUCCEEDED, fresh(command).explanation
        return command.subject

    def forget(self) -> Command:
        assert subjects_forget() == 1
        command = Command.objects.get(verb="forget", state=states.QUEUED)
        carry_out([command.pk])
        return fresh(command)

    def test_its_directory_goes_and_its_row_stays_as_it_was(self, sshd):
        host = sshd.host()
        subject = self.start(host, ["true"])
        self.start(host, ["true"], "s2")
        wait_until(lambda: sshd.node.status("s1")["answer"] == "DONE", what="its end")
        ended(host)
        command = self.forget()
        assert command.state == states.SUCCEEDED, command.explanation
        assert not sshd.node.file("s1", "").exists()
        assert sshd.node.file("s2", "ident").exists()
        subject.refresh_from_db()
        assert subject.state == states.SUBJECT_DONE

    def test_the_node_has_the_last_word_about_what_lives(self, sshd):
        host = sshd.host()
        self.start(host, ["sleep", "100"])
        ended(host)
        command = self.forget()
        assert command.state in (states.QUEUED, states.FAILED)
        assert "it lives" in command.explanation
        assert sshd.node.status("s1")["answer"] == "RUNNING"
