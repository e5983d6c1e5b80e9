"""Two releases side by side: what differs, in which piece, and what follows."""

import pytest

from fleet.rules.message import said
from releases.rules.content_diff import PIECES, consequences, content_diff, content_fields
from tests.contents import CONTENT, content_with


def follows(after, before=CONTENT) -> str:
    return " ".join(said(what.sentence) for what in consequences(content_diff(before, after)))


def test_equal_contents_differ_in_nothing_and_need_nothing():
    assert content_diff(CONTENT, content_with("env", dict(CONTENT["env"]))) == []
    assert consequences([]) == []


def test_what_is_added_removed_and_changed_is_told_apart():
    args = [["--max-model-len", "65536"], ["--max-num-seqs", "24"]]
    changes = {change.field: change for change in content_diff(CONTENT, content_with("args", args))}
    kinds = {field: change.kind for field, change in changes.items()}
    assert kinds == {
        "--max-model-len": "changed",
        "--enable-prefix-caching": "removed",
        "--max-num-seqs": "added",
    }
    changed = changes["--max-model-len"]
    assert (changed.before, changed.after) == ("131072", "65536")
    assert changes["--enable-prefix-caching"].before == "on"


def test_every_value_that_is_pinned_is_compared():
    assert len(content_fields(CONTENT)) == 4 + 3 + 4 + 2 + 1 + 6 + 2 + 1 + 2


def test_another_question_with_the_same_answer_is_a_change():
    prompt = {**CONTENT["golden"][0], "messages": [{"role": "user", "content": "anything"}]}
    changes = content_diff(CONTENT, content_with("golden", [prompt]))
    assert [(change.piece, change.kind) for change in changes] == [("golden", "changed")]
    assert "anything" in changes[0].after


@pytest.mark.parametrize(
    ("dotted", "value", "piece"),
    [
        ("model.revision", "4" * 40, "model"),
        ("tokenizer.template", "f" * 64, "protocol"),
        ("args", [["--tool-call-parser", "glm47"], *CONTENT["args"]], "protocol"),
        ("image.digest", "sha256:" + "0" * 64, "image"),
        ("platform.driver", "575.1.1", "platform"),
        ("launcher", "single", "launch"),
        ("shape.tp", 16, "launch"),
        ("env.NCCL_DEBUG", "WARN", "launch"),
        ("golden", [], "golden"),
    ],
)
def test_a_change_belongs_to_its_piece(dotted, value, piece):
    assert {change.piece for change in content_diff(CONTENT, content_with(dotted, value))} == {
        piece
    }


def test_changes_come_in_the_order_of_the_pieces():
    after = content_with("platform.driver", "575.1.1", content_with("model.revision", "4" * 40))
    pieces = [change.piece for change in content_diff(content_with("env", {}), after)]
    assert pieces == sorted(pieces, key=PIECES.index)


@pytest.mark.parametrize(
    ("dotted", "value", "words", "not_words"),
    [
        ("env.OMP_NUM_THREADS", "8", "launched anew", "NCCL log"),
        ("env.NCCL_DEBUG", "WARN", "NCCL log", "acceptance"),
        ("platform.driver", "575.1.1", "passes acceptance again", "weights must lie"),
        ("model.revision", "4" * 40, "weights must lie complete", "acceptance"),
        ("image.digest", "sha256:" + "0" * 64, "image of this digest", "cold cache"),
        ("launcher", "single", "never mixed", "memory of every rank"),
        ("args", [["--max-model-len", "9"]], "memory of every rank", "never mixed"),
        ("golden", [], "launched anew", "gates run anew"),
    ],
)
def test_what_follows_depends_on_what_changes(dotted, value, words, not_words):
    found = follows(content_with(dotted, value))
    assert words in found
    assert not_words not in found


def test_two_causes_at_once_are_said():
    both = content_with("image.digest", "sha256:" + "0" * 64, content_with("env", {}))
    assert "Several pieces change at once" in follows(both)
    assert "Several pieces" not in follows(content_with("env", {}))
