"""What vLLM prints while it starts, in its order (LAB.md 4.4, MODELS.md section 3).

Shapes follow real logs, values are this lab's own. Only texts; time and order lie in startup.
"""

from . import memory
from .clock import hexes
from .engine import Engine
from .log import Voice
from .memory import KvPlan

ROUTES = (
    "/openapi.json, Methods: HEAD, GET", "/docs, Methods: HEAD, GET",
    "/docs/oauth2-redirect, Methods: HEAD, GET", "/redoc, Methods: HEAD, GET",
    "/load, Methods: GET", "/version, Methods: GET", "/health, Methods: GET",
    "/metrics, Methods: GET", "/tokenize, Methods: POST", "/detokenize, Methods: POST",
    "/v1/models, Methods: GET", "/ping, Methods: GET", "/ping, Methods: POST",
    "/invocations, Methods: POST", "/v1/chat/completions, Methods: POST",
    "/v1/chat/completions/render, Methods: POST", "/v1/responses, Methods: POST",
    "/v1/responses/{response_id}, Methods: GET",
    "/v1/responses/{response_id}/cancel, Methods: POST", "/v1/completions, Methods: POST",
    "/v1/completions/render, Methods: POST", "/v1/messages, Methods: POST",
    "/v1/messages/count_tokens, Methods: POST", "/inference/v1/generate, Methods: POST",
    "/scale_elastic_ep, Methods: POST", "/is_scaling_elastic_ep, Methods: POST",
)  # fmt: skip
LOGO = (
    "       █     █     █▄   ▄█",
    " ▄▄ ▄█ █     █     █ ▀▄▀ █  version {version}",
    "  █▄█▀ █     █     █     █  model   {model}",
    "   ▀▀  ▀▀▀▀▀ ▀▀▀▀▀ ▀     ▀",
)


def banner(engine: Engine) -> None:
    """Log the drawing with the version, and the arguments that are not default."""
    main, plan = engine.main, engine.plan
    main.info("utils.py:299", "")
    for row in LOGO:
        main.info("utils.py:299", row.format(version=plan.version, model=plan.model))
    main.info("utils.py:299", "")
    main.info("utils.py:233", f"non-default args: {plan.non_default}")
    if plan.dp > 1 and plan.api_server_count is None:
        main.info("serve.py:118", f"Defaulting api_server_count to data_parallel_size ({plan.dp}).")


def model_config(engine: Engine) -> None:
    """Log what the engine found in the model's configuration."""
    main, plan, shape = engine.main, engine.plan, engine.shape
    main.info("model.py:571", f"Resolved architecture: {shape.architecture}")
    main.info("model.py:1742", f"Using max model len {plan.max_len(shape)}")
    if plan.fp8_kv:
        main.info(
            "cache.py:246",
            "Using fp8_ds_mla data type to store kv cache. It reduces the GPU memory footprint and"
            " boosts the performance. Meanwhile, it may cause accuracy drop without a proper"
            " scaling factor",
        )
    main.info(
        "scheduler.py:240",
        f"Chunked prefill is enabled with max_num_batched_tokens={plan.max_batched_tokens}.",
    )
    main.info("vllm.py:1096", "Asynchronous scheduling is enabled.")
    if plan.headless:
        main.info(
            "serve.py:214",
            f"Launching vLLM (v{plan.version}) headless multiproc executor, with head node address"
            f" {plan.master_addr}:{plan.master_port} for torch.distributed process group.",
        )


def start_cores(engine: Engine) -> None:
    """Start the engine cores (and, under data parallelism, the API servers) of a head."""
    if not engine.serves:
        return
    several = engine.plan.dp > 1
    for dp in range(engine.plan.dp):
        name = f"EngineCore_DP{dp}" if several else "EngineCore"
        worker = engine.workers.start(name, dp=dp)
        engine.cores.append(engine.voice(worker))
    if several and engine.plan.api_server_count != 1:
        count = engine.plan.api_server_count or engine.plan.dp
        fronts = [engine.workers.start(f"ApiServer_{index}") for index in range(count)]
        engine.fronts = [engine.voice(worker) for worker in fronts]


