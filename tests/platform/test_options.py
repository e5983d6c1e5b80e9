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


def test_wrong_use_exits_2_and_prints_nothing_on_stdout(tmp_path):
    env = {**os.environ, "HOST": "0.0.0.0", "LAB_NODES": "2", "STATE_DIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-m", "console.embedded.run_all"], env=env, capture_output=True, text=True
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert "127.0.13" in done.stderr
