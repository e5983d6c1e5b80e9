"""A unit launched with its pool's second release: the answer itself proves which revision gave it."""

import pytest

from tests.flows.test_launch import answer_of

pytestmark = [pytest.mark.lab, pytest.mark.django_db(transaction=True)]


def test_the_second_release_answers_as_its_own_revision_and_not_as_the_first(console, unit):
    from fleet.services.trail import Actor
    from releases.models import Launch
    from releases.selectors.releases import releases_to_launch
    from releases.services.launches import launch_create

    first, second = releases_to_launch(unit.pool)
    launch = launch_create(replica=unit, release=second, actor=Actor(name="ana"))

    def is_ready() -> bool:
        launch.refresh_from_db()
        assert launch.state in Launch.LIVE, launch.cause
        return launch.state == "ready"

    console.until(is_ready, "the unit to be ready with the second release")
    of_first, of_second = first.content["golden"][0], second.content["golden"][0]
    answer = answer_of(launch, of_second["messages"][0]["content"])
    assert answer == of_second["expect"] != of_first["expect"]
