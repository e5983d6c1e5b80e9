"""A two-node unit of the real rehearsed engine on real nodes, and the lab's hand in its fate."""

import json
import shlex
import urllib.error
import urllib.request
from collections.abc import Iterator

import pytest

from fleet.lab import birth, containers, releases
from fleet.lab.node import Lab
from tests.lab.conftest import FAST, Run, short_directory, ssh_runner
from tests.waiting import wait_until

pytestmark = pytest.mark.lab
RELEASE = releases.SEED_RELEASES["glm52"]


@pytest.fixture(scope="module")
def real(block: str) -> Iterator[Lab]:
    directory = short_directory()
    lab = Lab(directory / "lab").up(2, block=block, scales=FAST)
    yield lab
    lab.down()
    directory.rmdir()


@pytest.fixture
def nodes(real: Lab) -> Iterator[Run]:
    yield ssh_runner(real)
    real.reset()


def docker_run(lab: Lab, position: int) -> str:
    rows = lab.inventory()
    root = lab.host(rows[position]["name"]).directory / "root" / "models"
    head = rows[0]["address"]
    words = [
        "docker", "run", "-d", "--name", f"fc-glm52-r1-n{position}-0000abcd", "--gpus", "all",
        "--network", "host", "--ipc", "host", "--ulimit", "memlock=-1",
        "-v", f"{birth.model_directory(root, RELEASE['model'])}:/model:ro",
        "-e", f"VLLM_HOST_IP={rows[position]['address']}", "-e", "NCCL_DEBUG=INFO",
        "--label", "fleet.unit=glm52-r1", "--label", f"fleet.position={position}",
        RELEASE["image"], "/model", "--served-model-name", RELEASE["served_model_name"],
        "--host", "0.0.0.0", "--port", "8000", "--distributed-executor-backend", "mp",
        "--nnodes", "2", "--node-rank", str(position), *(["--headless"] if position else []),
        "--master-addr", head, "--master-port", "29500",
        "--pipeline-parallel-size", "2", "--tensor-parallel-size", "8", *RELEASE["args"],
    ]  # fmt: skip
    return shlex.join(words)


def health(lab: Lab) -> int:
    url = f"http://{lab.inventory()[0]['address']}:8000/health"
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        error.close()
        return error.code
    except OSError:
        return 0


def start_unit(lab: Lab, nodes: Run) -> None:
    for position in (0, 1):
        done = nodes(docker_run(lab, position), node=position + 1)
        assert done.returncode == 0, done.stderr
    wait_until(lambda: health(lab) == 200, 60, "the unit to serve")


def states(nodes: Run) -> list[str]:
    answers = [nodes("docker ps -a --format json", node=node).stdout for node in (1, 2)]
    return [json.loads(answer)["State"] for answer in answers]


def test_a_unit_serves_and_its_follower_dies_unnoticed_by_the_head(real: Lab, nodes: Run) -> None:
    start_unit(real, nodes)
    apps = nodes("nvidia-smi --query-compute-apps=process_name --format=csv,noheader", node=2)
    assert sorted(apps.stdout.split()) == [f"VLLM::Worker_PP1_TP{n}" for n in range(8)]

    real.fault("glm52-r1", "rank.kill", on="follower", gpu=3)

    wait_until(lambda: states(nodes) == ["running", "exited"], 20, "the follower to end")
    assert health(real) == 200


def test_a_dead_node_takes_its_half_of_the_unit(real: Lab, nodes: Run) -> None:
    start_unit(real, nodes)

    real.fault("h100-002", "node.dead")
    real.clear("h100-002")

    done = nodes("docker ps -a --format json", node=2)
    assert json.loads(done.stdout)["Status"].startswith("Exited (255)")
    assert containers.running(real.host("h100-002").directory) == []


def test_a_unit_that_runs_out_of_memory_exits_with_1(real: Lab, nodes: Run) -> None:
    real.fault("h100-001", "oom.load", gpu=5)
    nodes(docker_run(real, 0))
    nodes(docker_run(real, 1), node=2)

    wait_until(lambda: states(nodes)[0] == "exited", 60, "the head to give up")

    row = json.loads(nodes("docker ps -a --format json").stdout)
    assert row["Status"].startswith("Exited (1)")
    log = nodes("docker logs fc-glm52-r1-n0-0000abcd 2>&1").stdout
    assert "torch.OutOfMemoryError: CUDA out of memory" in log


def test_a_lab_that_was_switched_off_finds_its_containers_lost(real: Lab, nodes: Run) -> None:
    start_unit(real, nodes)
    block = real.record()["block"]
    real.down(keep=True)

    real.up(2, block=block)

    for node in (1, 2):
        row = json.loads(ssh_runner(real)("docker ps -a --format json", node=node).stdout)
        assert row["Status"].startswith("Exited (255)")
