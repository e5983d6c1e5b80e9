"""Two people and one wave: Ana watches her desk, Bo approves on a telephone, and her page tells her by itself."""

import pytest

from tests.waiting import wait_until

pytestmark = pytest.mark.django_db(transaction=True)


def in_sight(page, locator) -> bool:
    box, bar = locator.bounding_box(), page.locator(".tabbar").bounding_box()
    return box["y"] >= 0 and box["y"] + box["height"] <= bar["y"]


AGE_ALL_SESSIONS = """
import django
django.setup()
from django.contrib.sessions.backends.db import SessionStore
from django.contrib.sessions.models import Session
for row in Session.objects.all():
    session = SessionStore(row.session_key)
    session["started_at"] -= 3660
    session.save()
"""


def test_an_old_sign_in_is_asked_for_the_password_on_the_card(open_page, console_python):
    phone = open_page("/inbox/", look="phone", person="bo")
    console_python(AGE_ALL_SESSIONS)
    phone.goto("/inbox/")
    button = phone.get_by_role("button", name="Approve wave 3")
    phone.get_by_label("Note, kept in the audit log").fill("read it twice")
    button.click()
    assert phone.url.endswith("/inbox/"), "without a password it is not sent"
    password = phone.get_by_label("Your password, because your last sign-in is older than an hour")
    assert password.bounding_box()["height"] >= 44
    password.fill("wrong")
    button.click()
    phone.wait_for_selector("text=The password is wrong.")
    # The page asks for everything anew once its socket is up: what was refused stays to be mended.
    holds = "!document.querySelector('[data-waits]').hidden"
    wait_until(lambda: phone.evaluate(holds), what="the newer card, held back")
    assert phone.locator(".flashnote").is_visible()
    assert phone.get_by_label("Note, kept in the audit log").input_value() == "read it twice"
    assert password.input_value() == ""
    assert phone.evaluate("document.documentElement.scrollWidth <= window.innerWidth")

    phone.get_by_label("Note, kept in the audit log").fill("")
    # past the empty field: only words are asked for
    phone.get_by_role("button", name="Reject").click()
    phone.wait_for_selector("text=A rejection needs a reason.")


def test_bo_approves_on_a_telephone_and_anas_page_says_so(open_page):
    desk = open_page("/rollouts/RO-0001/", person="ana")
    assert "Needs role approver" in desk.locator("#approval").inner_text()
    assert desk.get_by_role("button", name="Approve wave 3").is_disabled()

    phone = open_page("/inbox/", look="phone", person="bo")
    card = phone.locator("#approval")
    for words in ("Wave 3 of RO-0001", "Drain dsv4-r3", "promised 12", "floor 3", "Canary clean"):
        assert words in card.inner_text()
    assert phone.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    button = card.get_by_role("button", name="Approve wave 3")
    assert in_sight(phone, button), "its buttons are in reach before anything is scrolled"
    assert button.bounding_box()["height"] >= 44
    button.click()
    phone.wait_for_url("**/rollouts/RO-0001/")
    signed = phone.locator("#signed")
    assert "Wave 3: Approved" in signed.inner_text()

    desk.wait_for_selector("#signed :text('Wave 3: Approved')")
    assert desk.locator("#approval").count() == 0


def roll_back(page, typed: str) -> None:
    form = page.locator("#rollout-acts form").filter(has_text="Stop and roll back")
    form.get_by_label("Reason").fill("wrong answers")
    form.get_by_label("Type RO-0002 to confirm").fill(typed)
    form.get_by_role("button").click()


def test_rolling_back_takes_the_id_typed_and_nobody_else(open_page):
    page = open_page("/rollouts/RO-0002/", person="ana")
    roll_back(page, "RO-0001")
    page.wait_for_selector("text=Type RO-0002 exactly to stop and roll back.")
    page.goto("/rollouts/RO-0002/")
    roll_back(page, "RO-0002")
    page.wait_for_selector("#rollout-state[data-state=rolling_back]")
