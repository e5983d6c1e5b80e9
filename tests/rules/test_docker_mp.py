"""The launch plan of a unit, rendered from a release and a placement."""

import copy
import re

from releases.launchers.docker_mp import Place, argv_of, plan_render, plan_sha256
from releases.rules.content import content_sha256
from tests.contents import CONTENT

PLACES = [
    Place(0, "h100-003", "127.0.13.3", "/models"),
    Place(1, "h100-004", "127.0.13.4", "/models"),
]


def plan(content=CONTENT, places=PLACES, generation=1):
    return plan_render(
        unit="glm52-r1",
        generation=generation,
        content=content,
        content_sha=content_sha256(content),
        places=places,
    )


def words(position: int, **changes) -> list[str]:
    return plan(**changes)["positions"][position]["argv"]


def test_only_the_followers_are_headless():
    assert "--headless" not in words(0)
    assert "--headless" in words(1)


def test_every_node_names_the_same_rendezvous_and_its_own_rank():
    for number in (0, 1):
        argv = words(number)
        assert argv[argv.index("--master-addr") + 1] == "127.0.13.3"
        assert argv[argv.index("--node-rank") + 1] == str(number)
        assert argv[argv.index("--nnodes") + 1] == "2"


def test_another_generation_uses_another_rendezvous_port_and_other_names():
    first, second = plan(), plan(generation=2)
    assert first["master"]["port"] != second["master"]["port"]
    assert first["positions"][0]["subject"] != second["positions"][0]["subject"]


def test_the_image_is_named_by_digest_and_the_weights_are_read_only():
    argv = words(0)
    assert "registry.internal/vllm@sha256:" + "b" * 64 in argv
    bind = argv[argv.index("-v") + 1]
    assert bind.endswith(":ro")
    assert bind.startswith("/models/glm-5.2-fp8/")


def test_one_node_needs_no_rendezvous():
    content = copy.deepcopy(CONTENT)
    content["shape"] = {"tp": 1, "pp": 1, "dp": 8, "ep": True, "nodes": 1, "gpus_per_node": 8}
    argv = words(0, content=content, places=PLACES[:1])
    assert "--nnodes" not in argv
    assert "--enable-expert-parallel" in argv
    assert argv[argv.index("--data-parallel-size") + 1] == "8"


def test_the_label_carries_the_hash_of_the_plan_that_is_shown():
    shown = plan()
    sha256 = plan_sha256(shown)
    assert f"fleet.plan_sha={sha256}" in argv_of(shown["positions"][0], sha256)


def test_the_same_inputs_give_the_same_plan():
    assert plan_sha256(plan()) == plan_sha256(plan())
    changed = copy.deepcopy(CONTENT)
    changed["args"][0][1] = "65536"
    assert plan_sha256(plan(content=changed)) != plan_sha256(plan())


def test_subject_and_container_names_are_safe_on_a_command_line():
    for position in plan()["positions"]:
        assert re.fullmatch(r"[a-z0-9][a-z0-9._-]{0,79}", position["subject"])
        assert re.fullmatch(r"[a-z0-9][a-z0-9._-]{0,119}", position["container"])


def test_the_network_matrix_fills_the_environment_of_its_node_and_goes_before_the_release():
    content = copy.deepcopy(CONTENT)
    content["env"]["NCCL_SOCKET_IFNAME"] = "eth0"
    places = [
        Place(0, "h100-003", "127.0.13.3", "/models", {"NCCL_SOCKET_IFNAME": "bond0"}),
        PLACES[1],
    ]
    assert "NCCL_SOCKET_IFNAME=bond0" in words(0, content=content, places=places)
    assert "NCCL_SOCKET_IFNAME=eth0" in words(1, content=content, places=places)
