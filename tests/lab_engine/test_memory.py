"""HBM arithmetic against the numbers of the manuals and of real logs."""

import pytest

from fleet.lab.engine.memory import (
    blocks_for,
    fits_in_card,
    kv_plan,
    local_blocks,
    rank_memory,
    stage_layers,
    token_bytes,
)
from fleet.lab.engine.models import SHAPES, ModelShape, find_shape, host_path, name_of
from fleet.lab.engine.plan import Plan

GLM52, GLM51, DSV4 = SHAPES


def plan(**changes) -> Plan:
    base = {"tp": 8, "pp": 2, "nnodes": 2, "memory_utilization": 0.88, "max_model_len": 131072}
    return Plan("0.23.0", "/m", ["m"], "", 8000, **(base | changes))


def tokens(shape: ModelShape, wanted: Plan) -> int:
    blocks = min(
        local_blocks(shape, wanted, stage, rank_memory(shape, wanted, stage).available_kv)
        for stage in range(wanted.pp)
    )
    return kv_plan(shape, wanted, blocks).tokens


@pytest.mark.parametrize(("utilization", "expected"), [(0.88, 533_696), (0.92, 660_608)])
def test_glm52_on_sixteen_cards(utilization: float, expected: int) -> None:
    wanted = plan(kv_cache_dtype="fp8", memory_utilization=utilization)
    assert tokens(GLM52, wanted) == expected


def test_the_last_stage_binds() -> None:
    wanted = plan(kv_cache_dtype="fp8")
    first, last = (rank_memory(GLM52, wanted, stage) for stage in (0, 1))
    assert (round(first.weights, 1), round(last.weights, 1)) == (43.9, 44.8)
    assert round(last.available_kv, 1) == 13.3


def test_bytes_a_token_of_each_stage() -> None:
    fp8 = plan(kv_cache_dtype="fp8")
    assert [token_bytes(GLM52, fp8, stage) for stage in (0, 1)] == [27_168, 26_772]
    assert token_bytes(GLM51, plan(), 0) == 50_076


def test_mtp_takes_its_memory_from_kv() -> None:
    without = rank_memory(GLM52, plan(kv_cache_dtype="fp8"), 1).available_kv
    with_mtp = rank_memory(GLM52, plan(kv_cache_dtype="fp8", spec_tokens=3), 1).available_kv
    assert without - with_mtp == pytest.approx(2.5)


def test_dsv4_by_its_block_formula() -> None:
    wanted = plan(
        tp=1, pp=1, nnodes=1, dp=8, expert_parallel=True, kv_cache_dtype="fp8",
        max_batched_tokens=16384, block_size=256,
    )  # fmt: skip
    memory = rank_memory(DSV4, wanted, 0)
    assert round(memory.available_kv, 1) == 34.3
    assert blocks_for(DSV4, wanted, 131_072, 256) == 6_935
    assert blocks_for(DSV4, plan(max_batched_tokens=4096), 131_072, 256) == 2_135


def test_bf16_weights_do_not_fit_on_sixteen_cards() -> None:
    assert fits_in_card(rank_memory(GLM52, plan(), 1, nominal_gib=703))
    assert not fits_in_card(rank_memory(GLM52, plan(), 1, nominal_gib=1406))


def test_layers_are_split_like_vllm_splits_them() -> None:
    def counts(layers: int, pp: int, partition: str = "") -> list[int]:
        return [len(part) for part in stage_layers(layers, pp, partition)]

    assert counts(78, 2) == [39, 39]
    assert counts(61, 4) == [15, 15, 16, 15]
    assert counts(93, 4) == [23, 23, 24, 23]
    assert counts(78, 2, "40,38") == [40, 38]


def test_a_model_is_known_by_its_name_or_architecture() -> None:
    assert find_shape("/models/GLM-5.2-FP8", "").family == "glm-5.2"
    assert find_shape("dsv4 deepseek_v4_flash", "").family == "deepseek-v4-flash"
    assert find_shape("/m", "GlmMoeDsaForCausalLM").family == "glm-5.2"
    assert find_shape("/m", "").family == "small"


def test_a_path_in_the_container_is_found_on_the_node() -> None:
    binds = [["/data/models", "/models", "ro"], ["/other", "/models/special", "ro"]]
    assert host_path("/models/a/b", binds) == "/data/models/a/b"
    assert host_path("/models/special/b", binds) == "/other/b"
    assert host_path("/modelsx", binds) == "/modelsx"
    assert name_of("/data/glm/" + "0f" * 20) == ("glm", "0f" * 20)


def test_names_of_workers_have_only_the_parts_that_differ() -> None:
    assert [rank.name for rank in plan(node_rank=1).ranks()][3] == "Worker_PP1_TP3"
    deep = plan(tp=1, pp=1, nnodes=1, dp=8, expert_parallel=True)
    assert [rank.name for rank in deep.ranks()][3] == "Worker_DP3_EP3"
    assert [rank.name for rank in plan(tp=1, pp=1, nnodes=1).ranks()] == ["Worker"]
