import io
import os
import pwd
from datetime import timedelta

import pytest
from axes.models import AccessAttempt
from django.contrib.auth import get_user_model
from django.core.management import call_command
from django.db.models import F
from django.test import Client

from fleet.models import TrailEntry
from tests.factories import make_person

pytestmark = pytest.mark.django_db


@pytest.fixture
def bo() -> str:
    person = make_person("bo")
    person.set_password(WORD)
    person.save()
    return "bo"


WORD = "a long enough word"


def client(address: str = "127.0.0.1", **headers: str) -> Client:
    return Client(headers={"host": "127.0.0.1", **headers}, REMOTE_ADDR=address)


def fail(name: str, times: int, address: str = "127.0.0.1") -> list[int]:
    return [attempt(client(address), name, "no").status_code for _ in range(times)]


def minutes_pass(minutes: int) -> None:
    AccessAttempt.objects.update(attempt_time=F("attempt_time") - timedelta(minutes=minutes))


def attempt(browser: Client, name: str, word: str, **fields):
    return browser.post("/login/", {"username": name, "password": word, **fields})


def test_it_lets_a_person_in_and_notes_it(bo):
    answer = attempt(client(), bo, WORD, next="/audit/")
    assert (answer.status_code, answer["Location"]) == (302, "/audit/")
    assert TrailEntry.objects.filter(verb="session.begin", object_id="bo").count() == 1


def test_it_never_sends_anybody_to_another_site(bo):
    answer = attempt(client(), bo, WORD, next="https://elsewhere.example/")
    assert answer["Location"] == "/"


def test_a_wrong_name_and_a_wrong_word_look_the_same(bo):
    def words(answer) -> str:
        return answer.content.decode().partition('role="alert">')[2].partition("<")[0]

    wrong_word, wrong_name = attempt(client(), bo, "no"), attempt(client(), "zed", "no")
    assert wrong_word.status_code == wrong_name.status_code == 200
    assert words(wrong_word) == words(wrong_name) != ""


def test_the_sixth_failure_is_told_to_wait_and_so_is_the_right_word(bo):
    browser = client()
    answers = [attempt(browser, bo, "no").status_code for _ in range(6)]
    assert answers[-1] == 429
    late = attempt(browser, bo, WORD)
    assert late.status_code == 429
    assert "Wait 15 minutes" in late.content.decode()
    assert late["Retry-After"] == "900"


def test_a_closed_name_is_open_from_another_address_and_other_names_from_the_same(bo):
    fail("zed", 6)
    assert attempt(client(), bo, WORD).status_code == 302
    fail(bo, 6)
    assert attempt(client(), bo, WORD).status_code == 429
    assert attempt(client("127.0.0.2"), bo, WORD).status_code == 302


@pytest.mark.parametrize("written", ["bo ", "ｂｏ"])
def test_another_spelling_or_browser_of_a_name_counts_as_the_same(bo, written):
    for number in range(5):
        attempt(client(**{"user-agent": f"browser {number}"}), written, "no")
    assert attempt(client(), bo, WORD).status_code == 429


def test_an_address_that_somebody_wrote_into_a_header_is_not_believed(bo):
    for number in range(5):
        attempt(client(**{"x-forwarded-for": f"10.1.1.{number}"}), bo, "no")
    late = client(**{"x-forwarded-for": "10.1.1.9", "x-real-ip": "10.1.1.9"})
    assert attempt(late, bo, WORD).status_code == 429


def test_twenty_failures_under_any_names_close_the_address(bo):
    answers = [attempt(client(), f"name{number}", "no").status_code for number in range(20)]
    assert answers == [200] * 19 + [429]
    assert attempt(client(), bo, WORD).status_code == 429
    assert attempt(client("127.0.0.2"), bo, WORD).status_code == 302


def test_an_account_of_ones_own_does_not_buy_guesses_at_others(bo):
    for number in range(19):
        fail(f"name{number}", 1)
        if not number % 4:
            assert attempt(client(), bo, WORD).status_code == 302
    assert fail("name19", 1) == [429]
    assert attempt(client(), bo, WORD).status_code == 429


def test_a_success_forgives_the_failures_of_its_own_name(bo):
    fail(bo, 4)
    assert attempt(client(), bo, WORD).status_code == 302
    assert fail(bo, 4) == [200] * 4


