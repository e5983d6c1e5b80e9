"""A start from nothing to ready: order of the lines, readiness only at the end, memory, NCCL."""

import re
import socket

from tests.lab_engine.units import (
    DSV4,
    FASTER,
    HEAD,
    Container,
    Units,
    dsv4_flags,
    free_port,
    glm_flags,
    in_order,
    living,
)


def refuses(container: Container) -> bool:
    with socket.socket() as sock:
        return sock.connect_ex((container.address, container.port)) != 0


def test_the_head_prints_its_start_in_order(head: Container) -> None:
    in_order(
        head.log, "version 0.23.0", "non-default args: {", "GlmMoeDsaForCausalLM",
        "Using max model len 131072", "Using fp8_ds_mla data type",
        "Chunked prefill is enabled with max_num_batched_tokens=32768.",
        "Initializing a V1 LLM engine (v0.23.0) with config:",
        "DP group leader: node_rank=0", "world_size=16 rank=0 local_rank=0",
        "vLLM is using nccl==2.28.9", "Init COMPLETE", "all-reduce backends",
        "rank 3 in world size 16 is assigned as DP rank 0, PP rank 0, PCP rank 0, TP rank 3",
        "Starting to load model", "11% Completed | 2/17", "100% Completed | 17/17",
        "Loading weights took", "Model loading took 43.90 GiB memory and",
        "Dynamo bytecode transform time", "No available shared memory broadcast block found",
        "torch.compile took", "Initial profiling/warmup run took",
        "Estimated CUDA graph memory: 1.60 GiB total", "Available KV cache memory: 14.21 GiB",
        "GPU KV cache size: 533,696 tokens\n",
        "Maximum concurrency for 131,072 tokens per request: 4.07x",
        "Capturing CUDA graphs", "Graph capturing finished in", "Free memory on device",
        "init engine (profile, create kv cache, warmup model) took", "Supported tasks",
        "Starting vLLM server on http://0.0.0.0:", "Available routes are:",
        "Started server process", "Application startup complete.",
    )  # fmt: skip


def test_the_follower_says_its_part_and_then_nothing(follower: Container) -> None:
    in_order(
        follower.log, "INFO", "Launching vLLM (v0.23.0) headless multiproc executor",
        "world_size=16 rank=8 local_rank=0", "Model loading took 44.80 GiB memory",
        "Available KV cache memory: 13.31 GiB", "Free memory on device",
    )  # fmt: skip
    for word in ("APIServer", "EngineCore", "GPU KV cache size", "Application startup", "ready"):
        assert word not in follower.log
    assert "Free memory on device" in follower.log.splitlines()[-1]


def test_workers_are_processes_with_vllms_names(head: Container, follower: Container) -> None:
    names = [worker["argv0"] for worker in head.workers]
    assert names == ["VLLM::EngineCore", *(f"VLLM::Worker_PP0_TP{rank}" for rank in range(8))]
    ranks = [(worker["rank"], worker["local_rank"]) for worker in follower.workers]
    assert ranks == [(8 + gpu, gpu) for gpu in range(8)]
    assert len(living(head.workers)) == 9
    pid = follower.rank_on_gpu(3)["pid"]
    with open(f"/proc/{pid}/comm") as file:
        assert file.read() == "VLLM::Worker_PP\n"
    with open(f"/proc/{pid}/cmdline") as file:
        assert file.read() == "VLLM::Worker_PP1_TP3\0"


def test_a_lines_process_number_is_that_of_the_process(head: Container) -> None:
    pid = head.rank_on_gpu(5)["pid"]
    assert f"(Worker_PP0_TP5 pid={pid}) INFO" in head.log
    assert f"(Worker pid={pid}) INFO" in head.log
    assert f"(APIServer pid={head.state['pid']}) INFO" in head.log


def test_every_rank_writes_its_nccl_block(head: Container, follower: Container) -> None:
    for container in (head, follower):
        for gpu in range(8):
            pid = container.rank_on_gpu(gpu)["pid"]
            mine = [line for line in container.log.splitlines() if f":{pid}:" in line]
            assert all(f"[{gpu}] NCCL INFO " in line for line in mine)
            text = "\n".join(mine)
            assert text.count("Init COMPLETE") == 2
            assert text.count(f" via NET/IB/{gpu}/GDRDMA") == 8
            assert text.count(" via P2P/CUMEM") == 24
            assert "nranks 8" in text
            assert "nranks 2" in text
    assert "0[3] -> 1[3] [send] via NET/IB/3/GDRDMA" in head.log
    assert "1[3] -> 0[3] [send] via NET/IB/3/GDRDMA" in follower.log
    assert head.log.count("NCCL version 2.28.9+cuda12.9") == 1
    assert "NCCL version" not in follower.log


