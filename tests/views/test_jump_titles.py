"""The jump field knows every page of the navigation by its title, in both languages, and every run by its id."""

import re

import pytest
from django.urls import reverse
from django.utils.translation import gettext, override

from fleet.selectors.jump import _PAGES
from fleet.services.network import net_run_start
from tests.factories import make_actor, make_node, make_person
from tests.network import make_leaves, make_matrix
from tests.views.conftest import ROOT

pytestmark = pytest.mark.django_db


def jump(client, words: str) -> str:
    return client.get("/jump/", {"q": words}).url


@pytest.mark.parametrize("title", sorted(_PAGES))
def test_a_page_is_found_by_its_title(ana, signed_in, title):
    where = reverse(_PAGES[title])
    assert jump(ana, title.upper()) == where
    with override("zh-hans"):
        chinese = gettext(title)
    assert jump(signed_in("bo", language="zh-hans"), chinese) == where


def test_every_page_of_the_navigation_has_a_title_that_leads_to_it():
    nav = (ROOT / "templates/components/_nav.html").read_text(encoding="utf-8")
    assert set(re.findall(r'href="\{% url "([\w-]+)" %\}"', nav)) <= set(_PAGES.values())


def test_the_beginning_of_a_title_is_enough_and_two_letters_are_a_filter(ana):
    assert jump(ana, "gold") == "/golden/"
    assert jump(ana, "network m") == "/network/matrix/"
    assert jump(ana, "go") == "/fleet/table/?q=go"


def test_a_node_called_like_a_page_comes_first(ana):
    make_node("reader")
    assert jump(ana, "reader") == "/nodes/reader/"


def test_a_network_run_and_a_row_of_the_matrix_are_found_by_their_ids(ana):
    row = make_matrix(signed_by=make_person("bo"))
    run = net_run_start(nodes=make_leaves(2), actor=make_actor(), user=make_person())
    assert jump(ana, run.public_id.lower()) == f"/network/{run.public_id}/"
    assert jump(ana, row.public_id) == f"/network/matrix/#m-{row.pk}"
    assert jump(ana, "NET-9999") == "/fleet/table/?q=NET-9999"