def core_init(engine: Engine) -> None:
    """Log the configuration with which each core begins."""
    plan = engine.plan
    for core in engine.cores or [engine.main]:
        if engine.serves:
            core.info(
                "core.py:105",
                f"Initializing a V1 LLM engine (v{plan.version}) with config: model={plan.model!r},"
                f" speculative_config={_speculation(engine)}, tokenizer={plan.model!r},"
                " skip_tokenizer_init=False, tokenizer_mode=auto, dtype=torch.bfloat16,"
                f" max_seq_len={plan.max_len(engine.shape)},"
                f" tensor_parallel_size={plan.tp}, pipeline_parallel_size={plan.pp},"
                f" data_parallel_size={plan.dp}, enforce_eager={plan.enforce_eager},"
                f" kv_cache_dtype={plan.kv_cache_dtype}, enable_prefix_caching="
                f"{plan.prefix_caching}, enable_chunked_prefill=True",
            )
        address = plan.master_addr if plan.nnodes > 1 else "127.0.0.1"
        core.info(
            "multiproc_executor.py:153",
            f"DP group leader: node_rank={plan.node_rank}, node_rank_within_dp={plan.node_rank},"
            f" master_addr={address}, mq_connect_ip={engine.node['addr']} (local),"
            f" world_size={plan.world}, local_world_size={plan.local_world}",
        )


def _speculation(engine: Engine) -> str:
    plan = engine.plan
    if not plan.spec_tokens:
        return "None"
    return f"SpeculativeConfig(method={plan.spec_method!r}, num_spec_tokens={plan.spec_tokens})"


def init_process_group(engine: Engine) -> None:
    """Log each rank's place in the process group."""
    plan = engine.plan
    address = plan.master_addr if plan.nnodes > 1 else "127.0.0.1"
    for worker in engine.workers.ranks():
        rank = worker.rank
        assert rank is not None
        engine.voice(worker, named=False).info(
            "parallel_state.py:1395",
            f"world_size={plan.world * plan.dp} rank={rank.world_rank} local_rank={rank.local}"
            f" distributed_init_method=tcp://{address}:{plan.master_port} backend=nccl",
        )


def nccl_version(engine: Engine) -> None:
    """Log the version of NCCL, once."""
    version = str(engine.config.get("nccl") or "2.28.9").split("+")[0]
    for voice in engine.rank_voices(named=False)[:1]:
        voice.info("pynccl.py:111", f"vLLM is using nccl=={version}")


def groups_exist(engine: Engine) -> None:
    """Log each rank's groups and its place in them."""
    plan = engine.plan
    for worker in engine.workers.ranks():
        rank = worker.rank
        assert rank is not None
        if plan.tp > 1:
            group = plan.dp and rank.dp * plan.pp + rank.pp
            engine.voice(worker, named=False).info(
                "cuda_communicator.py:139",
                "Using ['CUSTOM', 'PYNCCL'] all-reduce backends (in dispatch order) for group"
                f" 'tp:{group}' (available: ['NCCL_SYMM_MEM', 'QUICK_REDUCE', 'FLASHINFER',"
                " 'CUSTOM', 'SYMM_MEM', 'PYNCCL'])",
            )
        expert = rank.ep if plan.expert_parallel else "N/A"
        engine.voice(worker, named=False).info(
            "parallel_state.py:1717",
            f"rank {rank.world_rank} in world size {plan.world * plan.dp} is assigned as DP rank"
            f" {rank.dp}, PP rank {rank.pp}, PCP rank 0, TP rank {rank.tp}, EP rank {expert},"
            " EPLB rank N/A",
        )


def load_begins(engine: Engine) -> None:
    """Log on every rank that loading begins."""
    for voice in engine.rank_voices():
        voice.info("gpu_model_runner.py:5172", f"Starting to load model {engine.plan.model}...")


def missing_model(engine: Engine) -> str:
    """Return the error of a model directory without weights; empty when it is usable.

    A bind whose source did not exist is an empty directory: docker makes it silently.
    """
    if not engine.plan.model.startswith("/"):
        return ""
    if engine.files.shards:
        return ""
    return f"RuntimeError: Cannot find any model weights with `{engine.plan.model}`"


