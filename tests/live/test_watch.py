import contextlib
import os
import signal
import time
from typing import Any

import pytest

from fleet.execution import streams, wire
from fleet.execution.models import Host, Lease, LogStream, Subject

pytestmark = [pytest.mark.lab, pytest.mark.django_db(transaction=True)]

# Numbered lines in bursts with rests, so that a kill meets every stage of their way.
COUNT = "i=0; while [ $i -lt {lines} ]; do i=$((i+1)); echo n $i; [ $((i % 500)) -ne 0 ] || sleep 0.2; done"


def _texts(subject: Subject | str = "") -> list[str]:
    name = getattr(subject, "name", subject)
    stream = LogStream.objects.get(subject__name=name) if name else LogStream.objects.get()
    return [line.text for line in streams.lines_after(stream, 0, 10**7)]


def _counted(lines: int) -> list[str]:
    return [f"n {n}" for n in range(1, lines + 1)]


def _is_complete() -> bool:
    return LogStream.objects.get().is_complete


def test_it_follows_a_subject_to_its_end_and_takes_its_exit_code(
    node: Any, start_watch: Any, wait_until: Any
) -> None:
    script = (
        "for i in 1 2 3; do echo line $i; done; sleep 2; "
        "echo 'ERROR 11-29 10:00:00 [a.py:1] last'; printf tail; exit 7"
    )
    subject = node.start("t-follow", ["sh", "-c", script])
    start_watch()
    wait_until(_is_complete, 60, "the stream to be complete")
    lines = streams.lines_after(LogStream.objects.get(), 0, 99)
    assert [line.text for line in lines] == [
        "line 1", "line 2", "line 3", "ERROR 11-29 10:00:00 [a.py:1] last", "tail",
    ]  # fmt: skip
    assert [line.level for line in lines] == ["I", "I", "I", "E", "I"]
    subject.refresh_from_db()
    assert (subject.state, subject.rc) == ("done", 7)
    assert subject.ended_at
    assert subject.observed_at
    wait_until(lambda: _reach(node.host) == ("ok", 0, None), 30, "a node that answers")
    host = Host.objects.get(pk=node.host.pk)
    assert host.boot_id
    assert host.seen_at


def test_a_watch_killed_again_and_again_stores_every_line_once(
    node: Any, start_watch: Any, wait_until: Any, redis_client: Any
) -> None:
    node.start("t-kill", ["sh", "-c", COUNT.format(lines=20_000)])
    for stored in (1, 4000, 9000):
        watch = start_watch()
        wait_until(
            lambda stored=stored: LogStream.objects.get().line_count >= stored, 60, "some lines"
        )
        watch.kill()
        redis_client.flushall()
    start_watch()
    wait_until(_is_complete, 90, "the stream to be complete")
    assert _texts() == _counted(20_000)


def test_lines_survive_a_database_that_drops_every_connection(
    node: Any, start_watch: Any, wait_until: Any
) -> None:
    from django.db import connection

    node.start("t-database", ["sh", "-c", COUNT.format(lines=15_000)])
    start_watch()
    for stored in (1, 3000, 6000, 9000):
        wait_until(
            lambda stored=stored: LogStream.objects.get().line_count >= stored, 60, "some lines"
        )
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )
    wait_until(_is_complete, 90, "the stream to be complete")
    assert _texts() == _counted(15_000)


def test_a_second_watch_takes_over_with_a_higher_fence(
    node: Any, start_watch: Any, wait_until: Any
) -> None:
    node.start("t-two", ["sh", "-c", COUNT.format(lines=30_000)])
    first = start_watch()
    wait_until(lambda: LogStream.objects.get().line_count, 60, "the first watch at work")
    held = Lease.objects.get(name="watch")
    second = start_watch()
    wait_until(lambda: LogStream.objects.get().line_count > 3000, 60, "some lines")
    assert Lease.objects.get(name="watch").fence == held.fence, "only one works"
    first.kill()
    taken = wait_until(
        lambda: Lease.objects.filter(name="watch", fence__gt=held.fence).first(), 30, "a takeover"
    )
    assert taken.owner != held.owner
    wait_until(_is_complete, 90, "the stream to be complete")
    assert _texts() == _counted(30_000)
    assert second.poll() is None


def test_a_frozen_watch_judges_nothing_and_counts_nothing(
    node: Any, start_watch: Any, wait_until: Any
) -> None:
    watch = start_watch()
    wait_until(lambda: Host.objects.filter(reach="ok").count() == 2, 60, "both nodes")
    os.kill(watch.pid, signal.SIGSTOP)
    try:
        time.sleep(1)  # what it had sent before is written by now
        seen_at = Host.objects.latest("seen_at").seen_at
        time.sleep(7)  # longer than the (scaled) 60 s after which a silent node is unreachable
        assert Host.objects.latest("seen_at").seen_at == seen_at, "ages grow"
    finally:
        os.kill(watch.pid, signal.SIGCONT)
    wait_until(
        lambda: Host.objects.filter(reach="ok", seen_at__gt=seen_at).count() == 2,
        60,
        "fresh answers",
    )
    assert "this process stood still for" in watch.log
    # Nor for a moment. A busy machine may well answer late enough to be suspect, never for so long.
    assert "is unreachable" not in watch.log


