import json

import pytest

from fleet.rules.message import said
from releases.rules.identity import (
    BAD,
    FAILED,
    OK,
    Identity,
    identity_sections,
    judge_again,
    judge_identity,
)
from releases.rules.preflight import Answer
from tests.contents import CONTENT

PLAN = "a" * 64
PINNED = CONTENT["image"]["digest"]
OTHER = "sha256:" + "9" * 64


RUN = {"Id": "ab12" * 16, "State": {"StartedAt": "2026-11-30T10:00:00.123456789Z"}}


def judged(image: str = f"vllm@{PINNED}", plan: str = PLAN, **answer) -> tuple[str, str]:
    config = {"Image": image, "Labels": {"fleet.plan_sha": plan}}
    text = answer.get("text", json.dumps([RUN | {"Config": config}]))
    found = judge_identity(CONTENT, PLAN, Answer(answer.get("rc", 0), text))
    return found.state, said(found.explanation)


def test_the_container_of_the_position_is_looked_at():
    (section,) = identity_sections({"container": "fc-glm52-r1-n0-0badcafe"})
    assert section["argv"] == ["docker", "container", "inspect", "fc-glm52-r1-n0-0badcafe"]


def test_the_image_and_the_plan_of_the_launch_are_right():
    assert judged() == (OK, "")
    config = {"Image": f"vllm@{PINNED}", "Labels": {"fleet.plan_sha": PLAN}}
    found = judge_identity(CONTENT, PLAN, Answer(0, json.dumps([RUN | {"Config": config}])))
    assert found.started_at == "ab12ab12ab12 2026-11-30T10:00:00.123456789Z"


@pytest.mark.parametrize("image", [f"vllm@{OTHER}", "vllm:latest", "None"])
def test_another_image_is_named_beside_the_pinned_one(image):
    state, text = judged(image)
    assert state == BAD
    assert (image.partition("@")[2] or image) in text
    assert f"the release pins {PINNED}" in text


def test_another_plan_is_named_beside_the_launchs():
    state, text = judged(plan="b" * 64)
    assert (state, "b" * 64 in text, PLAN in text) == (BAD, True, True)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "1",
        "null",
        '[{"Config": {}}]',
        '[{"State": {"StartedAt": "x"}}]',
        "[" * 100_000,
        '[["x"]]',
        "{]",
    ],
)
def test_what_cannot_be_read_proves_nothing(text):
    assert judged(text=text)[0] == FAILED


def test_a_docker_that_refuses_proves_nothing_and_its_words_are_kept():
    state, text = judged(rc=1, text="Cannot connect to the Docker daemon")
    assert (state, "Cannot connect" in text) == (FAILED, True)


@pytest.mark.parametrize("labels", [None, [], {}])
def test_a_container_without_our_label_is_none_of_ours(labels):
    text = json.dumps([RUN | {"Config": {"Image": f"vllm@{PINNED}", "Labels": labels}}])
    assert judge_identity(CONTENT, PLAN, Answer(0, text)).state == BAD


def test_no_answer_proves_nothing():
    assert judge_identity(CONTENT, PLAN, None).state == FAILED


def test_a_container_that_was_started_again_is_another_one():
    first, again = Identity(OK, started_at="ab12 10:00"), Identity(OK, started_at="ab12 10:07")
    assert judge_again(first, first) == first
    found = judge_again(first, again)
    assert found.state == BAD
    assert "started again (ab12 10:07, before ab12 10:00)" in said(found.explanation)


@pytest.mark.parametrize("state", [BAD, FAILED, ""])
def test_what_is_not_proved_now_is_not_proved_by_before(state):
    assert judge_again(Identity(OK, started_at="ab12 10:00"), Identity(state)).state == state
