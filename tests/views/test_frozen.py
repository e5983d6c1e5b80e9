"""A page says when nothing is decided any more: its facts grow old though everything looks as before."""

from datetime import timedelta

import pytest
from django.utils import timezone

from fleet.models import Tick

pytestmark = pytest.mark.django_db
WORDS = "nothing is decided, the fleet runs on"


def ticked(**ages_s: float) -> None:
    for name, age_s in ages_s.items():
        Tick.objects.update_or_create(
            name=name, defaults={"at": timezone.now() - timedelta(seconds=age_s)}
        )


def text_of(client) -> str:
    return client.get("/").content.decode()


def test_while_the_conductors_tick_nothing_is_said(ana):
    ticked(sweep=1, rollouts=2)
    assert "Frozen" not in text_of(ana)


@pytest.mark.parametrize("part", ["sweep", "launches", "gates", "gateways", "rollouts"])
def test_one_tick_that_stands_still_is_enough(ana, part):
    ticked(sweep=1)
    ticked(**{part: 75})
    found = text_of(ana)
    assert "Frozen for 1:15" in found
    assert WORDS in found


def test_a_console_that_never_ticked_says_so(ana):
    assert "Frozen: nothing was decided yet, no conductor runs" in text_of(ana)
