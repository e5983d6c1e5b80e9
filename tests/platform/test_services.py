"""The servers of a test run really answer, with the settings that the tests load."""

import tempfile
from pathlib import Path

import pytest
from django.db import connection

from tests import services


@pytest.mark.django_db
def test_the_database_is_a_real_postgres_in_utf8_and_utc():
    with connection.cursor() as cursor:
        cursor.execute("SELECT current_setting('server_encoding'), current_setting('TimeZone')")
        assert cursor.fetchone() == ("UTF8", "UTC")


def test_the_cache_keeps_streams(redis_client):
    redis_client.xadd("lines", {"text": "a"})
    assert redis_client.xlen("lines") == 1


def test_a_child_sees_the_test_database(run_child, child_env):
    child = run_child(["sh", "-c", 'echo "$DATABASE_URL"'])
    assert child.wait(timeout=20) == 0
    assert child.log.strip().rpartition("/")[2].startswith("test_")


def test_a_killed_run_is_swept_by_the_next_one(run_child):
    gone = run_child(["true"])
    gone.wait(timeout=20)
    stale = Path(tempfile.mkdtemp(prefix="flotilla-test-"))
    (stale / "owner").write_text(str(gone.pid))
    services.TestServices().remove()
    assert not stale.exists()
