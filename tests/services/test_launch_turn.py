"""No launch waits for ever behind slow ones, and one that warms up costs a tick little."""

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from fleet.execution.models import Command
from releases.models import Launch, Release
from releases.services.launch_effects import dispatch_golden
from releases.services.launch_tick import launch_advance, next_in_turn
from releases.services.launches import launch_create
from tests.browser.scene import CONTENT
from tests.factories import make_actor, make_node, make_pool, make_replica


def test_the_one_behind_the_last_comes_first():
    assert next_in_turn([2, 5, 9], 5) == [9, 2, 5]


def test_a_last_one_that_has_ended_still_gives_the_place():
    assert next_in_turn([2, 5, 9], 4) == [5, 9, 2]


def test_behind_the_end_it_begins_anew():
    assert next_in_turn([2, 5, 9], 9) == [2, 5, 9]
    assert next_in_turn([], 9) == []


@pytest.fixture
def warming(db) -> Launch:
    pool = make_pool()
    release = Release.objects.create(
        pool=pool, title="glm-5.2", state="sealed", content=CONTENT, content_sha256="c" * 64
    )
    nodes = [make_node("h100-001"), make_node("h100-002")]
    unit = make_replica("glm52-r1", pool=pool, nodes=nodes)
    launch = launch_create(replica=unit, release=release, actor=make_actor())
    Launch.objects.update(state="warming")
    dispatch_golden(launch, attempt=1)
    return launch


def test_a_tick_reads_the_golden_round_of_a_warming_launch_once(warming):
    with CaptureQueriesContext(connection) as asked:
        launch_advance(warming.pk)
    assert sum("/golden/" in query["sql"] for query in asked) == 1


def test_a_golden_round_without_an_answer_is_asked_anew_once(warming):
    Command.objects.update(state="failed")
    for _ in range(2):  # the second tick waits for the new round
        launch_advance(warming.pk)
    rounds = {
        purpose.rpartition("#")[2] for purpose in Command.objects.values_list("purpose", flat=True)
    }
    assert rounds == {"1", "2"}