def shard_progress(engine: Engine, step: int, steps: int, spent_s: float) -> None:
    """Write tqdm's redrawn line (stderr, no prefix)."""
    total = engine.files.shards or engine.shape.shards
    done = total * step // steps
    speed = f"{done / spent_s:.2f}it/s" if done and spent_s > 0 else "?it/s"
    left = spent_s / done * (total - done) if done else 0
    rest = _clock(left) if done else "?"
    engine.log.err(
        f"Loading safetensors checkpoint shards: {100 * done // total:3d}% Completed |"
        f" {done}/{total} [{_clock(spent_s)}<{rest}, {speed}]"
    )


def _clock(seconds: float) -> str:
    return f"{int(seconds) // 60:02d}:{int(seconds) % 60:02d}"


def load_ends(engine: Engine, seconds: list[float]) -> None:
    """Log how long each rank loaded (seconds) and what its weights take (GiB)."""
    for index, (worker, spent) in enumerate(zip(engine.workers.ranks(), seconds, strict=True)):
        assert worker.rank is not None
        voice = engine.voice(worker)
        if index == 0:
            voice.info("default_loader.py:393", f"Loading weights took {spent:.2f} seconds")
        need = memory.rank_memory(
            engine.shape, engine.plan, worker.rank.pp, engine.files.nominal_gib
        )
        voice.info(
            "gpu_model_runner.py:5335",
            f"Model loading took {need.weights:.2f} GiB memory and {spent:.6f} seconds",
        )


def _first(engine: Engine) -> Voice:
    return engine.rank_voices()[0]


def compile_begins(engine: Engine, cache: str, dynamo_s: float) -> None:
    """Log the cache of the compiler and the time of the bytecode transform (seconds)."""
    voice = _first(engine)
    name = hexes(10, engine.files.slug, engine.files.revision, engine.plan.version)
    voice.info(
        "backends.py:1094",
        f"Using cache directory: /root/.cache/vllm/torch_compile_cache/{name}/rank_0_0/backbone"
        " for vLLM's torch.compile",
    )
    voice.info("backends.py:1155", f"Dynamo bytecode transform time: {dynamo_s:.2f} s")


def compile_ends(engine: Engine, seconds: float) -> None:
    """Log how long compiling took, in seconds."""
    voice = _first(engine)
    voice.info(
        "backends.py:393",
        f"Compiling a graph for compile range (1, {engine.plan.max_batched_tokens}) takes"
        f" {seconds * 0.6:.2f} s",
    )
    prefix = "[backbone] " if engine.plan.version_at_least(0, 32) else ""
    voice.info("monitor.py:53", f"{prefix}torch.compile took {seconds:.2f} s in total")


def profile_ends(engine: Engine, seconds: float) -> None:
    """Log how long the profiling run took, in seconds."""
    _first(engine).info("monitor.py:81", f"Initial profiling/warmup run took {seconds * 0.8:.2f} s")


def available_kv(engine: Engine) -> None:
    """Log what each rank has left for the KV cache, in GiB."""
    for worker in engine.workers.ranks():
        assert worker.rank is not None
        need = memory.rank_memory(
            engine.shape, engine.plan, worker.rank.pp, engine.files.nominal_gib
        )
        voice = engine.voice(worker)
        voice.info(
            "gpu_model_runner.py:6720", f"Estimated CUDA graph memory: {need.graphs:.2f} GiB total"
        )
        voice.info("gpu_worker.py:560", f"Available KV cache memory: {need.available_kv:.2f} GiB")


def node_blocks(engine: Engine) -> int:
    """Return the blocks of the poorest rank of this node."""
    found = []
    for rank in engine.plan.ranks():
        need = memory.rank_memory(engine.shape, engine.plan, rank.pp, engine.files.nominal_gib)
        found.append(memory.local_blocks(engine.shape, engine.plan, rank.pp, need.available_kv))
    return min(found)


def kv_refusal(engine: Engine, kv: KvPlan) -> str:
    """Return vLLM's refusal when KV cannot hold one request, else an empty text."""
    if kv.blocks <= 0:
        return (
            "ValueError: No available memory for the cache blocks. Try increasing"
            " `gpu_memory_utilization` when initializing the engine."
        )
    if kv.blocks >= kv.blocks_per_request:
        return ""
    length = engine.plan.max_len(engine.shape)
    have = kv.needed_gib * kv.blocks / kv.blocks_per_request
    return (
        f"ValueError: To serve at least one request with the model's max seq len ({length}),"
        f" ({kv.needed_gib:.2f} GiB KV cache is needed, which is larger than the available KV"
        f" cache memory ({have:.2f} GiB). Based on the available memory, the estimated maximum"
        f" model length is {kv.max_len_that_fits}. Try increasing `gpu_memory_utilization` or"
        " decreasing `max_model_len` when initializing the engine."
    )