def test_both_ends_of_a_pipeline_pair_share_a_communicator(
    head: Container, follower: Container
) -> None:
    pattern = re.compile(r"nranks 2 cudaDev 3 .* commId (0x\w+) - Init COMPLETE")
    assert pattern.findall(head.log) == pattern.findall(follower.log)


def test_disabled_infiniband_falls_back_to_sockets(units: Units) -> None:
    env = {"NCCL_DEBUG": "INFO", "NCCL_IB_DISABLE": "1", "NCCL_SOCKET_IFNAME": "bond0"}
    head, _ = units.serving_pair(scales=FASTER, env=env)
    in_order(head.log, "NCCL_SOCKET_IFNAME set by environment to bond0", "Using network Socket")
    assert "via NET/Socket/0" in head.log
    assert "NET/IB/" not in head.log


def test_a_node_that_finds_no_infiniband_falls_back_to_sockets(units: Units) -> None:
    head, follower = units.glm_pair(scales=FASTER, env={"NCCL_DEBUG": "INFO"})
    units.fault(head, {"id": "F-1", "name": "nccl.socket", "args": {}})
    head.wait_for_phase("serving")
    follower.wait_for_phase("serving")
    in_order(head.log, "NET/IB : No device found.", "Using network Socket", "via NET/Socket/0")
    assert "NET/IB/" not in head.log


def test_it_is_ready_only_at_the_end(units: Units) -> None:
    # Slow enough for a busy machine to see every phase.
    head, follower = units.glm_pair(scales={**FASTER, "launch": 200})
    seen = set()

    def ready() -> bool:
        phase = head.state.get("phase")
        closed = refuses(head)
        if head.state.get("phase") == phase != "serving":
            seen.add((phase, closed))
        return not closed

    head.wait_for(ready, "the open port")
    assert {closed for _, closed in seen} == {True}
    assert {"load", "compile"} <= {phase for phase, _ in seen}
    follower.wait_for_phase("serving")
    assert refuses(follower)
    assert "NCCL INFO" not in head.log + follower.log  # nobody set NCCL_DEBUG


def test_a_late_head_is_awaited_with_c10ds_warnings(units: Units) -> None:
    port, master = free_port(HEAD), free_port(HEAD)
    shared = ["--nnodes", "2", "--master-addr", HEAD, "--master-port", str(master)]
    shared += ["--tensor-parallel-size", "8", "--pipeline-parallel-size", "2"]
    flags = glm_flags(port, *shared)
    follower = units.start(
        "h100-002", "127.0.64.232", [*flags, "--node-rank", "1", "--headless"], port=port,
        scales=FASTER,
    )  # fmt: skip
    warning = f"The client socket has failed to connect to [{HEAD}]:{master} (errno: 111"
    follower.wait_for_line(warning)
    head = units.start("h100-001", HEAD, [*flags, "--node-rank", "0"], port=port, scales=FASTER)
    head.wait_for_phase("serving")
    follower.wait_for_phase("serving")


def test_from_0_30_on_kv_is_one_line(units: Units) -> None:
    container = units.small(vllm_version="0.33.0")
    container.wait_for_phase("serving")
    pattern = r"GPU KV cache size: [\d,]+ tokens, Maximum concurrency for 131,072 tokens per"
    assert re.search(pattern, container.log)


def test_eight_data_parallel_engines_have_eight_fronts(units: Units) -> None:
    port = free_port(HEAD)
    node = units.start(
        "h100-005", HEAD, dsv4_flags(port), port=port, slug=DSV4, scales=FASTER,
        env={"NCCL_DEBUG": "INFO"},
    )  # fmt: skip
    node.wait_for_phase("serving")
    in_order(node.log, "Defaulting api_server_count to data_parallel_size (8).", "EngineCore_DP7")
    names = [worker["argv0"] for worker in node.workers]
    assert "VLLM::Worker_DP3_EP3" in names
    assert "VLLM::EngineCore_DP3" in names
    for front in range(8):
        assert re.search(rf"\(ApiServer_{front} pid=\d+\) INFO .* Starting vLLM server", node.log)
    assert node.log.count("GPU KV cache size: 694,") == 8
    body = {"model": DSV4, "messages": [{"role": "user", "content": "What is 2 + 2?"}]}
    answer = node.ask("/v1/chat/completions", body).json
    assert answer["choices"][0]["message"]["content"] == "2 + 2 = 4"
    page = node.ask("/metrics").body.decode()
    assert 'vllm:num_requests_running{engine="7"' in page
    assert "process_" not in page
    assert "_created" not in page


def test_ranks_are_told_by_the_nodes_gpu_numbers(units: Units) -> None:
    container = units.serving_small(gpus=[4, 5])
    assert [w["local_rank"] for w in container.workers if w["rank"] is not None] == [4, 5]
