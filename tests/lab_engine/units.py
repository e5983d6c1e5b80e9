"""Starts rehearsed engines for tests: node directories, config.json, monitors, HTTP, and the end."""

import contextlib
import http.client
import json
import os
import signal
import socket
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fleet.lab.engine.procfs import is_alive
from tests.waiting import wait_until

ENTRY = Path(__file__).resolve().parents[2] / "fleet" / "lab" / "engine" / "__main__.py"
HEAD, FOLLOWER = "127.0.64.231", "127.0.64.232"
REVISION = "ab" * 20
GLM = "glm-5.2-fp8"
SHARDS = 17
DSV4 = "deepseek-v4-flash"
FAST = {"launch": 600, "watch": 60, "serve": 20}
FASTER = {"launch": 4000, "watch": 300, "serve": 20}


def free_port(address: str) -> int:
    with socket.socket() as sock:
        sock.bind((address, 0))
        return int(sock.getsockname()[1])


def glm_flags(port: int, *more: str) -> list[str]:
    words = f"/models/{GLM}/{REVISION} --served-model-name {GLM} --host 0.0.0.0 --port {port}"
    words += " --gpu-memory-utilization 0.88 --max-model-len 131072 --kv-cache-dtype fp8"
    words += " --max-num-seqs 16 --max-num-batched-tokens 32768 --enable-prefix-caching"
    words += " --reasoning-parser glm45 --distributed-executor-backend mp"
    return [*words.split(), *more]


def dsv4_flags(port: int, *more: str) -> list[str]:
    words = f"/models/{DSV4}/{REVISION} --served-model-name {DSV4} --port {port}"
    words += " --data-parallel-size 8 --enable-expert-parallel --kv-cache-dtype fp8"
    words += " --block-size 256 --gpu-memory-utilization 0.88 --max-model-len 131072"
    words += " --max-num-seqs 32 --max-num-batched-tokens 16384"
    return [*words.split(), *more]


@dataclass
class Reply:
    status: int
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    def events(self) -> list[Any]:
        """The data of a server-sent event stream, without the closing [DONE]."""
        lines = self.body.decode().split("\n\n")
        data = [line.removeprefix("data: ") for line in lines if line.startswith("data: ")]
        assert data[-1] == "[DONE]"
        return [json.loads(line) for line in data[:-1]]