def kv_size(engine: Engine, kv: KvPlan) -> None:
    """Log the size of the KV cache in tokens and how many longest requests fit."""
    length = engine.plan.max_len(engine.shape)
    size = f"GPU KV cache size: {kv.tokens:,} tokens"
    times = f"Maximum concurrency for {length:,} tokens per request: {kv.concurrency:.2f}x"
    for core in engine.cores:
        if engine.plan.one_line_kv:
            core.info("kv_cache_utils.py:2327", f"{size}, {times}")
        else:
            core.info("kv_cache_utils.py:2216", size)
            core.info("kv_cache_utils.py:2217", times)


def capture_progress(engine: Engine, percent: int, spent_s: float) -> None:
    """Log one step of the progress bars of graph capture; percent done, seconds spent."""
    sizes = 67
    done = sizes * percent // 100
    speed = f"{done / spent_s:.2f}it/s" if done and spent_s > 0 else "?it/s"
    for kind in ("mixed prefill-decode, PIECEWISE", "decode, FULL"):
        engine.log.err(
            f"Capturing CUDA graphs ({kind}): {percent:3d}%|{'█' * (percent // 10):10s}|"
            f" {done}/{sizes} [{_clock(spent_s)}<{'?' if not done else '00:00'}, {speed}]"
        )


def capture_ends(engine: Engine, seconds: float) -> None:
    """Log the full bars, and what capturing took in seconds and GiB."""
    capture_progress(engine, 100, seconds)
    graphs = memory.rank_memory(engine.shape, engine.plan, 0, engine.files.nominal_gib).graphs
    _first(engine).info(
        "gpu_model_runner.py:6788",
        f"Graph capturing finished in {seconds:.0f} secs, took {graphs:.2f} GiB",
    )


def warm_up_ends(engine: Engine) -> None:
    """Log the balance of each rank's memory, in GiB."""
    wanted = engine.plan.memory_utilization
    for worker in engine.workers.ranks():
        assert worker.rank is not None
        need = memory.rank_memory(
            engine.shape, engine.plan, worker.rank.pp, engine.files.nominal_gib
        )
        engine.voice(worker).info(
            "gpu_worker.py:857",
            f"Free memory on device ({memory.FREE_AT_START_GIB}/{memory.GPU_GIB} GiB) on startup."
            f" Desired GPU memory utilization is ({wanted}, {wanted * memory.GPU_GIB:.2f} GiB)."
            f" Actual usage is {need.weights:.2f} GiB for weight, {need.activation:.2f} GiB for"
            f" peak activation, {need.non_torch:.2f} GiB for non-torch memory, and"
            f" {need.graphs:.2f} GiB for CUDAGraph memory. Current kv cache memory in use is"
            f" {need.available_kv:.2f} GiB.",
        )


def init_took(engine: Engine, seconds: float, compile_s: float) -> None:
    """Log how long the cores took from profile to warm-up, in seconds."""
    for core in engine.cores:
        core.info(
            "core.py:340",
            f"init engine (profile, create kv cache, warmup model) took {seconds:.2f} s"
            f" (compilation: {compile_s:.2f} s)",
        )


def api_begins(engine: Engine) -> None:
    """Log the address and the routes of the server that comes up."""
    plan = engine.plan
    for front in engine.fronts:
        front.info("api_server.py:673", "Supported tasks: ['generate']")
        front.info("api_server.py:677", f"Starting vLLM server on http://{plan.host}:{plan.port}")
        front.info("launcher.py:37", "Available routes are:")
        for route in ROUTES:
            front.info("launcher.py:46", f"Route: {route}")


def api_ready(engine: Engine) -> None:
    """Log the three lines after which the server answers."""
    for front in engine.fronts:
        engine.log.err(
            f"\x1b[32mINFO\x1b[0m:     Started server process [\x1b[36m{front.pid}\x1b[0m]"
        )
        engine.log.err("\x1b[32mINFO\x1b[0m:     Waiting for application startup.")
        engine.log.err("\x1b[32mINFO\x1b[0m:     Application startup complete.")
