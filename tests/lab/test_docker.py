"""docker on a node: what the console's shim does with containers, and docker's own refusals."""

import json
import os
import signal
import subprocess
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest

from fleet.lab import birth, containers, faults, releases
from fleet.lab.node import Lab
from tests.waiting import wait_until

IMAGE = releases.SEED_RELEASES["glm52"]["image"]
RUN = (
    "docker run -d --gpus all --network host --ipc host --ulimit memlock=-1 "
    "-v $NODE_SYSROOT/models:/models:ro -e NCCL_DEBUG=INFO --label fleet.unit=glm52-r1 "
    f"--label fleet.subject=launch.1 --name {{name}} {IMAGE} /models/x --port 8000"
)


@pytest.fixture
def started(run, paper: Lab):
    """A container `a` that runs the stand-in engine."""
    done = run(RUN.format(name="a"))
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.strip()) == 64
    return done.stdout.strip()


def listed(run, words: str = "") -> list[dict]:
    done = run(f"docker ps --no-trunc --format json {words}")
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_a_started_container_is_listed_with_its_labels(run, started: str) -> None:
    (row,) = listed(run)

    assert row["ID"] == started
    assert row["State"] == "running"
    assert row["Names"] == "a"
    assert row["Image"] == IMAGE
    assert row["Labels"] == "fleet.unit=glm52-r1,fleet.subject=launch.1"
    assert row["Status"].startswith(("Up ", "Up Less"))


@pytest.mark.parametrize(
    ("words", "count"),
    [
        ("--filter label=fleet.subject=launch.1", 1),
        ("--filter label=fleet.subject", 1),
        ("--filter label=fleet.subject=launch.11", 0),
        ("--filter label=fleet.unit=glm52-r1 --filter label=other", 0),
        ("--filter name=a --filter name=zz", 1),
        ("--filter status=exited", 0),
    ],
)
def test_filters_select_by_label_name_and_status(run, started: str, words: str, count: int) -> None:
    assert len(listed(run, words)) == count


def test_the_engine_gets_the_contract(run, started: str, paper: Lab) -> None:
    node_dir = paper.host("h100-001").directory
    (container,) = containers.all_containers(node_dir)

    config = container.config

    assert config["argv"] == ["/models/x", "--port", "8000"]
    assert config["env"] == {"NCCL_DEBUG": "INFO"}
    assert config["binds"] == [[f"{node_dir}/root/models", "/models", "ro"]]
    assert config["gpus"] == list(range(8))
    assert config["vllm_version"] == "0.23.0"
    assert config["node"]["dir"] == str(node_dir)
    assert config["scales"]["launch"] == 600


def test_a_taken_name_is_a_conflict(run, started: str) -> None:
    done = run(RUN.format(name="a"))

    assert done.returncode == 125
    assert 'Conflict. The container name "/a" is already in use by container' in done.stderr
    assert started in done.stderr


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("--name b registry.internal/none:1 x", "manifest unknown"),
        (f"--foo {IMAGE} x", "unknown flag: --foo"),
        (f"-Z {IMAGE} x", "unknown shorthand flag: 'Z' in -Z"),
        (f"--name ../b {IMAGE} x", "Invalid container name (../b)"),
        ("--name", "flag needs an argument: --name"),
    ],
)
def test_the_daemon_refuses_with_125(run, words: str, sentence: str) -> None:
    done = run(f"docker run -d {words}")

    assert (done.returncode, done.stdout) == (125, "")
    assert sentence in done.stderr


def test_a_container_on_a_lost_card_does_not_start(run, paper: Lab) -> None:
    put_fault(paper, "gpu.xid79")

    done = run(RUN.format(name="a"))

    uuid = paper.state("h100-001")["gpu"][3]["uuid"]
    assert done.returncode == 125
    assert f"nvidia-container-cli: device error: {uuid}: unknown device" in done.stderr
    assert [row["State"] for row in listed(run, "-a")] == ["created"]


