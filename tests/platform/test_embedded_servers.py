"""Where the embedded servers live, which binaries they use, and that they run as root and as a user."""

import os
import stat
from pathlib import Path

import psycopg
import pytest

from console.embedded import places, postgres, redis
from tests.services import TestServices


def test_a_secret_is_made_once_and_is_private(tmp_path):
    path = tmp_path / "secret"
    first = places.secret_file(path)
    assert places.secret_file(path) == first
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_folder_below_a_private_one_is_not_walkable(tmp_path):
    (tmp_path / "private" / "inside").mkdir(parents=True)
    (tmp_path / "private").chmod(0o700)
    assert not places.is_walkable(tmp_path / "private" / "inside")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root hands the database to nobody")
def test_root_moves_the_database_out_of_a_private_folder(tmp_path):
    tmp_path.chmod(0o700)
    home = places.server_home(tmp_path, "postgres", for_nobody=True)
    try:
        assert (tmp_path / "postgres").is_symlink()
        assert places.is_walkable(home)
        assert places.server_home(tmp_path, "postgres", for_nobody=True) == home
    finally:
        home.rmdir()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root needs a copy of the binaries")
def test_binaries_that_nobody_can_reach_are_copied(tmp_path, monkeypatch):
    monkeypatch.setattr(places, "is_walkable", lambda path: False)
    copied = postgres._reachable(postgres.find_binaries(), tmp_path)
    assert copied.is_relative_to(tmp_path)
    assert postgres.major_version(copied) == postgres.major_version(postgres.find_binaries())


def test_a_system_postgres_stands_in_for_the_wheel(monkeypatch):
    monkeypatch.setattr(postgres, "find_spec", lambda name: None)
    folders = list(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    if not folders:
        pytest.skip("no PostgreSQL of the system on this machine")
    assert (postgres.find_binaries() / "initdb").exists()


def test_without_any_server_the_message_says_what_to_do(monkeypatch):
    for module in (postgres, redis):
        monkeypatch.setattr(module, "find_spec", lambda name: None)
    monkeypatch.setattr(postgres, "_SYSTEM_FOLDERS", ())
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(postgres.PostgresError, match="set DATABASE_URL"):
        postgres.find_binaries()
    with pytest.raises(redis.RedisError, match="set REDIS_URL"):
        redis.find_binary()


def test_data_of_another_major_version_is_refused(tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "PG_VERSION").write_text("9\n")
    with pytest.raises(postgres.PostgresError, match="was made by PostgreSQL 9"):
        postgres.prepare(tmp_path, 5432, "secret")


def test_strangers_on_this_machine_need_the_password(servers):
    url = os.environ["DATABASE_URL"].replace(servers.password, "wrong")
    with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        psycopg.connect(url)
    wrong = os.environ["REDIS_URL"].replace(servers.password, "wrong")
    assert "password" in redis.find_problem(wrong)


def test_a_second_pair_of_servers_runs_beside_the_first():
    other = TestServices()
    try:
        other.start()
        assert postgres.find_problem(other.environment()["DATABASE_URL"]) == ""
    finally:
        left = other.stop()
        other.remove()
    assert left == []
    assert not Path(other.directory).exists()
