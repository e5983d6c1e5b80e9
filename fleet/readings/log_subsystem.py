"""Which part of the stack a log line speaks of; tables only, the first word that fits decides."""

from __future__ import annotations

INIT, NET, COLL, PG = "INIT", "NET", "COLL", "PG"
ENG, API, LOAD, KV, GRAPH, HTTP, OTHER = "ENG", "API", "LOAD", "KV", "GRAPH", "HTTP", "OTHER"
SUBSYSTEMS = (INIT, NET, COLL, PG, ENG, API, LOAD, KV, GRAPH, HTTP, OTHER)

# First word of an NCCL message. What is not here is NCCL's set-up.
_NCCL_WORDS = {
    "NET/IB": NET, "NET/IB:": NET, "NET/Socket": NET, "NET/Socket:": NET, "NET/Plugin": NET,
    "NET/Plugin:": NET, "NET/OFI": NET, "Using": NET, "NET": NET, "P2P": NET, "GPU": NET,
    "AllReduce:": COLL, "AllGather:": COLL, "ReduceScatter:": COLL, "Broadcast:": COLL,
    "Reduce:": COLL, "Send:": COLL, "Recv:": COLL, "AlltoAll:": COLL, "AllToAll:": COLL,
    "Gather:": COLL, "Scatter:": COLL,
}  # fmt: skip
_NCCL_WARN_NET = ("NET/", "ibv", "socket", "Socket", "connect", "Connect", "net_ib", "bootstrap")

# First two words of a vLLM message, for files that speak of several things.
_VLLM_HEADS = {
    "Loading weights": LOAD, "Model loading": LOAD, "Starting to": LOAD, "Loading model": LOAD,
    "Loading safetensors": LOAD, "Available KV": KV, "GPU KV": KV, "CPU KV": KV,
    "Maximum concurrency": KV, "# GPU": KV, "Graph capturing": GRAPH, "Capturing CUDA": GRAPH,
    "Capturing cudagraphs": GRAPH, "CUDA graph": GRAPH, "Estimated CUDA": GRAPH,
    "Profiling CUDA": GRAPH, "Dynamo bytecode": GRAPH, "torch.compile took": GRAPH,
    "Compiling a": GRAPH, "Cache the": GRAPH, "Free memory": KV, "Memory profiling": KV,
    "Route: /": API,
}  # fmt: skip
_VLLM_FILES = {
    "weight_utils.py": LOAD, "default_loader.py": LOAD, "base_loader.py": LOAD, "loader.py": LOAD,
    "kv_cache_utils.py": KV, "backends.py": GRAPH, "monitor.py": GRAPH, "decorators.py": GRAPH,
    "compilation.py": GRAPH, "cudagraph_utils.py": GRAPH, "parallel_state.py": INIT,
    "pynccl.py": INIT, "cuda_communicator.py": INIT, "custom_all_reduce.py": INIT,
    "shm_broadcast.py": ENG, "api_server.py": API, "launcher.py": API, "async_llm.py": API,
    "serving.py": API, "loggers.py": ENG,
}  # fmt: skip
_ROLES = {"api": API, "engine": ENG, "worker": ENG}


def nccl_subsystem(message: str, is_warning: bool) -> str:
    """Place an NCCL message: transports and networks, collectives, or set-up."""
    if is_warning:
        return NET if any(n in message for n in _NCCL_WARN_NET) else OTHER
    word = message.partition(" ")[0]
    if word == "Channel":
        return NET if " via " in message else INIT
    return _NCCL_WORDS.get(word, INIT)


def vllm_subsystem(message: str, file: str, role: str) -> str:
    """Place a vLLM message by its first words, then by its source file, then by its process."""
    first, _, rest = message.partition(" ")
    found = _VLLM_HEADS.get(f"{first} {rest.partition(' ')[0]}")
    return found or _VLLM_FILES.get(file) or _ROLES.get(role, ENG)


def raw_subsystem(text: str, role: str) -> str:
    """Place a line without a level of its own."""
    if "%|" in text or "Completed |" in text:
        return LOAD if "shards" in text else GRAPH if "graph" in text else OTHER
    if "c10d" in text or "ProcessGroup" in text or "TCPStore" in text:
        return PG
    return _ROLES.get(role, OTHER)
