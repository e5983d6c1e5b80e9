"""HBM arithmetic of one unit: weights, what is left for KV, KV tokens, and the start-up refusals.

KV is always computed, never looked up (LAB.md 4.3; formulas of MODELS.md section 2).
"""

from dataclasses import dataclass
from math import ceil, floor

from .models import ModelShape
from .plan import Plan

GPU_GIB = 79.1
FREE_AT_START_GIB = 78.6
MTP_DRAFT_GIB = 1.1
MTP_GRAPHS_GIB = 1.4
DSV4_SLAB_BYTES = 1_002_240
DSV4_SLAB_MXFP4_BYTES = 917_568


@dataclass(frozen=True)
class RankMemory:
    """The budget of one rank in GiB."""

    weights: float
    activation: float
    non_torch: float
    graphs: float
    available_kv: float


@dataclass(frozen=True)
class KvPlan:
    """What the engine prints about KV: blocks of the poorest rank, tokens, concurrency."""

    blocks: int
    block_size: int
    blocks_per_request: int
    tokens: int
    concurrency: float
    needed_gib: float
    max_len_that_fits: int


def weights_gib(shape: ModelShape, plan: Plan, stage: int, nominal_gib: float = 0.0) -> float:
    """Return the weights of one rank of a pipeline stage, in GiB.

    `nominal_gib` (the checkpoint's real size, when a manifest tells it) scales the table's values,
    so that a BF16 checkpoint weighs twice an FP8 one.
    """
    experts = shape.experts_gib / (plan.tp * (plan.dp if plan.expert_parallel else 1))
    rank = (experts + shape.body_gib / plan.tp) / plan.pp
    if stage == plan.pp - 1:
        rank += shape.head_gib / plan.tp
    table = shape.experts_gib + shape.body_gib
    # Within a fifth the manifest and the table speak of the same precision.
    if nominal_gib and not 0.8 < nominal_gib / table < 1.25:
        rank *= nominal_gib / table
    if plan.spec_tokens:
        rank += MTP_DRAFT_GIB
    return rank


def rank_memory(shape: ModelShape, plan: Plan, stage: int, nominal_gib: float = 0.0) -> RankMemory:
    """Return the budget of one rank of a stage; `available_kv` may be negative."""
    weights = weights_gib(shape, plan, stage, nominal_gib)
    graphs = 0.0 if plan.enforce_eager else shape.graphs_rank_gib
    if plan.spec_tokens and graphs:
        graphs += MTP_GRAPHS_GIB
    non_torch = shape.nccl_rank_gib + shape.context_rank_gib
    left = plan.memory_utilization * GPU_GIB - weights - shape.activation_rank_gib
    return RankMemory(
        weights, shape.activation_rank_gib, non_torch, graphs, left - non_torch - graphs
    )


def fits_in_card(memory: RankMemory) -> bool:
    """Tell whether the weights can be loaded at all beside the context and NCCL."""
    return memory.weights + memory.non_torch <= GPU_GIB


def stage_layers(layers: int, pp: int, partition: str = "") -> list[range]:
    """Split layers over stages: equal parts, the remainder from the second-last stage backwards.

    `partition` is VLLM_PP_LAYER_PARTITION ("20,20,19,19") and wins when it has `pp` parts.
    """
    counts = [int(part) for part in partition.split(",") if part.strip().isdigit()]
    if len(counts) != pp:
        counts = [layers // pp] * pp
        for extra in range(layers % pp):
            counts[(pp - 2 - extra) % pp] += 1
    starts = [sum(counts[:stage]) for stage in range(pp)]
    return [range(start, start + count) for start, count in zip(starts, counts, strict=True)]


def token_bytes(shape: ModelShape, plan: Plan, stage: int) -> int:
    """Return the KV bytes of one token on one rank of a stage (not for block-formula models)."""
    layers = stage_layers(shape.layers, plan.pp, plan.layer_partition)[stage]
    if not shape.indexer_layers:
        return len(layers) * 2 * max(1, 8 // plan.tp) * 128 * (1 if plan.fp8_kv else 2)
    per_layer = 656 if plan.fp8_kv else 1152
    indexers = len(shape.indexer_layers.intersection(layers))
    return len(layers) * per_layer + indexers * 132


def block_bytes(shape: ModelShape, plan: Plan, stage: int, block_size: int) -> int:
    """Return the bytes of one block over the layers of a stage."""
    if shape.family.startswith("deepseek-v4"):
        return DSV4_SLAB_MXFP4_BYTES if plan.fp4_indexer else DSV4_SLAB_BYTES
    return token_bytes(shape, plan, stage) * block_size


def blocks_for(shape: ModelShape, plan: Plan, length: int, block_size: int) -> int:
    """Return the blocks that one request of `length` tokens needs."""
    if not shape.family.startswith("deepseek-v4"):
        return ceil(length / block_size)
    flying = plan.max_batched_tokens
    return (
        ceil(length / 256)
        + ceil(min(127 + flying, length) / 64) + 1
        + ceil(min(7 + flying, length) / 4) + 1
        + ceil(min(127 + flying, length) / 8) + 1
    )  # fmt: skip


def local_blocks(shape: ModelShape, plan: Plan, stage: int, available_gib: float) -> int:
    """Return the blocks one rank can hold (0 when nothing is left)."""
    size = block_bytes(shape, plan, stage, plan.kv_block_size(shape))
    return max(0, floor(available_gib * 2**30 / size))


def kv_plan(shape: ModelShape, plan: Plan, blocks: int) -> KvPlan:
    """Return what `blocks` (the minimum over all ranks) mean for requests of max_model_len."""
    block_size = plan.kv_block_size(shape)
    length = plan.max_len(shape)
    needed = blocks_for(shape, plan, length, block_size)
    worst = max(block_bytes(shape, plan, stage, block_size) for stage in range(plan.pp))
    concurrency = blocks / needed
    return KvPlan(
        blocks=blocks, block_size=block_size, blocks_per_request=needed,
        tokens=int(blocks * length / needed), concurrency=concurrency,
        needed_gib=needed * worst / 2**30,
        max_len_that_fits=_longest(shape, plan, blocks, block_size, length),
    )  # fmt: skip


def _longest(shape: ModelShape, plan: Plan, blocks: int, block_size: int, limit: int) -> int:
    """Find by halving the longest request that `blocks` can hold."""
    low, high = 0, limit
    while low < high:
        middle = (low + high + 1) // 2
        if blocks_for(shape, plan, middle, block_size) <= blocks:
            low = middle
        else:
            high = middle - 1
    return low