def test_slow_failures_add_up_until_fifteen_minutes_pass_without_one(bo):
    for _ in range(4):
        fail(bo, 1)
        minutes_pass(10)
    assert fail(bo, 1) == [429]
    minutes_pass(14)
    assert attempt(client(), bo, WORD).status_code == 429
    minutes_pass(2)
    assert attempt(client(), bo, WORD).status_code == 302


def test_tries_while_a_name_is_closed_do_not_close_it_for_longer(bo):
    fail(bo, 5)
    minutes_pass(14)
    fail(bo, 3)
    minutes_pass(2)
    assert attempt(client(), bo, WORD).status_code == 302


@pytest.mark.parametrize(
    ("command", "subject"),
    [
        (["axes_reset_username", "bo"], ("person", "bo")),
        (["axes_reset_ip", "127.0.0.1"], ("address", "127.0.0.1")),
        (["axes_reset_ip_username", "127.0.0.1", "bo"], ("person", "bo")),
        (["axes_reset"], ("address", "all")),
    ],
)
def test_lifting_a_lock_is_told_once_with_who_did_it(bo, command, subject, monkeypatch):
    monkeypatch.delenv("SUDO_UID", raising=False)
    fail(bo, 5)
    for _ in range(2):  # the second finds nothing to lift
        call_command(*command, stdout=io.StringIO())
    told = TrailEntry.objects.get(verb="sign_in.unlock")
    assert (told.actor, told.source) == (f"shell:{pwd.getpwuid(os.getuid()).pw_name}", "command")
    assert (told.object_kind, told.object_id) == subject
    assert attempt(client(), bo, WORD).status_code == 302


def test_lifting_a_lock_under_sudo_names_who_called_it(bo, monkeypatch):
    monkeypatch.setenv("SUDO_UID", "4294967")  # nobody's number
    fail(bo, 5)
    call_command("axes_reset", stdout=io.StringIO())
    assert TrailEntry.objects.get(verb="sign_in.unlock").actor == "shell:4294967"


def test_forgiving_by_a_success_or_by_time_lifts_no_lock_and_is_not_told(bo):
    fail(bo, 4)
    attempt(client(), bo, WORD)
    fail(bo, 5)
    minutes_pass(16)
    attempt(client(), bo, WORD)
    assert not TrailEntry.objects.filter(verb="sign_in.unlock").exists()


def test_a_closed_name_and_an_unknown_closed_name_look_the_same(bo):
    def words(name: str) -> str:
        fail(name, 5)
        page = attempt(client(), name, "no")
        return page.content.decode().replace(page["X-Request-ID"], "")

    assert words(bo) == words("nobody")


def test_signing_out_takes_a_post_and_ends_the_session(signed_in):
    browser = signed_in("ana")
    assert browser.get("/logout/").status_code == 405
    key = {"idempotency_key": "0e3cbb3e-6f6e-4e0b-9c39-2c2ad1e1a001"}
    assert browser.post("/logout/", key).status_code == 302
    assert browser.get("/fleet/").status_code == 302


def test_it_says_where_a_person_returns_to():
    page = client().get("/login/?next=/nodes/h100-001/").content.decode()
    assert "After signing in you return to /nodes/h100-001/." in page


@pytest.mark.parametrize(("wanted", "lang"), [("zh-hans", "zh-hans"), ("en", "en"), ("tlh", "en")])
def test_the_language_is_kept_in_a_cookie(wanted, lang):
    browser = client()
    key = {"idempotency_key": "0e3cbb3e-6f6e-4e0b-9c39-2c2ad1e1a002"}
    answer = browser.post("/language/", {"language": wanted, "next": "/login/", **key})
    assert answer["Location"] == "/login/"
    assert f'<html lang="{lang}"' in browser.get("/login/").content.decode()


def test_the_theme_is_kept_and_an_unknown_one_follows_the_system(ana):
    key = {"idempotency_key": "0e3cbb3e-6f6e-4e0b-9c39-2c2ad1e1a003"}
    ana.post("/theme/", {"theme": "light", **key})
    assert 'data-theme="light"' in ana.get("/fleet/").content.decode()
    key = {"idempotency_key": "0e3cbb3e-6f6e-4e0b-9c39-2c2ad1e1a004"}
    ana.post("/theme/", {"theme": "'><script>", **key})
    assert "data-theme=" not in ana.get("/fleet/").content.decode().partition("<head>")[0]


def test_a_session_of_a_person_who_was_closed_is_over(signed_in):
    browser = signed_in("ana")
    get_user_model().objects.filter(username="ana").update(is_active=False)
    assert browser.get("/fleet/").status_code == 302