def put_fault(paper: Lab, name: str) -> None:
    from datetime import UTC, datetime

    from fleet.lab import faults

    now = datetime(2026, 11, 29, tzinfo=UTC)
    site = faults.open_site(paper.directory, paper.host("h100-001"), now, {})
    fault = faults.find_fault(name)
    faults.put_on(site, fault, dict(fault.arguments), "f-0001")


def test_start_half_refuses_on_that_node(run, paper: Lab) -> None:
    put_fault(paper, "start.half")

    assert run(RUN.format(name="a")).returncode == 125


def test_docker_down_and_hung(run, paper: Lab) -> None:
    put_fault(paper, "docker.down")
    done = run("docker ps")
    assert done.returncode == 1
    assert done.stderr.startswith("Cannot connect to the Docker daemon")

    put_fault(paper, "docker.hung")
    with pytest.raises(subprocess.TimeoutExpired):
        run("docker ps", timeout=0.5)


def test_logs_go_to_their_own_streams(run, started: str) -> None:
    wait_until(lambda: "waiting" in run("docker logs a").stdout)
    done = run("docker logs a")

    assert done.stdout.splitlines() == ['argv ["/models/x", "--port", "8000"]', "waiting"]
    assert done.stderr == "a line for stderr\n"
    assert run("docker logs --tail 1 a").stdout == "waiting\n"
    stamp, text = run("docker logs -t --tail 1 a").stdout.split()
    assert text == "waiting"
    assert run(f"docker logs --since {stamp} a").stdout == "waiting\n"
    assert run("docker logs --since 2040-01-01T00:00:00Z a").stdout == ""
    assert run("docker logs --since 2040-01-01T00:00:00+00:00 a").stdout == ""
    assert len(run("docker logs --since 1h a").stdout.splitlines()) == 2


def test_stop_ends_the_container_and_keeps_its_code(run, started: str) -> None:
    assert run("docker stop -t 5 a").stdout == "a\n"

    (row,) = listed(run, "-a")
    assert row["State"] == "exited"
    assert row["Status"].startswith("Exited (0) ")
    assert run("docker inspect --format '{{.State.ExitCode}}' a").stdout == "0\n"
    assert run("docker wait a").stdout == "0\n"
    assert run("docker logs a").stdout.endswith("bye\n")


def test_a_container_that_ignores_term_is_killed(run, started: str, paper: Lab) -> None:
    (container,) = containers.running(paper.host("h100-001").directory)
    os.kill(container.state["pid"], signal.SIGSTOP)

    assert run(f"docker stop -t 0.2 {started[:12]}").returncode == 0

    (row,) = listed(run, "-a")
    assert row["Status"].startswith("Exited (137)")


def test_rm_refuses_a_running_container_unless_forced(run, started: str) -> None:
    assert "container is running" in run("docker rm a").stderr
    assert run("docker rm -f a").returncode == 0
    assert listed(run, "-a") == []
    assert run(RUN.format(name="a")).returncode == 0


def test_a_missing_container_is_an_error_of_its_verb(run) -> None:
    for verb in ("stop", "kill", "rm", "logs", "wait", "top"):
        done = run(f"docker {verb} zz")
        assert (done.returncode, done.stdout) == (1, ""), verb
        assert "No such container: zz" in done.stderr
    done = run("docker inspect zz")
    assert (done.returncode, done.stdout) == (1, "[]\n")
    assert done.stderr == "Error: No such object: zz\n"


def test_inspect_shows_state_host_and_config(run, started: str) -> None:
    (row,) = json.loads(run("docker inspect a").stdout)

    assert row["Id"] == started
    assert row["Name"] == "/a"
    assert row["State"]["Running"] is True
    assert row["HostConfig"]["IpcMode"] == "host"
    assert row["HostConfig"]["Ulimits"] == [{"Name": "memlock", "Soft": -1, "Hard": -1}]
    assert row["Config"]["Labels"]["fleet.subject"] == "launch.1"
    assert json.loads(run("docker inspect --format '{{json .State}}' a").stdout)["Pid"] > 0


