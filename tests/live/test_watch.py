from typing import Any

import pytest

from fleet.execution import streams
from fleet.execution.models import Host, LogStream

pytestmark = [pytest.mark.lab, pytest.mark.django_db(transaction=True)]


def test_it_follows_a_subject_to_its_end_and_takes_its_exit_code(
    node: Any, start_watch: Any, wait_until: Any
) -> None:
    script = (
        "for i in 1 2 3; do echo line $i; done; sleep 2; "
        "echo 'ERROR 11-29 10:00:00 [a.py:1] last'; printf tail; exit 7"
    )
    subject = node.start("t-follow", ["sh", "-c", script])
    start_watch()
    wait_until(lambda: LogStream.objects.get().is_complete, 60, "the stream to be complete")
    lines = streams.lines_after(LogStream.objects.get(), 0, 99)
    assert [line.text for line in lines] == [
        "line 1", "line 2", "line 3", "ERROR 11-29 10:00:00 [a.py:1] last", "tail",
    ]  # fmt: skip
    assert [line.level for line in lines] == ["I", "I", "I", "E", "I"]
    subject.refresh_from_db()
    assert (subject.state, subject.rc) == ("done", 7)
    assert subject.ended_at
    assert subject.observed_at
    host = Host.objects.get(pk=node.host.pk)
    assert host.reach == "ok"
    assert host.boot_id
    assert host.seen_at
