"""kill -9 of every part at every fault point of a launch: all ranks or none, each started once, nothing left open."""

import time
from collections import Counter
from urllib.request import urlopen

import pytest
from django.db import connection

from console.embedded.ports import reserve_port
from fleet.execution import states
from fleet.execution.models import Command, Orphan, Subject
from fleet.lab import containers
from fleet.models import Member, Replica, TrailEntry
from fleet.rules.message import said
from fleet.services.trail import Actor
from releases.models import Launch
from releases.rules import launch as rules
from releases.selectors.releases import release_to_launch
from releases.services.launches import launch_create, launch_preview, launch_stop
from tests.faults.harm import VICTIMS, HarmedConsole
from tests.flows.conftest import probe_all
from tests.waiting import wait_until

pytestmark = [
    pytest.mark.lab,
    pytest.mark.faults,
    pytest.mark.django_db(transaction=True),
]

# Where the node and the database know different things; the whole matrix runs in the long set. Horses
# alone die at every point in tests/execution.
SHORT = [
    ("worker", "start-sent"),
    ("tick", "launch-starting"),
    ("postgres", "launch-starting"),
    ("valkey", "after-commit-before-enqueue"),
]
MATRIX = [
    pytest.param(SHORT, id="some"),
    *(
        pytest.param([(victim, point) for point in points], id=victim, marks=pytest.mark.long)
        for victim, points in VICTIMS.items()
    ),
]


@pytest.fixture
def durable(transactional_db):
    """A commit survives the server, as in life; the test server is set to be fast instead."""
    name = connection.settings_dict["NAME"]
    with connection.cursor() as cursor:
        cursor.execute(f'ALTER DATABASE "{name}" SET synchronous_commit = on')
    connection.close()
    yield
    with connection.cursor() as cursor:
        cursor.execute(f'ALTER DATABASE "{name}" RESET synchronous_commit')


@pytest.fixture
def harmed(durable, bare_console, tmp_path) -> HarmedConsole:
    holder, port = reserve_port()
    holder.close()
    harmed = HarmedConsole(bare_console, tmp_path / "fault", port)
    harmed.start()
    probe_all(bare_console)
    harmed.start_conductor()
    return harmed


@pytest.mark.parametrize("cells", MATRIX)
def test_a_killed_part_leaves_the_unit_whole_or_gone(harmed, subtests, cells):
    for victim, point in cells:
        with subtests.test(victim=victim, point=point):
            begun = time.monotonic()
            try:
                told = kill_during_a_launch(harmed, victim, point)
            finally:
                take_down(harmed.console)
            print(f"{victim} at {point}: {told}, {time.monotonic() - begun:.1f} s")


def kill_during_a_launch(harmed: HarmedConsole, victim: str, point: str) -> str:
    """Launch, kill at the point, look at everything, stop, look again; return how the launch ended."""
    console = harmed.console
    harmed.arm(point)
    launch = launch_when_possible(console)
    with harmed.frozen_at(point) as frozen:
        harmed.kill(victim, frozen)
    ended = {rules.READY, *rules.ENDED}
    console.until(lambda: state_of(launch) in ended, f"the launch hurt at {point} to end")
    assert_whole_or_gone(console, launch)
    told = f"{launch.state} {said(launch.cause)}".strip()
    if launch.state == rules.READY:
        assert_log_is_the_nodes_log(console, launch)
    take_down(console)
    assert_nothing_open(launch)
    assert_web_answers(harmed)
    return told


def launch_when_possible(console) -> Launch:
    unit = Replica.objects.get(pool__slug="glm52")
    release = release_to_launch(unit.pool)
    console.until(
        lambda: not launch_preview(replica=unit, release=release).refusals, "the unit to be free"
    )
    return launch_create(replica=unit, release=release, actor=Actor(name="ana"))


def take_down(console) -> None:
    for launch in Launch.objects.filter(state__in=Launch.LIVE):
        launch_stop(launch=launch, reason="end of the test", actor=Actor(name="ana"))
        console.until(lambda launch=launch: state_of(launch) in rules.ENDED, "its proved end")


def state_of(launch: Launch) -> str:
    launch.refresh_from_db()
    return launch.state


def assert_whole_or_gone(console, launch: Launch) -> None:
    """The nodes are the witnesses: one container of this generation each was ever made, all run or none."""
    label = f"{launch.replica.name}.g{launch.generation}"
    for host in console.lab.hosts():
        mine = [
            one
            for one in containers.all_containers(host.directory)
            if one.config["labels"]["fleet.launch"] == label
        ]
        if launch.state == rules.READY:
            assert [one.is_running for one in mine] == [True], host.name
        else:
            assert len(mine) <= 1, host.name
            assert not any(one.is_running for one in mine), (host.name, launch.cause)


def assert_log_is_the_nodes_log(console, launch: Launch) -> None:
    """Every line of the node's own file stands in the database once, in order."""
    from fleet.execution.streams import lines_after

    for place in launch.positions.select_related("subject__stream", "node__host"):
        home = console.lab.host(place.node.name).directory / "root" / "home"
        file = home / ".flotilla" / "subjects" / place.subject.name / "out"

        def is_equal(place=place, file=file) -> bool:
            place.subject.stream.refresh_from_db()
            theirs = file.read_bytes().decode(errors="replace").splitlines()
            ours = lines_after(place.subject.stream, 0, 100_000)
            assert [line.number for line in ours] == list(range(1, len(ours) + 1))
            return len(ours) == len(theirs)

        wait_until(is_equal, timeout_s=60, what=f"all lines of {place.node.name}")


def assert_nothing_open(launch: Launch) -> None:
    rows = TrailEntry.objects.filter(object_kind="launch", object_id=launch.public_id)
    doubled = {verb: n for verb, n in Counter(rows.values_list("verb", flat=True)).items() if n > 1}
    assert not doubled
    assert not Command.objects.exclude(state__in=states.TERMINAL).exists()
    assert not Command.objects.exclude(lease_until=None).exists()
    assert not Subject.objects.exclude(state__in=states.SUBJECT_ENDED).exists()
    assert not Member.objects.filter(is_reserved=True).exists()
    assert not Orphan.objects.filter(resolved_at=None).exists()


def assert_web_answers(harmed: HarmedConsole) -> None:
    def answers() -> bool:
        try:
            with urlopen(f"http://127.0.0.1:{harmed.web_port}/healthz", timeout=10) as answer:
                return answer.read() == b"ok"
        except OSError:
            return False

    wait_until(answers, timeout_s=120, what="a healthy web")
