"""A unit on some cards of one node."""

import pytest

from releases.launchers import choice
from releases.launchers.docker_mp import Place, plan_sha256
from releases.rules.content import LAUNCHERS, content_problems, content_sha256
from releases.rules.preflight import Answer, judge_preflight
from tests.contents import CONTENT, content_with


def content_on(gpus: list[int]) -> dict:
    sizes = {"tp": len(gpus), "pp": 1, "dp": 1, "ep": False, "nodes": 1}
    content = content_with("shape", {**sizes, "gpus_per_node": len(gpus), "gpus": gpus})
    return content_with("launcher", "single", content)


def plan(gpus: list[int]) -> dict:
    content = content_on(gpus)
    return choice.plan_render(
        unit="small-r1",
        generation=1,
        content=content,
        content_sha=content_sha256(content),
        places=[Place(0, "h100-003", "127.0.13.3", "/models")],
    )


def argv(gpus: list[int]) -> list[str]:
    return plan(gpus)["positions"][0]["argv"]


def word_behind(flag: str, words: list[str]) -> str:
    return words[words.index(flag) + 1]


@pytest.mark.parametrize(("gpus", "port"), [([0], 8000), ([4, 5, 6, 7], 8004), ([7, 2], 8002)])
def test_it_gets_its_cards_and_the_port_of_the_first(gpus, port):
    words = argv(gpus)
    listed = ",".join(str(n) for n in sorted(gpus))
    assert word_behind("--gpus", words) == f'"device={listed}"'
    assert word_behind("--port", words) == str(port)
    assert plan(gpus)["http"]["port"] == port
    assert plan(gpus)["world_size"] == len(gpus)


def test_one_card_needs_no_parallel_flag_and_four_are_one_tensor_group():
    assert "--tensor-parallel-size" not in argv([3])
    assert word_behind("--tensor-parallel-size", argv([0, 1, 2, 3])) == "4"
    assert "--nnodes" not in argv([0, 1, 2, 3])


def test_other_cards_are_another_plan():
    assert plan_sha256(plan([0, 1])) != plan_sha256(plan([2, 3]))


def test_every_launcher_that_may_be_sealed_can_render():
    assert set(choice.RENDERERS) == set(LAUNCHERS)


@pytest.mark.parametrize("gpus", [[0], [0, 1, 2, 3], list(range(8))])
def test_named_cards_are_sealable(gpus):
    assert content_problems(content_on(gpus)) == []


@pytest.mark.parametrize("gpus", [[0, 0], [0, 8], [-1, 0], [0], ["0", "1"], "01", None])
def test_cards_that_are_not_two_of_one_node_are_named(gpus):
    content = content_with("shape.gpus", gpus, content_on([0, 1]))
    assert [problem.where for problem in content_problems(content)] == ["shape.gpus"]


def test_a_launcher_of_whole_nodes_takes_no_list_of_cards():
    content = content_with("shape.gpus", [0, 1])
    assert [problem.where for problem in content_problems(content)] == ["shape.gpus"]


@pytest.mark.parametrize(("cards", "is_met"), [(range(8), True), ((0, 1, 2, 3, 5, 6, 7), False)])
def test_its_own_cards_must_answer_and_others_do_not_matter(cards, is_met):
    answers = {"gpus": Answer(0, "".join(f"GPU {n}: NVIDIA H100\n" for n in cards))}
    problems = [
        text for text in judge_preflight(content_on([4]), answers) if "GPUs that answer:" in text
    ]
    assert (problems == []) == is_met


def test_a_whole_node_still_needs_each_of_its_cards():
    answers = {"gpus": Answer(0, "GPU 0: NVIDIA H100\n" * 8)}
    assert any("GPUs that answer:" in text for text in judge_preflight(CONTENT, answers))
