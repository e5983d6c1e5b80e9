"""Starts that vLLM refuses: flags, contracts between the nodes, ports, memory, weights."""

import socket

import pytest

from tests.lab_engine.units import FASTER, FOLLOWER, HEAD, Units, free_port, glm_flags, in_order


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["/m", "--moe-capacity-factor", "1.25"],
         "vllm: error: unrecognized arguments: --moe-capacity-factor 1.25"),
        (["vllm", "serve", "/m", "--port", "8000"],
         "vllm: error: unrecognized arguments: serve /m"),
        (["/m", "--dtype", "fp1"], "vllm: error: argument --dtype: invalid choice: 'fp1'"),
        (["/m", "--port", "many"], "vllm: error: argument --port: invalid int value: 'many'"),
    ],
)  # fmt: skip
def test_a_wrong_command_line_ends_with_two(units: Units, argv: list[str], message: str) -> None:
    container = units.start("h100-001", HEAD, argv, port=0)
    assert container.wait_for_exit() == 2
    assert message in container.log
    assert container.state["status"] == "exited"


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ("--headless --api-server-count 2", "ValueError: api_server_count=2"),
        ("--nnodes 2 --distributed-executor-backend ray", "ValueError: nnodes > 1 can only"),
        ("--nnodes 3", "should be divisible by nnodes (3)"),
    ],
)
def test_a_contradiction_ends_with_one(units: Units, more: str, message: str) -> None:
    container = units.single(*more.split())
    assert container.wait_for_exit() == 1
    assert message in container.log


def test_a_follower_without_headless_fails_and_the_head_waits(units: Units) -> None:
    port, master = free_port(HEAD), free_port(HEAD)
    shared = f"--nnodes 2 --master-addr {HEAD} --master-port {master}"
    flags = glm_flags(port, *shared.split(), *["-tp", "8", "-pp", "2"])
    slow_watch = {"launch": 4000, "watch": 10}
    follower = units.start(
        "h100-002", FOLLOWER, [*flags, "--node-rank", "1"], port=port, scales=slow_watch
    )
    head = units.start("h100-001", HEAD, [*flags, "--node-rank", "0"], port=port, scales=slow_watch)
    assert follower.wait_for_exit() == 1
    text = "AssertionError: collective_rpc should not be called on follower node"
    in_order(follower.log, "EngineCore failed to start.", text, "Engine core initialization failed")
    head.wait_for_phase("nccl")
    assert head.monitor.poll() is None


def test_a_head_that_waits_in_vain_gives_up(units: Units) -> None:
    flags = f"--nnodes 2 --node-rank 0 --master-addr {HEAD} --master-port {free_port(HEAD)} -pp 2"
    head = units.single(*flags.split(), scales={"launch": 4000, "watch": 1200})
    assert head.wait_for_exit() == 1
    assert "DistStoreError: Timed out after 1 seconds waiting for clients. 1/2 clients" in head.log


def test_another_nodes_address_cannot_be_bound(units: Units) -> None:
    container = units.single(env={"VLLM_HOST_IP": "127.0.64.77"}, scales=FASTER)
    assert container.wait_for_exit() == 1
    assert "Cannot assign requested address" in container.log


def test_a_taken_rendezvous_port_is_named(units: Units) -> None:
    with socket.socket() as taken:
        taken.bind((HEAD, 0))
        taken.listen()
        port = taken.getsockname()[1]
        flags = f"--nnodes 2 --node-rank 0 --master-addr {HEAD} --master-port {port} -pp 2"
        head = units.single(*flags.split(), scales=FASTER)
        assert head.wait_for_exit() == 1
    in_order(head.log, "DistNetworkError", f"port: {port}", "EADDRINUSE")


def test_a_taken_http_port_is_found_before_anything_is_loaded(units: Units) -> None:
    with socket.socket() as taken:
        taken.bind((HEAD, 0))
        taken.listen()
        port = taken.getsockname()[1]
        head = units.start("h100-001", HEAD, glm_flags(port, "-tp", "8"), port=port)
        assert head.wait_for_exit() == 1
    assert "Address already in use" in head.log
    assert "Starting to load model" not in head.log


def test_two_nccl_versions_do_not_meet(units: Units) -> None:
    head, follower = units.glm_pair(scales=FASTER)
    follower.kill(follower.monitor.pid)
    follower.monitor.wait()
    other = units.start("h100-003", FOLLOWER, follower.argv, port=0, nccl="2.28.7", scales=FASTER)
    assert head.wait_for_exit() == 1
    text = "Mismatched NCCL version detected : rank 8 version 22807 rank 0 version 22809"
    assert text in head.log
    assert other.wait_for_exit() == 1


def test_a_context_that_does_not_fit_is_refused_with_the_arithmetic(units: Units) -> None:
    head, follower = units.glm_pair("--max-model-len", "1048576", scales=FASTER)
    assert head.wait_for_exit() == 1
    in_order(
        head.log, "ValueError: To serve at least one request with the model's max seq len (1048576)",
        "estimated maximum model length is 533696", "Engine core initialization failed",
    )  # fmt: skip
    assert follower.wait_for_exit() == 1


def test_weights_that_do_not_fit_run_out_of_memory_in_load(units: Units) -> None:
    container = units.single(scales=FASTER)
    assert container.wait_for_exit() == 1
    in_order(
        container.log, "Starting to load model", "WorkerProc failed to start.",
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate",
    )  # fmt: skip


def test_an_empty_model_directory_is_named(units: Units) -> None:
    container = units.single("-pp", "1", with_weights=False, scales=FASTER)
    assert container.wait_for_exit() == 1
    assert "Cannot find any model weights with `/models/glm-5.2-fp8/" in container.log


def test_a_forced_gid_index_of_the_wrong_kind_fails_the_start(units: Units) -> None:
    head, follower = units.glm_pair(scales=FASTER, env={"NCCL_IB_GID_INDEX": "5"})
    assert head.wait_for_exit() == 1
    in_order(
        head.log, "misc/ibvwrap.cc:307 NCCL WARN Call to ibv_modify_qp failed with 22",
        "local GID index 5", "RuntimeError: NCCL error: unhandled system error",
    )  # fmt: skip
    assert follower.wait_for_exit() == 1


def test_more_ranks_than_cards_are_refused(units: Units) -> None:
    container = units.small("--tensor-parallel-size", "4", gpus=[6, 7])
    assert container.wait_for_exit() == 1
    assert "CUDA error: invalid device ordinal" in container.log
