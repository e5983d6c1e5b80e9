"""`manage.py lab`: exit codes, one JSON object, lines for people."""

import io
import json
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command

from fleet.lab.node import Lab
from tests.lab.conftest import claimed_block

pytestmark = pytest.mark.lab


def lab_command(lab_dir: Path, *words: str) -> str:
    out = io.StringIO()
    call_command("lab", "--dir", str(lab_dir), *words, stdout=out)
    return out.getvalue()


def refused(lab_dir: Path, *words: str) -> int:
    with pytest.raises((CommandError, SystemExit)) as caught:
        lab_command(lab_dir, *words)
    error = caught.value
    return error.code if isinstance(error, SystemExit) else error.returncode


def test_a_lab_is_run_from_the_command_line(lab_dir: Path) -> None:
    assert refused(lab_dir, "status") == 3

    with claimed_block() as block:
        up = lab_command(lab_dir, "up", "--nodes", "2", "--block", block, "--scale", "launch=600",
                         "--weights", "none", "--json")  # fmt: skip
        assert json.loads(up)["scales"]["launch"] == 600
        assert Lab(lab_dir).is_running()

        fault = json.loads(
            lab_command(lab_dir, "fault", "h100-002", "gpu.xid79", "gpu=1", "--json")
        )
        assert fault == {"id": "f-0001", "name": "gpu.xid79"}
        assert refused(lab_dir, "fault", "h100-002", "gpu.xid99") == 1
        assert refused(lab_dir, "fault", "h100-002", "gpu.xid79", "gpu") == 2
        assert refused(lab_dir, "state", "h100-002", "gpu.9") == 2
        lines = lab_command(lab_dir, "status").splitlines()
        assert len(lines) == 3
        assert "faults gpu.xid79" in lines[1]
        assert f"gateway {block}.253 ssh up proxy " in lines[2]
        assert lab_command(lab_dir, "state", "h100-002", "gpu.1.health") == '"lost"\n'
        assert refused(lab_dir, "clear", "h100-002") == 1
        assert lab_command(lab_dir, "unknown", "--json") == '{"unknown": []}\n'
        assert lab_command(lab_dir, "down") == "the lab is down\n"

    assert not lab_dir.exists()
    assert refused(lab_dir, "down") == 3


def test_the_faults_are_listed_with_their_arguments(lab_dir: Path) -> None:
    names = [row["name"] for row in json.loads(lab_command(lab_dir, "fault", "--json"))["faults"]]

    assert {"rank.kill", "ssh.silent", "node.dead", "oom.load", "gateway.kill"} <= set(names)
    assert "gpu=0 on=head" in lab_command(lab_dir, "fault")
