"""/healthz names the first part that fails, whatever it is."""

from datetime import timedelta

import pytest
from django.db import connections
from django.db.models.functions import Now

from console import health
from fleet.models import Tick

pytestmark = pytest.mark.django_db


@pytest.fixture
def ticking():
    Tick.objects.create(name="sweep", at=Now())


def test_it_says_ok_when_all_parts_answer(client, ticking):
    answer = client.get("/healthz")
    assert (answer.status_code, answer.content) == (200, b"ok")
    assert "no-cache" in answer["Cache-Control"]


def test_it_names_the_conductor_when_none_ever_ticked(client):
    answer = client.get("/healthz")
    assert (answer.status_code, answer.content) == (503, b"conductor")


def test_it_names_the_conductor_when_the_last_tick_is_old(client, ticking):
    with connections["default"].cursor() as cursor:
        cursor.execute("UPDATE fleet_tick SET at = at - interval '31 seconds'")
    assert client.get("/healthz").content == b"conductor"


def test_it_names_the_conductor_when_one_tick_of_several_is_old(client, ticking):
    Tick.objects.create(name="launches", at=Now() - timedelta(seconds=31))
    assert client.get("/healthz").content == b"conductor"


def test_it_names_redis_when_that_is_gone(client, ticking, settings, free_port):
    settings.REDIS_URL = f"redis://127.0.0.1:{free_port()}"
    answer = client.get("/healthz")
    assert (answer.status_code, answer.content) == (503, b"redis")


def test_it_names_postgres_when_that_is_gone(client, monkeypatch, free_port):
    elsewhere = connections.create_connection("default")
    elsewhere.settings_dict = {**elsewhere.settings_dict, "PORT": str(free_port())}
    monkeypatch.setattr(health, "connection", elsewhere)
    answer = client.get("/healthz")
    assert (answer.status_code, answer.content) == (503, b"postgres")


def test_it_changes_nothing_and_refuses_to_be_posted_to(client, ticking):
    assert client.post("/healthz").status_code in {403, 405}
    assert client.head("/healthz").status_code == 200
