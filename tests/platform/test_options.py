"""What `make up` accepts from its environment."""

import os
import subprocess
import sys

import pytest

from console.embedded import claim, options, ports


def test_the_defaults_are_the_documented_ones():
    found = options.read_options({})
    assert (found.host, found.port, found.lab_nodes, found.lab_launch, found.hands) == (
        "127.0.0.1",
        8000,
        48,
        "glm52",
        4,
    )
    assert found.state_dir.name == ".state"


@pytest.mark.parametrize("name", ["PORT", "LAB_NODES", "HANDS"])
@pytest.mark.parametrize("value", ["x", "-1", "1.5", "99999999", "٣"])
def test_it_refuses_what_is_no_number_in_range(name, value):
    with pytest.raises(options.WrongUse, match=f"{name}: expected a whole number"):
        options.read_options({name: value})


def test_every_address_is_refused_while_the_lab_is_on():
    with pytest.raises(options.WrongUse, match="LAB_NODES=0"):
        options.read_options({"HOST": "0.0.0.0"})
    assert options.read_options({"HOST": "0.0.0.0", "LAB_NODES": "0"}).host == "0.0.0.0"


def test_a_second_claim_says_who_holds_the_folder(tmp_path):
    with (
        claim.claim_state_dir(tmp_path),
        pytest.raises(claim.InUse, match=f"process {os.getpid()}"),
    ):
        claim.claim_state_dir(tmp_path)
    claim.claim_state_dir(tmp_path).close()


def test_the_holder_of_a_port_is_named():
    holder, port = ports.reserve_port()
    with holder:
        holder.listen()
        assert not ports.is_free("127.0.0.1", port)
        assert f"process {os.getpid()}" in ports.holder_of(port)
    assert ports.is_free("127.0.0.1", port)


@pytest.mark.parametrize("found", ["glm5", "all,glm52", "none,glm52", "glm52,", "GLM52"])
def test_it_refuses_pools_that_are_none(found):
    with pytest.raises(options.WrongUse, match="LAB_LAUNCH: expected all, none, or pools of glm51"):
        options.read_options({"LAB_LAUNCH": found})


@pytest.mark.parametrize("found", ["all", "none", "glm52", "glm51, dsv4"])
def test_it_takes_pools_that_the_lab_has(found):
    assert options.read_options({"LAB_LAUNCH": found}).lab_launch == found.replace(" ", "")


WRONG = {
    "LAB_LAUNCH": "glm5", "HOST": "203.0.113.9", "TIME_SCALE": "fast", "DEBUG": "maybe", "BEHIND_TLS": "2",
    "NODE_CIDRS": "10.0.0.1/8", "SITE_ZONE": "Mars/Base", "LOG_LEVEL": "loud", "REDIS_URL": "redis://h:1/3",
    "DATABASE_URL": "mysql://h/x", "SSH_KEY_FILE": "/no/such/key", "STATE_DIR": "/proc/nowhere",
}  # fmt: skip


@pytest.mark.parametrize(
    ("name", "value"), [("HOST", "0.0.0.0"), *WRONG.items()], ids=lambda text: text
)
def test_a_wrong_variable_is_told_before_anything_starts(tmp_path, name, value):
    kept = {key: os.environ[key] for key in ("PATH", "HOME") if key in os.environ}
    env = {**kept, "LAB_NODES": "2", "STATE_DIR": str(tmp_path / "state"), name: value}
    done = subprocess.run(
        [sys.executable, "-m", "console.embedded.run_all"], env=env, capture_output=True, text=True
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert name in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "state").exists()


def test_an_empty_variable_counts_as_not_set():
    env = {**os.environ, **dict.fromkeys(["DATABASE_URL", "SITE_ZONE", "PORT", "NODE_CIDRS"], "")}
    done = subprocess.run(
        [sys.executable, "-c", "from console import settings as s; print(s.PORT, s.SITE_ZONE)"],
        env=env, capture_output=True, text=True,
    )  # fmt: skip
    assert done.stdout == "8000 Asia/Shanghai\n"


def test_a_command_with_a_wrong_variable_is_wrong_use():
    done = subprocess.run(
        [sys.executable, "manage.py", "trail_verify"],
        env={**os.environ, "SITE_ZONE": "Mars/Base"}, capture_output=True, text=True, cwd=options._ROOT,
    )  # fmt: skip
    assert done.returncode == 2
    assert done.stderr.startswith("SITE_ZONE: expected a time zone")