@pytest.mark.parametrize("fault_name", ["ssh.refused", "ssh.silent"])
def test_a_node_that_takes_no_connection_becomes_unreachable_and_stops_no_other(
    node: Any, hosts: list[Host], lab: Any, start_watch: Any, wait_until: Any, fault_name: str
) -> None:
    node.start("t-other", ["sh", "-c", COUNT.format(lines=3000) + "; sleep 600"])
    other = hosts[1]
    watch = start_watch()
    wait_until(lambda: Host.objects.filter(reach="ok").count() == 2, 60, "both nodes")
    fault = lab.fault(other.name, fault_name)
    wait_until(lambda: Host.objects.get(pk=other.pk).reach == "unreachable", 60, "unreachable")
    assert f"{other.name} is suspect after" in watch.log
    found = Host.objects.get(pk=other.pk)
    assert found.misses >= 12
    assert found.missed_since
    assert found.explanation
    wait_until(lambda: LogStream.objects.get().line_count == 3000, 60, "the other node's lines")
    lab.clear(other.name, fault)
    wait_until(lambda: _reach(other) == ("ok", 0, None), 60, "reachable again, nothing missed")
    wait_until(lambda: _reach(node.host) == ("ok", 0, None), 60, "the other node as it was")
    assert f"{node.host.name} is unreachable" not in watch.log


def _reach(host: Host) -> tuple[str, int, Any]:
    """Read at once: a node that is a little late misses a period and is well again the next moment."""
    return Host.objects.values_list("reach", "misses", "missed_since").get(pk=host.pk)


@pytest.mark.parametrize(
    ("filler", "said"),
    [
        ("", "the node's file was cut from 8 to "),
        ("echo ten; echo six; echo more", "the node's file holds other text before byte 8 "),
    ],
)
def test_another_file_in_its_place_starts_a_new_epoch_and_says_so(
    node: Any, start_watch: Any, wait_until: Any, filler: str, said: str
) -> None:
    home = "$HOME/.flotilla/subjects/t-cut"
    script = (
        f"echo one; echo two; while [ ! -f {home}/go ]; do sleep 0.1; done; echo three; sleep 600"
    )
    subject = node.start("t-cut", ["sh", "-c", script])
    watch = start_watch()
    wait_until(lambda: LogStream.objects.get().line_count == 2, 60, "two lines")
    watch.kill()
    replace = f": > {home}/out; ({filler or ':'}) >> {home}/out; touch {home}/go"
    node.call("start", "t-helper", wire.argument_lines(["sh", "-c", replace]))
    start_watch()
    wait_until(lambda: "three" in _texts(subject), 60, "lines of the new file")
    texts = _texts(subject)
    assert texts[:2] == ["one", "two"]
    assert texts[2].startswith(said)
    assert texts[3:] == (["ten", "six", "more", "three"] if filler else ["three"])
    stream = LogStream.objects.get(subject=subject)
    assert (stream.epoch, stream.node_epoch) == (1, 1)


def test_a_subject_started_again_goes_on_in_the_same_stream(
    node: Any, start_watch: Any, wait_until: Any
) -> None:
    subject = node.start("t-again", ["sh", "-c", "echo first; exit 3"])
    wait_until(lambda: node.call("status", "t-again", [])["answer"] == "DONE", 30, "its end")
    node.start("t-again", ["sh", "-c", "echo second; sleep 600"], epoch=2, is_new=False)
    start_watch()
    wait_until(lambda: len(_texts(subject)) >= 3, 60, "lines of both")
    assert _texts(subject) == [
        "first",
        "the output goes on in a new file of the node (epoch 2)",
        "second",
    ]


def test_node_output_that_is_hostile_is_stored_as_text(
    node: Any, start_watch: Any, wait_until: Any
) -> None:
    script = (
        r"printf 'nul\000here\n\377\376bad utf8\n'; printf '\033]52;c;aGk=\007clip\n';"
        r"printf '<script>alert(1)</script>\n\342\200\256rlo\n'; printf ' 1%%\r 2%%\r 3%%\n';"
        r"echo token=abcdefghijklmnop1234; printf 'Authorization: Bea'; sleep 0.4;"
        r"printf 'rer eyJhbGciOiJIUzI1NiJ9xyz\n'; head -c 30000000 /dev/zero | tr '\0' x; echo; echo last"
    )
    node.start("t-hostile", ["sh", "-c", script])
    watch = start_watch()
    wait_until(_is_complete, 120, "the stream to be complete")
    texts = _texts()
    assert texts[:9] == [
        "nul\u2400here",
        "\ufffd\ufffdbad utf8",
        "\x1b]52;c;aGk=\x07clip",
        "<script>alert(1)</script>",
        "\u202erlo",
        " 1%",
        " 2%",
        " 3%",
        "token=***1234",
    ]
    assert texts[9] == "Authorization: Bearer ***9xyz"
    assert texts[10].endswith(f" [{30_000_000 - 16384} bytes of this line cut]")
    assert texts[11:] == ["last"]
    assert _rss_mib(watch.pid) < 250