@dataclass
class Container:
    """One container: its directory, its monitor, and what it says."""

    path: Path
    node: Path
    address: str
    port: int
    monitor: subprocess.Popen[bytes]

    @property
    def log(self) -> str:
        """The log without time stamps and stream letters."""
        with contextlib.suppress(FileNotFoundError):
            lines = (self.path / "log").read_text(errors="replace").splitlines()
            return "\n".join(line.split(" ", 2)[2] for line in lines)
        return ""

    @property
    def state(self) -> dict[str, Any]:
        with contextlib.suppress(FileNotFoundError):
            return json.loads((self.path / "state.json").read_text())
        return {}

    @property
    def argv(self) -> list[str]:
        return json.loads((self.path / "config.json").read_text())["argv"]

    @property
    def workers(self) -> list[dict[str, Any]]:
        return json.loads((self.path / "workers.json").read_text())

    def rank_on_gpu(self, gpu: int) -> dict[str, Any]:
        return next(worker for worker in self.workers if worker["local_rank"] == gpu)

    def wait_for_phase(self, phase: str) -> None:
        self.wait_for(lambda: self.state.get("phase") == phase, f"phase {phase}")

    def wait_for_line(self, text: str) -> None:
        self.wait_for(lambda: text in self.log, f"the line {text!r}")

    def wait_for(self, predicate: Any, what: str) -> None:
        def settled() -> bool:
            return bool(predicate()) or self.monitor.poll() is not None

        wait_until(settled, what=what)
        assert predicate(), f"the container ended before {what}:\n{self.log[-3000:]}"

    def wait_for_exit(self) -> int:
        wait_until(lambda: self.monitor.poll() is not None, what="the exit of the container")
        return int(self.state["exit_code"])

    def kill(self, pid: int, number: int = signal.SIGKILL) -> None:
        os.kill(pid, number)

    def terminate(self) -> int:
        os.kill(self.state["pid"], signal.SIGTERM)
        return self.wait_for_exit()

    def connect(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection(self.address, self.port, timeout=20)

    def ask(self, path: str, body: Any = None, **headers: str) -> Reply:
        """Send one request; with a body it is a POST of JSON (bytes go as they are)."""
        raw = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        with contextlib.closing(self.connect()) as connection:
            connection.request("GET" if body is None else "POST", path, raw, headers)
            with connection.getresponse() as answer:
                return Reply(answer.status, answer.read())

    def chat(self, text: str, **more: Any) -> Reply:
        body = {"model": GLM, "messages": [{"role": "user", "content": text}], **more}
        return self.ask("/v1/chat/completions", body)

    def metric(self, name: str) -> float:
        """The sum of a series over its labels."""
        page = self.ask("/metrics").body.decode()
        lines = [line for line in page.splitlines() if line.startswith((name + "{", name + " "))]
        assert lines, f"no series {name}"
        return sum(float(line.rpartition(" ")[2]) for line in lines)


@dataclass
class Units:
    """Everything one test started; `end` proves that nothing of it is left."""

    directory: Path
    containers: list[Container] = field(default_factory=list)

    def start(
        self, name: str, address: str, argv: list[str], *, port: int, slug: str = GLM,
        with_weights: bool = True, **config: Any,
    ) -> Container:  # fmt: skip
        node = self.directory / name
        path = node / "docker" / "containers" / f"c{len(self.containers)}"
        model = node / "root" / "models" / slug / REVISION
        for folder in (path, model):
            folder.mkdir(parents=True, exist_ok=True)
        for shard in range(SHARDS if with_weights else 0):
            (model / f"model-{shard + 1:05d}-of-{SHARDS:05d}.safetensors").write_bytes(b"weights")
        values = {
            "id": f"{len(self.containers):064x}", "name": f"fc-{name}", "image": "vllm",
            "digest": "sha256:0", "vllm_version": "0.23.0", "nccl": "2.28.9", "argv": argv,
            "env": {}, "labels": {"fleet.unit": "u1", "fleet.launch": "LN-0001"},
            "binds": [[str(node / "root" / "models"), "/models", "ro"]], "gpus": list(range(8)),
            "node": {"name": name, "addr": address, "dir": str(node), "position_gpus": 8},
            "scales": FAST, **config,
        }  # fmt: skip
        (path / "config.json").write_text(json.dumps(values))
        env = {"PATH": os.environ["PATH"], "FLOTILLA_LAB": str(self.directory)}
        monitor = subprocess.Popen(
            [sys.executable, "-I", "-S", str(ENTRY), str(path)],
            env=env, stdin=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip
        container = Container(path, node, address, port, monitor)
        self.containers.append(container)
        return container

    def glm_pair(self, *more: str, **config: Any) -> tuple[Container, Container]:
        """Start a GLM-5.2 unit over two nodes; returns (head, follower), not yet ready."""
        port, master = free_port(HEAD), free_port(HEAD)
        shared = f"--nnodes 2 --master-addr {HEAD} --master-port {master}"
        shared += " --tensor-parallel-size 8 --pipeline-parallel-size 2"
        common = [*shared.split(), *more]
        head = self.start(
            "h100-001", HEAD, glm_flags(port, *common, "--node-rank", "0"), port=port, **config
        )
        follower_flags = glm_flags(port, *common, "--node-rank", "1", "--headless")
        follower = self.start("h100-002", FOLLOWER, follower_flags, port=port, **config)
        return head, follower

    def serving_pair(self, *more: str, **config: Any) -> tuple[Container, Container]:
        head, follower = self.glm_pair(*more, **config)
        head.wait_for_phase("serving")
        follower.wait_for_phase("serving")
        return head, follower

    def single(self, *more: str, name: str = "h100-001", **config: Any) -> Container:
        """Start a GLM command on one node with eight GPUs."""
        port = free_port(HEAD)
        argv = glm_flags(port, "--tensor-parallel-size", "8", *more)
        return self.start(name, HEAD, argv, port=port, **config)

    def small(self, *more: str, **config: Any) -> Container:
        """Start a small model on two GPUs of one node, under GLM's name."""
        port = free_port(HEAD)
        argv = [f"/models/small/{REVISION}", "--served-model-name", GLM, "--port", str(port)]
        argv += ["--tensor-parallel-size", "2", "--max-num-seqs", "16", *more]
        return self.start(
            "h100-001", HEAD, argv, port=port, slug="small", **({"scales": FASTER} | config)
        )

    def serving_small(self, *more: str, **config: Any) -> Container:
        container = self.small(*more, **config)
        container.wait_for_phase("serving")
        return container

    def fault(self, container: Container, *rows: dict[str, Any]) -> None:
        """Write the node's faults.json whole, as the lab does."""
        path = container.node / "faults.json"
        path.with_suffix(".new").write_text(json.dumps(list(rows)))
        path.with_suffix(".new").replace(path)

    def end(self) -> None:
        """End all containers and prove that no process of this lab is left."""
        for container in self.containers:
            if container.monitor.poll() is None:
                with contextlib.suppress(ProcessLookupError, KeyError):
                    os.kill(container.state["pid"], signal.SIGKILL)
        for container in self.containers:
            try:
                container.monitor.wait(10)
            except subprocess.TimeoutExpired:
                container.monitor.kill()
                container.monitor.wait()
        left = self.left_processes()
        for pid in left:
            os.kill(pid, signal.SIGKILL)
        errors = [(c.path / "engine.err") for c in self.containers]
        said = "".join(path.read_text() for path in errors if path.exists())
        assert not left, f"processes left behind: {left}"
        assert not said, f"the engine itself failed:\n{said}"

    def left_processes(self) -> list[int]:
        mark = f"FLOTILLA_LAB={self.directory}".encode()
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit() and int(entry.name) != os.getpid():
                with contextlib.suppress(OSError):
                    if mark in (entry / "environ").read_bytes().split(b"\0"):
                        found.append(int(entry.name))
        return found


def living(workers: list[dict[str, Any]]) -> list[str]:
    return [w["argv0"] for w in workers if is_alive(w["pid"], w["start_ticks"])]


def in_order(log: str, *texts: str) -> None:
    """Assert that the texts stand in the log in this order."""
    place = 0
    for text in texts:
        found = log.find(text, place)
        assert found >= 0, (
            f"expected {text!r} after character {place} of:\n{log[place : place + 4000]}"
        )
        place = found + len(text)
