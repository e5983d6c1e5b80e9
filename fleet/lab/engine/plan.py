"""The launch as the engine understands it: parallel sizes, addresses, limits and environment.

Built from parsed flags; also the refusals vLLM makes before anything starts (LAB.md 4.1).
"""

from dataclasses import dataclass, field

from .models import ModelShape


class Refused(Exception):
    """vLLM's own refusal at start: exit code, stream and text."""

    def __init__(self, text: str, code: int = 1, as_traceback: bool = True) -> None:
        super().__init__(text)
        self.text = text
        self.code = code
        self.as_traceback = as_traceback


@dataclass
class Plan:
    """One container's share of a unit."""

    version: str
    model: str
    served_names: list[str]
    host: str
    port: int
    tp: int = 1
    pp: int = 1
    dp: int = 1
    nnodes: int = 1
    node_rank: int = 0
    master_addr: str = "127.0.0.1"
    master_port: int = 29501
    headless: bool = False
    executor: str = "mp"
    api_server_count: int | None = None
    expert_parallel: bool = False
    memory_utilization: float = 0.92
    max_model_len: int | None = None
    max_num_seqs: int = 256
    max_batched_tokens: int = 8192
    kv_cache_dtype: str = "auto"
    block_size: int | None = None
    spec_method: str = ""
    spec_tokens: int = 0
    enforce_eager: bool = False
    prefix_caching: bool = True
    fp4_indexer: bool = False
    shutdown_timeout_s: float = 0.0
    distributed_timeout_s: float = 600.0
    api_key: str = ""
    reasoning_parser: str = ""
    non_default: dict = field(default_factory=dict)
    env: dict[str, str] = field(default_factory=dict)

    @property
    def world(self) -> int:
        """GPUs of one engine core's executor (data parallel ranks have their own)."""
        return self.tp * self.pp

    @property
    def local_world(self) -> int:
        return self.world // self.nnodes

    @property
    def is_head(self) -> bool:
        return self.node_rank == 0

    @property
    def fp8_kv(self) -> bool:
        return self.kv_cache_dtype.startswith("fp8")

    @property
    def layer_partition(self) -> str:
        return self.env.get("VLLM_PP_LAYER_PARTITION", "")

    @property
    def nccl_info(self) -> bool:
        return self.env.get("NCCL_DEBUG", "").upper() in ("INFO", "TRACE")

    @property
    def one_line_kv(self) -> bool:
        """KV size and concurrency are one log line from 0.30 on, two before."""
        return self.version_at_least(0, 30)

    def version_at_least(self, *wanted: int) -> bool:
        parts = [int(part) for part in self.version.split(".")[:2] if part.isdigit()]
        return tuple(parts) >= wanted

    def max_len(self, shape: ModelShape) -> int:
        return self.max_model_len or shape.max_position

    def kv_block_size(self, shape: ModelShape) -> int:
        return self.block_size or shape.block_size

    def ranks(self) -> list["RankId"]:
        """Return the ranks of this node in the order of its GPUs."""
        if self.dp > 1:
            return [
                RankId(self, dp * self.world + rank, rank, dp)
                for dp in range(self.dp)
                for rank in range(self.world)
            ]
        first = self.node_rank * self.local_world
        return [
            RankId(self, rank - first, rank, 0) for rank in range(first, first + self.local_world)
        ]


@dataclass(frozen=True)
class RankId:
    """One GPU's place in the unit."""

    plan: Plan
    local: int
    rank: int
    dp: int

    @property
    def pp(self) -> int:
        return self.rank // self.plan.tp

    @property
    def tp(self) -> int:
        return self.rank % self.plan.tp

    @property
    def ep(self) -> int:
        return self.dp * self.plan.tp + self.tp

    @property
    def world_rank(self) -> int:
        """The rank over all data parallel copies: what the lab calls `rank`."""
        return self.dp * self.plan.world + self.rank

    @property
    def name(self) -> str:
        """`Worker_DP3_PP1_TP3_EP3` with only the parts that are larger than one."""
        plan = self.plan
        parts = [(plan.dp > 1, "DP", self.dp), (plan.pp > 1, "PP", self.pp)]
        parts += [(plan.tp > 1, "TP", self.tp), (plan.expert_parallel, "EP", self.ep)]
        return "Worker" + "".join(f"_{tag}{value}" for wanted, tag, value in parts if wanted)


def plan_from_flags(flags: dict, version: str, env: dict[str, str]) -> Plan:
    """Build the plan from parsed flags (dest -> value); raises Refused like vLLM does."""
    model = flags.get("model_tag") or flags.get("model") or ""
    spec = flags.get("speculative_config") or {}
    attention = flags.get("attention_config") or {}
    plan = Plan(
        version=version, model=model, env=env,
        served_names=list(flags.get("served_model_name") or [model]),
        host=flags.get("host") or "0.0.0.0", port=flags.get("port") or 8000,
        spec_method=str(spec.get("method") or ""),
        spec_tokens=int(spec.get("num_speculative_tokens") or 0),
        fp4_indexer=_wants_fp4(attention), non_default=dict(flags),
    )  # fmt: skip
    for dest, attribute in DIRECT.items():
        if flags.get(dest) is not None:
            setattr(plan, attribute, flags[dest])
    check(plan)
    return plan


DIRECT = {
    "tensor_parallel_size": "tp", "pipeline_parallel_size": "pp", "data_parallel_size": "dp",
    "nnodes": "nnodes", "node_rank": "node_rank", "master_addr": "master_addr",
    "master_port": "master_port", "headless": "headless", "api_server_count": "api_server_count",
    "distributed_executor_backend": "executor", "enable_expert_parallel": "expert_parallel",
    "gpu_memory_utilization": "memory_utilization", "max_model_len": "max_model_len",
    "max_num_seqs": "max_num_seqs", "max_num_batched_tokens": "max_batched_tokens",
    "kv_cache_dtype": "kv_cache_dtype", "block_size": "block_size",
    "enforce_eager": "enforce_eager", "enable_prefix_caching": "prefix_caching",
    "shutdown_timeout": "shutdown_timeout_s", "api_key": "api_key",
    "distributed_timeout_seconds": "distributed_timeout_s", "reasoning_parser": "reasoning_parser",
}  # fmt: skip


def _wants_fp4(attention: dict) -> bool:
    dtype = str(attention.get("indexer_kv_dtype") or "")
    return bool(attention.get("use_fp4_indexer_cache")) or "fp4" in dtype


def check(plan: Plan) -> None:
    """Refuse what vLLM refuses before it spawns anything."""
    if plan.headless and (plan.api_server_count or 0) > 0:
        raise Refused(
            f"ValueError: api_server_count={plan.api_server_count} cannot be used with --headless"
            " (no API servers are started in headless mode)."
        )
    if plan.nnodes > 1 and plan.executor == "ray":
        raise Refused(
            "ValueError: nnodes > 1 can only be set when distributed executor backend is mp, uni"
            " or external_launcher."
        )
    if plan.world % plan.nnodes:
        raise Refused(
            f"AssertionError: tensor_parallel_size * pipeline_parallel_size ({plan.world}) should"
            f" be divisible by nnodes ({plan.nnodes})."
        )
    if plan.node_rank >= plan.nnodes:
        raise Refused(
            f"ValueError: node_rank ({plan.node_rank}) must be less than nnodes ({plan.nnodes})."
        )
