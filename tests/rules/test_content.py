"""What may be sealed: everything pinned, nothing hostile, and what is missing is named."""

import pytest

from fleet.rules.netscripts import MATRIX_NAMES
from releases.rules.content import PINS, content_problems, content_sha256
from tests.contents import CONTENT, content_with

HOSTILE = ["; rm -rf /", "$(id)", "`id`", "a\nb", "a\x00b", "a b", "--privileged\n", "‮", "'\""]


def wheres(content) -> list[str]:
    return [problem.where for problem in content_problems(content)]


def test_a_pinned_content_is_sealable():
    assert content_problems(CONTENT) == []


@pytest.mark.parametrize("value", [*HOSTILE, "main", "latest", "REPLACE_WITH_REVISION", "", None])
@pytest.mark.parametrize("pin", [where for where, _pattern, _expected in PINS])
def test_a_pin_that_is_missing_hostile_or_a_placeholder_is_named(pin, value):
    assert wheres(content_with(pin, value)) == [pin]


@pytest.mark.parametrize(
    ("pin", "value"),
    [
        ("image.digest", "v0.23.0"),
        ("image.name", "vllm/vllm-openai:glm52-cu129"),
        ("image.name", "vllm/vllm-openai:latest"),
        ("model.revision", "main"),
        ("model.revision", "3" * 39),
        ("model.manifest_sha256", "A" * 64),
        ("platform.driver", "REPLACE_WITH_VALIDATED_MATRIX"),
        ("tokenizer.template", "d" * 40),
        ("launcher", "docker"),
        ("shape.tp", 0),
        ("shape.tp", True),
        ("shape.nodes", "2"),
    ],
)
def test_a_tag_a_branch_or_a_short_hash_is_no_pin(pin, value):
    assert wheres(content_with(pin, value)) == [pin]


@pytest.mark.parametrize("piece", ["model", "image", "platform", "tokenizer"])
def test_a_piece_that_is_missing_is_named_pin_by_pin(piece):
    expected = [where for where, _, _ in PINS if where.startswith(f"{piece}.")]
    assert wheres(content_with(piece, None)) == expected


def test_ranks_that_do_not_fill_the_cards_are_no_shape():
    assert wheres(content_with("shape.tp", 4)) == ["shape"]


@pytest.mark.parametrize("value", HOSTILE)
def test_hostile_flags_and_environment_are_refused(value):
    content = content_with("args", [[value, None], ["--max-model-len", value]])
    content["env"] = {value: "1", "NCCL_DEBUG": value}
    assert len(content_problems(content)) == 4


@pytest.mark.parametrize(
    ("args", "where"),
    [
        ([["--revision", "main"]], "args --revision"),
        ([["--tokenizer-revision", "4f1c9b7e"]], "args --tokenizer-revision"),
        ([["--tensor-parallel-size", "4"]], "args --tensor-parallel-size"),
        ([["--max-num-seqs", "16"], ["--max-num-seqs", "24"]], "args --max-num-seqs"),
        ([["--load-format", "REPLACE_WITH_FORMAT"]], "args --load-format"),
        ([["--enable-auto-tool-choice", None]], "args --tool-call-parser"),
        ([["--tool-parser-plugin", "/x.py"]], "args --tool-parser-plugin"),
        ([["--chat-template", "template.jinja"]], "tokenizer.chat_template_file"),
    ],
)
def test_arguments_that_move_contradict_or_bring_an_unhashed_file_are_named(args, where):
    assert where in wheres(content_with("args", args))


def test_a_file_behind_a_flag_is_pinned_by_its_hash():
    content = content_with("args", [["--chat-template", "template.jinja"]])
    content["tokenizer"] = {**content["tokenizer"], "chat_template_file": "f" * 64}
    assert content_problems(content) == []


@pytest.mark.parametrize(
    "golden",
    [
        [],
        [{"id": "a"}],
        CONTENT["golden"] * 2,
        [{**CONTENT["golden"][0], "id": "x" * 81}],
        [{**CONTENT["golden"][0], "id": "a/b#1"}],
    ],
)
def test_without_a_golden_prompt_of_its_own_name_nothing_could_prove_itself(golden):
    assert wheres(content_with("golden", golden)) == ["golden"]


def test_a_problem_reads_as_a_sentence_in_any_language():
    problem = content_problems(content_with("image.digest", "v0.23.0"))[0]
    assert str(problem) == (
        "image.digest: expected a digest: sha256: and 64 hex digits, not a tag, found v0.23.0."
    )


def test_the_hash_does_not_depend_on_the_order_of_keys():
    assert content_sha256(dict(reversed(CONTENT.items()))) == content_sha256(CONTENT)
    assert content_sha256(content_with("env", {})) != content_sha256(CONTENT)


@pytest.mark.parametrize("name", MATRIX_NAMES)
def test_a_value_of_the_network_matrix_is_never_typed_into_a_release(name):
    (problem,) = content_problems(content_with("env", {name: "mlx5"}))
    assert (problem.where, problem.found) == (f"env {name}", "mlx5")
    assert "the signed network matrix fills it in" in str(problem)