@pytest.mark.parametrize("lines", [200_000, pytest.param(1_000_000, marks=pytest.mark.long)])
def test_a_flood_is_stored_whole_in_bounded_memory(
    node: Any, start_watch: Any, wait_until: Any, lines: int
) -> None:
    node.start("t-flood", ["awk", f'BEGIN{{for(i=1;i<={lines};i++) print "n " i}}'])
    watch = start_watch()
    wait_until(_is_complete, 600, "the flood to be stored")
    stream = LogStream.objects.get()
    assert stream.line_count == lines
    number = 0
    for chunk in streams.chunks_after(stream, 0):
        for line in streams.chunk_lines(chunk):
            number += 1
            assert (line.number, line.text) == (number, f"n {number}")
    assert number == lines
    assert _rss_mib(watch.pid) < 250


@pytest.mark.long
def test_a_line_of_200_mb_is_stored_as_its_head(
    node: Any, start_watch: Any, wait_until: Any
) -> None:
    script = "head -c 200000000 /dev/zero | tr '\\0' x; echo; echo last"
    node.start("t-long", ["sh", "-c", script])
    watch = start_watch()
    wait_until(_is_complete, 600, "the line to be stored")
    texts = _texts()
    assert texts[0].endswith(f" [{200_000_000 - 16384} bytes of this line cut]")
    assert texts[1:] == ["last"]
    assert _rss_mib(watch.pid) < 250


def _rss_mib(pid: int) -> float:
    """Memory of a process in MiB, of its child when it is only a guard."""
    with contextlib.suppress(FileNotFoundError), open(f"/proc/{pid}/status") as status:
        for line in status:
            if line.startswith("VmHWM"):
                return int(line.split()[1]) / 1024
    return 0.0


CAPPED = (";cap 400000", ";every 1")


def _floor(node: Any, name: str) -> int:
    return int(node.call("status", name, []).get("floor") or 0)


def test_an_output_that_outgrew_its_cap_unread_is_read_on_with_a_mark_for_the_gap(
    node: Any, start_watch: Any, wait_until: Any
) -> None:
    subject = node.start("t-cap", ["sh", "-c", "seq -f %09.0f 1 200000; sleep 3"], *CAPPED)
    floor = wait_until(lambda: _floor(node, "t-cap"), 30, "the older half given back")
    start_watch()
    wait_until(_is_complete, 60, "the stream to be complete")
    lines = streams.lines_after(LogStream.objects.get(subject=subject), 0, 10**6)
    (note,) = [line.text for line in lines if line.subsystem == "WATCH"]
    assert str(floor) in note
    # Every whole line above the floor, once, and none of what was given back.
    whole = [int(line.text) for line in lines[1:] if len(line.text) == 9]
    assert whole == list(range(floor // 10 + (2 if floor % 10 else 1), 200_001))
    assert not any("\N{SYMBOL FOR NULL}" in line.text for line in lines)
    stream = LogStream.objects.get()
    assert (stream.epoch, stream.node_epoch, stream.end_offset) == (1, 1, 2_000_000)


def test_a_watch_that_slept_while_an_output_outgrew_its_cap_stores_no_byte_of_the_hole(
    node: Any, start_watch: Any, wait_until: Any
) -> None:
    flood = "seq -f %09.0f 1 5000; touch go; while [ ! -e on ]; do sleep 0.1; done; seq -f %09.0f 5001 900000; sleep 3"
    node.start("t-hole", ["sh", "-c", f"cd $HOME && rm -f go on && {flood}"], *CAPPED)
    watch = start_watch()
    wait_until(lambda: LogStream.objects.get().line_count == 5000, 60, "the lines before the flood")
    os.kill(watch.pid, signal.SIGSTOP)
    try:
        node.connection.shim("probe", "node", 0, [";section t 5.00", "touch", "on"], deadline=30)
        wait_until(lambda: _floor(node, "t-hole") > 1_000_000, 60, "the hole")
    finally:
        os.kill(watch.pid, signal.SIGCONT)
    wait_until(_is_complete, 90, "the stream to be complete")
    lines = streams.lines_after(LogStream.objects.get(), 0, 10**7)
    assert not any("\N{SYMBOL FOR NULL}" in line.text for line in lines)
    numbers = [int(line.text) for line in lines if len(line.text) == 9 and line.text.isdigit()]
    assert numbers == sorted(set(numbers)), "no line twice and none out of order"
    assert (numbers[0], numbers[-1]) == (1, 900_000)
    missing = numbers[-1] - numbers[0] + 1 - len(numbers)
    notes = [line for line in lines if line.subsystem == "WATCH"]
    assert bool(missing) == bool(notes), "what is missing is marked"
    assert LogStream.objects.get().end_offset == 9_000_000