def test_ranks_are_seen_by_top_and_nvidia_smi(run, started: str) -> None:
    top = run("docker top a").stdout
    apps = run("nvidia-smi --query-compute-apps=pid,process_name --format=csv,noheader").stdout

    assert "VLLM::Worker_TP1" in top
    assert [line.split(", ")[1] for line in apps.splitlines()] == [
        "VLLM::Worker_TP0",
        "VLLM::Worker_TP1",
    ]


def test_exec_runs_with_the_containers_variables(run, started: str) -> None:
    done = run("docker exec a sh -c 'echo $NCCL_DEBUG; exit 4'")

    assert (done.stdout, done.returncode) == ("INFO\n", 4)


def attached(paper: Lab, name: str, *args: str) -> subprocess.Popen:
    return subprocess.Popen(
        [f"{paper.directory}/bin/docker", "run", "--name", name, IMAGE, "m", *args],
        env=paper.host("h100-001").environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def test_an_attached_client_follows_the_log_and_returns_the_code(run, paper: Lab) -> None:
    client = attached(paper, "b", "--fail")
    out, err = client.communicate(timeout=30)

    assert client.returncode == 3
    assert out.decode().splitlines() == ['argv ["m", "--fail"]', "waiting", "bye"]
    assert err == b"a line for stderr\n"


def test_term_passes_through_an_attached_client(run, paper: Lab) -> None:
    client = attached(paper, "b")
    wait_until(lambda: listed(run), what="the container")

    client.terminate()
    out, _err = client.communicate(timeout=30)

    assert client.returncode == 0
    assert out.endswith(b"bye\n")


def test_killing_the_client_leaves_the_container(run, paper: Lab) -> None:
    client = attached(paper, "b")
    wait_until(lambda: listed(run), what="the container")

    client.kill()
    client.communicate()

    assert [row["State"] for row in listed(run)] == ["running"]


def test_a_container_that_died_with_its_monitor_is_not_running(
    run, started: str, paper: Lab
) -> None:
    (container,) = containers.running(paper.host("h100-001").directory)
    os.kill(container.state["pid"], signal.SIGKILL)
    wait_until(lambda: not container.is_running)

    assert listed(run) == []
    assert listed(run, "-a")[0]["Status"].startswith("Exited (137)")


def test_images_are_told_by_digest(run) -> None:
    (row,) = json.loads(run(f"docker image inspect {IMAGE} --format json").stdout)
    repository, _, digest = IMAGE.partition("@")

    assert row["RepoDigests"] == [f"{repository.rpartition(':')[0]}@{digest}"]
    assert row["Config"]["Entrypoint"] == ["vllm", "serve"]
    lines = run("docker images --digests --format json").stdout.splitlines()
    assert digest in [json.loads(line)["Digest"] for line in lines]
    missing = run("docker image inspect none:1")
    assert (missing.returncode, missing.stdout) == (1, "[]\n")


@pytest.mark.parametrize(
    ("tag", "names", "has_nnodes"),
    [("v0.23.0", 262, True), ("v0.33.0", 321, True), ("fork-0.19", 257, False)],
)
def test_an_image_tells_the_flags_of_its_version(
    run, tag: str, names: int, has_nnodes: bool
) -> None:
    done = run(f"docker run --rm --entrypoint vllm {releases.IMAGES[tag]['ref']} serve --help=all")

    rows = done.stdout.partition("\noptions:\n")[2].splitlines()
    assert len(rows) == names
    assert any(row.startswith("  --nnodes") for row in rows) == has_nnodes
    assert done.returncode == 0


def test_version_and_info_are_json(run) -> None:
    assert json.loads(run("docker version --format json").stdout)["Server"]["Version"] == "27.5.1"
    assert "nvidia" in json.loads(run("docker info --format json").stdout)["Runtimes"]


def test_limits_inside_a_container_are_the_nodes(run) -> None:
    done = run(f"docker run --rm --entrypoint sh {IMAGE} -c 'ulimit -l; exit 5'")

    assert (done.stdout, done.returncode) == ("unlimited\n", 5)


def test_what_docker_does_not_rehearse_is_recorded(run, paper: Lab) -> None:
    assert run("docker compose up").returncode == 1
    assert run("docker ps --format '{{.ID}}'").returncode == 1

    assert paper.unknown() == [
        "h100-001 docker compose up",
        "h100-001 docker ps --format {{.ID}}",
    ]


def test_a_missing_bind_source_becomes_an_empty_directory(run, paper: Lab) -> None:
    missing = Path(paper.host("h100-001").directory) / "root" / "models" / "wrong"

    assert run(f"docker run -d -v {missing}:/m:ro {IMAGE} /m").returncode == 0

    assert list(missing.iterdir()) == []


@pytest.mark.parametrize("indent", [0, 4])
def test_its_json_is_json(indent: int) -> None:
    plain_json = load_plain_json()
    value = {"a": [1, -2.5, True, None, {}], 'é\t"\\\x1f': "日本\n\u2028", "b": {"c": []}}

    text = plain_json.write(value, indent)

    assert json.loads(text) == value
    assert plain_json.read(f" {json.dumps(value)}\n") == value
    if indent:
        assert text == json.dumps(value, indent=4)


@pytest.mark.parametrize("text", ["", "{", '{"a": 1} x', "[1,", "nope"])
def test_a_torn_json_is_no_value(text: str) -> None:
    with pytest.raises(ValueError, match=r"JSON value|delimiter|quotes|Expecting"):
        load_plain_json().read(text)


def load_plain_json():
    import importlib.util

    path = birth.PACKAGE / "stubs" / "lib" / "docker_stub" / "plain_json.py"
    spec = importlib.util.spec_from_file_location("plain_json", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_hostile_arguments_arrive_as_they_are(run, paper: Lab) -> None:
    words = ["a b", "$(id)", "'\"\\", "x\ty\nz", b"\xff\xfe".decode("utf-8", "surrogateescape")]
    environment = paper.host("h100-001").environment()
    docker = [f"{paper.directory}/bin/docker", "run", "-d", "--name", "h", "--label", "k=a\tb"]

    done = subprocess.run(
        [*docker, IMAGE, *words], env=environment, capture_output=True, check=True
    )

    assert len(done.stdout.strip()) == 64
    (container,) = containers.all_containers(paper.host("h100-001").directory)
    assert container.config["argv"] == words
    assert listed(run, "-a")[0]["Labels"] == "k=a\tb"


def test_a_client_stopped_at_once_leaves_no_half_container(run, paper: Lab) -> None:
    for turn in range(8):
        client = attached(paper, f"t{turn}")
        time.sleep(turn * 0.01)  # a different instant of its start each time
        client.terminate()
        client.communicate(timeout=30)

    wait_until(lambda: not containers.running(paper.host("h100-001").directory))
    names = {row["Names"] for row in listed(run, "-a")}
    for turn in range(8):
        done = run(f"docker run -d --name t{turn} {IMAGE} m")
        assert (done.returncode == 125) == (f"t{turn}" in names), done.stderr


def test_an_absent_image_is_pulled_by_its_digest_and_then_here(run, paper: Lab) -> None:
    paper_site = faults.open_site(
        paper.directory, paper.host("h100-001"), datetime.now(UTC), paper.record()["scales"]
    )
    row = faults.find_fault("image.absent")
    faults.put_on(paper_site, row, faults.read_arguments(row, {}), "f-1")
    missing = run(f"docker image inspect {IMAGE}")
    assert missing.returncode == 1
    assert f"No such image: {IMAGE}" in missing.stderr

    down = faults.find_fault("registry.down")
    faults.put_on(paper_site, down, {}, "f-2")
    refused = run(f"docker pull {IMAGE}")
    assert refused.returncode == 1
    assert "connection refused" in refused.stderr
    faults.take_off(paper_site, "registry.down")

    done = run(f"docker pull {IMAGE}")
    assert done.returncode == 0, done.stderr
    assert "Status: Downloaded newer image" in done.stdout
    assert run(f"docker image inspect {IMAGE} --format json").returncode == 0
    assert "Image is up to date" in run(f"docker pull {IMAGE}").stdout
    unknown = run(f"docker pull registry.internal/vllm-openai@sha256:{'0' * 64}")
    assert unknown.returncode == 1
    assert "manifest unknown" in unknown.stderr
