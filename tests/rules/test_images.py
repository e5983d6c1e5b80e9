"""An image is what docker's inspect says it is: digests only, docker's own words, and limits of each leaf."""

import json
import subprocess

import pytest

from fleet.rules.fanout import Limits
from fleet.rules.images import (
    ABSENT_RC,
    LATE_RC,
    PULL_S,
    Queue,
    choose,
    judge_pull,
    pull_argv,
    split_ref,
)
from fleet.rules.message import said

NAME, DIGEST = "registry.internal/vllm-openai", f"sha256:{'a' * 64}"
ROW = {"RepoDigests": [f"{NAME}@{DIGEST}"], "Size": 19_482_000_000}


@pytest.mark.parametrize("text", ["", NAME, f"{NAME}:latest", f"{NAME}@sha256:abc", f"-v@{DIGEST}", f"x y@{DIGEST}",
                                  f"{NAME}@{DIGEST} --all", f"registry;id/x@{DIGEST}"])  # fmt: skip
def test_only_a_name_with_a_digest_is_an_image(text):
    with pytest.raises(ValueError, match="expected a registry"):
        split_ref(text)


def test_a_tag_may_stand_beside_the_digest():
    assert split_ref(f" {NAME}:v1@{DIGEST}\n") == (f"{NAME}:v1", DIGEST)


@pytest.mark.parametrize(
    "shape", [json.dumps([ROW], indent=4), json.dumps(ROW), json.dumps(ROW) + "\nWARNING: x\n"]
)
def test_an_image_is_ready_when_inspect_names_its_digest(shape):
    seen = judge_pull(0, f"Status: Downloaded\n== inspect\n{shape}\n", DIGEST)
    assert (seen.is_ready, seen.size_bytes) == (True, 19_482_000_000)


@pytest.mark.parametrize(
    ("rc", "text", "words"),
    [
        (1, "Error response from daemon: no auth\n", "docker: Error response from daemon: no auth (exit 1)"),
        (ABSENT_RC, "== inspect\n[]\nError response from daemon: No such image: x\n", "No such image: x"),
        (0, "Status: ok\n", "docker: Status: ok"),
        (0, "== inspect\n", "names digest none"),
        (0, "== inspect\n[{\"RepoDigests\": [\"x@sha256:bb\"]}]", "names digest sha256:bb: expected sha256:aaa"),
        (0, "== inspect\n[{torn", "names digest none"),
        (None, "", "The pull was lost"),
    ],
)  # fmt: skip
def test_anything_else_is_not_ready_and_says_why_in_dockers_words(rc, text, words):
    seen = judge_pull(rc, text, DIGEST)
    assert not seen.is_ready
    assert words in said(seen.why)


def docker(tmp_path, script: str) -> dict[str, str]:
    tool = tmp_path / "docker"
    tool.write_text(f'#!/bin/sh\necho "$@" >>{tmp_path}/calls\n{script}\n')
    tool.chmod(0o755)
    return {"PATH": f"{tmp_path}:/usr/bin:/bin"}


def test_an_image_that_is_there_is_not_pulled_so_that_the_registry_may_be_away(tmp_path):
    env = docker(tmp_path, f"[ $1 = pull ] && exit 1; echo '{json.dumps([ROW])}'")
    done = subprocess.run(
        pull_argv(NAME, DIGEST, is_check=False),
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )
    assert judge_pull(done.returncode, done.stdout, DIGEST).is_ready
    assert "pull" not in (tmp_path / "calls").read_text()


def test_a_look_never_pulls(tmp_path):
    env = docker(tmp_path, "echo 'No such image' >&2; exit 1")
    argv = pull_argv(NAME, DIGEST, is_check=True)
    done = subprocess.run(argv, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == ABSENT_RC
    assert (tmp_path / "calls").read_text().split()[:2] == ["image", "inspect"]
    assert "No such image" in said(judge_pull(done.returncode, done.stdout, DIGEST).why)


def test_pulls_and_downloads_of_weights_count_together_in_a_leaf():
    wanting = {"a1": 1, "a2": 1, "a3": 1, "b1": 2, "c1": 3, "d1": 4}
    queue = Queue(
        wanting, pulling=[1], from_store=[2, 2], paused={3: "rests"}, dead={"d1"}
    )  # fmt: skip
    start, waiting = choose(queue, Limits(store_per_leaf=2))
    assert start == ["a1"]
    assert "2 downloads run into leaf 1" in said(waiting["a2"])
    assert "leaf 2" in said(waiting["b1"])
    assert waiting["c1"] == "rests"
    assert "does not answer" in said(waiting["d1"])


def test_no_more_than_at_once_run_over_all_leaves():
    start, waiting = choose(Queue({f"n{n}": n for n in range(6)}), Limits(at_once=4))
    assert len(start) == 4
    assert {said(why) for why in waiting.values()} == {"4 downloads run, as many as may at once."}


def test_copies_between_nodes_fill_a_leaf_as_pulls_do():
    queue = Queue({"a1": 1, "b1": 2}, pulling=[1], from_nodes=[1, 1, 1])
    start, waiting = choose(queue, Limits(per_leaf=4, store_per_leaf=3))
    assert start == ["b1"]
    assert said(waiting["a1"]) == "4 copies run into leaf 1, as many as may."
    start, waiting = choose(Queue({"a1": 1}, from_nodes=[2, 2]), Limits(at_once=2))
    assert (start, said(waiting["a1"])) == ([], "2 downloads run, as many as may at once.")


def test_a_pull_that_stands_still_is_ended_on_the_node_itself(tmp_path):
    env = docker(tmp_path, "[ $1 = pull ] || exit 1; exec sleep 60")
    argv = pull_argv(NAME, DIGEST, is_check=False)
    assert argv[4] == str(PULL_S)
    argv[4] = "0.2"
    done = subprocess.run(argv, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == LATE_RC
    seen = judge_pull(done.returncode, done.stdout, DIGEST)
    assert (seen.is_ready, "did not end within 60 minutes" in said(seen.why)) == (False, True)
