import json

import pytest

from fleet.rules.message import said
from releases.rules.preflight import SECTIONS, Answer, judge_preflight, preflight_sections
from tests.contents import CONTENT, content_with

GOOD = {
    "ready": Answer(0, json.dumps({"manifest_sha256": CONTENT["model"]["manifest_sha256"]})),
    "image": Answer(0, json.dumps([{"RepoDigests": [f"x@{CONTENT['image']['digest']}"]}])),
    "platform": Answer(0, "570.172.08, 96.00.89.00.01\n" * 8),
    "gpus": Answer(0, "".join(f"GPU {n}: NVIDIA H100\n" for n in range(8))),
    "leftovers": Answer(0, ""),
}


def judged(**changes) -> list[str]:
    return [said(text) for text in judge_preflight(CONTENT, {**GOOD, **changes})]


def test_every_section_that_is_asked_is_judged():
    sections = preflight_sections({"model_dir": "/models/x"}, CONTENT, "glm52-r1")
    assert [row["name"] for row in sections] == list(SECTIONS)
    assert len(judge_preflight(CONTENT, {})) == len(SECTIONS)
    assert judged() == []


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("550.54.15, 96.00.89.00.01\n", "550.54.15, 96.00.89.00.01 on the node"),
        ("570.172.08, 96.00.74.00.01\n", "the release pins 570.172.08, 96.00.89.00.01"),
        (GOOD["platform"].text + "570.172.08, 96.00.74.00.01\n", "96.00.74.00.01; 570"),
        ("", "nothing on the node"),
    ],
)
def test_another_driver_or_firmware_on_one_card_forbids_the_start(text, words):
    (problem,) = judged(platform=Answer(0, text))
    assert words in problem


def test_a_driver_that_does_not_answer_is_no_pass():
    assert judged(platform=Answer(9, "NVIDIA-SMI has failed")) == [
        "driver and firmware: NVIDIA-SMI has failed"
    ]


def test_a_release_that_pins_no_driver_starts_nowhere():
    (problem,) = judge_preflight(content_with("platform", None), GOOD)
    assert "pins none" in problem


def test_a_marker_that_names_another_manifest_is_another_revision():
    (problem,) = judged(ready=Answer(0, json.dumps({"manifest_sha256": "0" * 64})))
    assert problem.startswith("weights: .ready names manifest")


@pytest.mark.parametrize("state", ["running", "paused", "restarting", "", None])
def test_a_container_that_is_not_known_to_rest_forbids_the_start(state):
    row = json.dumps({"Names": "glm52-r1-n0", "State": state})
    assert "glm52-r1-n0 of this unit still runs" in judged(leftovers=Answer(0, row))[0]


@pytest.mark.parametrize("state", ["exited", "created", "dead"])
def test_what_rests_does_not(state):
    row = json.dumps({"Names": "glm52-r1-n0", "State": state})
    assert judged(leftovers=Answer(0, f"WARNING: old API\n{row}\n")) == []


@pytest.mark.parametrize("text", ["[]", "1", '"x"', "null", "[" * 100_000, '[["x"]]', "{]"])
@pytest.mark.parametrize("section", ["ready", "image"])
def test_whatever_a_node_wrote_is_judged(section, text):
    assert judged(**{section: Answer(0, text)})


def test_a_container_line_that_cannot_be_read_is_no_pass():
    assert judged(leftovers=Answer(0, '{"Names": "glm52-r1-n0", "Sta'))
