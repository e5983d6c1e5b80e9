"""A page says when nothing is decided any more: its facts grow old though everything looks as before."""

import re
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


def text_of(client, address: str = "/") -> str:
    page = client.get(address).content.decode()
    return re.sub(r"</?span[^>]*>", "", page.partition('id="frozen"')[2].partition("</svg>")[2])


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


def test_the_status_bar_asks_for_it_anew_and_it_goes_away(ana):
    ticked(sweep=75)
    shown = ana.get("/frozen/").content.decode()
    assert "Frozen for 1:15" in text_of(ana, "/frozen/")
    assert 'hx-get="/frozen/" hx-trigger="pulse from:body"' in shown
    ticked(sweep=1)
    shown = ana.get("/frozen/").content.decode()
    assert "Frozen" not in shown
    assert 'role="status" hidden' in shown
