"""What no browser sends: bytes that stand for no text, numbers without end, names of a megabyte, foreign pages."""

import json
import uuid
from urllib.parse import quote

import pytest

from console.origins import is_own_page
from fleet.log_consumer import _read_request
from fleet.models import Hold
from fleet.selectors.people import may_hear
from tests.factories import make_node, make_person

DIGITS = "9" * 5000


@pytest.fixture
def ana(client, db):
    client.force_login(make_person("ana"))
    return client


@pytest.mark.parametrize(
    "address",
    ["/nodes/%00/", "/replicas/%00/", "/audit/?q=%00", "/audit/?actor=%00", "/audit/?format=csv&q=%00",
     "/jump/?q=%00", "/replicas/%00/gen/1/log/", "/fleet/?%00=1"],
)  # fmt: skip
def test_an_address_with_a_nul_is_refused_in_words(ana, address):
    answer = ana.get(address)
    assert answer.status_code == 400
    assert "NUL" in answer.content.decode()


@pytest.mark.parametrize("field", ["reason", "kind", "hours", "x\0"])
def test_a_field_with_a_nul_is_refused_and_changes_nothing(ana, field):
    node = make_node()
    posted = {"kind": "cordon", "reason": "fans", "base_version": node.version, field: "a\0b"}
    answer = ana.post(
        f"/nodes/{node.name}/holds/", {"idempotency_key": str(uuid.uuid4()), **posted}
    )
    assert answer.status_code == 400
    assert not Hold.objects.exists()


@pytest.mark.parametrize(
    ("reason", "status"),
    [("x" * 500, 302), ("x\r\n" * 250, 302), ("x" * 501, 422), ("风" * 501, 422)],
)
def test_a_reason_of_up_to_500_characters_is_taken_whole_and_a_longer_one_not_at_all(
    ana, reason, status
):
    node = make_node()
    posted = {"kind": "cordon", "reason": reason, "base_version": node.version}
    answer = ana.post(
        f"/nodes/{node.name}/holds/", {"idempotency_key": str(uuid.uuid4()), **posted}
    )
    assert answer.status_code == status
    told = "reason: expected at most 500 characters, found 501. Shorten it, then send again."
    assert (told in answer.content.decode()) == (status == 422)
    assert [hold.reason for hold in Hold.objects.all()] == [reason.strip()] * (status == 302)


def test_the_name_of_a_field_has_a_limit_too_and_is_not_told_whole(ana):
    posted = {"idempotency_key": str(uuid.uuid4()), "n" * 201: "x"}
    answer = ana.post("/brake/1/clear/", posted)
    assert answer.status_code == 422
    assert f"{'n' * 20}…: expected at most 200 characters, found 201" in answer.content.decode()


@pytest.mark.parametrize("address", ["/audit/?before=", "/fleet/table/?page=", "/fleet/?page="])
@pytest.mark.parametrize("number", [DIGITS, "99999999999999999999", "-1", "\u0661", "1.5"])
def test_a_number_without_end_is_no_page(ana, address, number):
    assert ana.get(address + quote(number)).status_code == 200


@pytest.mark.django_db
def test_a_name_longer_than_any_is_a_wrong_name(client):
    answer = client.post("/login/", {"username": "x" * 100_000, "password": "y"})
    assert answer.status_code == 200
    assert "Name or password is wrong" in answer.content.decode()


@pytest.mark.django_db
def test_a_password_longer_than_any_is_a_wrong_password(client):
    make_person("bo")
    answer = client.post("/login/", {"username": "bo", "password": "x" * 100_000})
    assert answer.status_code == 200
    assert "Name or password is wrong" in answer.content.decode()


@pytest.mark.django_db
def test_a_topic_with_a_nul_may_be_heard_by_nobody():
    assert not may_hear(make_person("ana"), ["node-\0"])


@pytest.mark.parametrize("line", [float("inf"), float("nan"), "x", None, []])
def test_a_cursor_that_is_no_number_is_not_understood(line):
    assert _read_request(json.dumps({"after": {"1": line}}), {1}) is None


def test_a_socket_is_opened_by_a_page_of_the_same_host_and_port_only():
    host = "127.0.0.1:8000"
    assert is_own_page("http://127.0.0.1:8000", host)
    assert is_own_page("https://console.example", "console.example")
    for origin in (
        "http://127.0.0.1:9999",
        "http://127.0.0.1",
        "null",
        "",
        "http://[",
        "file://" + host,
    ):
        assert not is_own_page(origin, host)
    assert not is_own_page("http://", "")
