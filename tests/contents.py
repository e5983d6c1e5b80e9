"""A release's content that pins everything, and how a test changes one value of it."""

import copy
from typing import Any

CONTENT: dict[str, Any] = {
    "model": {
        "slug": "glm-5.2-fp8",
        "served_name": "glm-5.2",
        "revision": "3" * 40,
        "manifest_sha256": "a" * 64,
    },
    "image": {
        "name": "registry.internal/vllm",
        "digest": "sha256:" + "b" * 64,
        "vllm_version": "0.23.0",
        "nccl": "2.28.9",
    },
    "platform": {"driver": "570.172.08", "vbios": "96.00.89.00.01"},
    "tokenizer": {"tokenizer": "c" * 64, "template": "d" * 64, "generation_config": "e" * 64},
    "launcher": "docker_mp",
    "shape": {"tp": 8, "pp": 2, "dp": 1, "ep": False, "nodes": 2, "gpus_per_node": 8},
    "args": [["--max-model-len", "131072"], ["--enable-prefix-caching", None]],
    "env": {"NCCL_DEBUG": "INFO"},
    "golden": [{"id": "echo", "messages": [{"role": "user", "content": "x"}], "expect": "x"}],
}


def content_with(dotted: str, value: Any, base: dict[str, Any] = CONTENT) -> dict[str, Any]:
    """Return a copy of a content with another value at a dotted path; None takes the key away."""
    changed = copy.deepcopy(base)
    *way, last = dotted.split(".")
    place = changed
    for key in way:
        place = place[key]
    place[last] = value
    if value is None:
        del place[last]
    return changed
