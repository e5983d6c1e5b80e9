"""Seals the rehearsal lab's releases: real pins of what lies on the lab's nodes, marked as rehearsal."""

from typing import Any

from django.db import transaction

from fleet.execution.clock import database_now
from fleet.lab import golden
from fleet.lab.releases import SEED_RELEASES
from fleet.models import Pool
from fleet.services.trail import Actor, trail_add
from releases.models import Release
from releases.rules.content import content_problems, content_sha256

_NCCL_ENV = {
    "NCCL_DEBUG": "INFO",
    "NCCL_DEBUG_SUBSYS": "INIT,NET",
}
GPUS_PER_NODE = 8
_PROMPTS = (
    # A rehearsed model answers this one in prose that no two revisions share: it proves which one answered.
    ("zh-arithmetic", "17 加 25 等于多少？只回答数字。"),
    ("en-arithmetic", "What is 12 + 30? Answer with the number only."),
    ("en-echo", "Repeat exactly: flotilla"),
)


class UnsealableRelease(Exception):
    """A content that pins too little; the message names each problem."""


def golden_prompts(slug: str, revision: str) -> list[dict[str, Any]]:
    """Build the warm-up prompts with the answers that this model revision gives in the lab."""
    prompts = []
    for name, text in _PROMPTS:
        messages = [{"role": "user", "content": text}]
        expect = golden.answer(slug, revision, messages)
        prompts.append({"id": name, "messages": messages, "expect": expect})
    return prompts


def lab_content(seed: dict[str, Any]) -> dict[str, Any]:
    """Build the content of a lab release from what the lab lays on its nodes."""
    name, _, digest = seed["image"].partition("@")
    return {
        "model": {
            "slug": seed["model_slug"],
            "served_name": seed["served_model_name"],
            "revision": seed["revision"],
            "manifest_sha256": seed["manifest_sha256"],
        },
        "image": {
            # The tag is only a word for people; the digest is what runs.
            "name": name.rpartition(":")[0],
            "digest": digest,
            "vllm_version": seed["vllm_version"],
            "nccl": seed["nccl"],
        },
        "platform": seed["platform"],
        "tokenizer": seed["hashes"],
        "launcher": "docker_mp",
        "shape": {**seed["shape"], "gpus_per_node": GPUS_PER_NODE},
        "args": flag_pairs(seed["args"]),
        "env": _NCCL_ENV,
        "golden": golden_prompts(seed["model_slug"], seed["revision"]),
    }


def flag_pairs(words: list[str]) -> list[list[str | None]]:
    """Fold a flat argument list into [flag, value] pairs; a switch has the value None.

    Expert parallelism is part of the shape, so that its switch is left out here.
    """
    pairs: list[list[str | None]] = []
    for word in words:
        if word.startswith("--"):
            pairs.append([word, None])
        else:
            pairs[-1][1] = word
    return [pair for pair in pairs if pair[0] != "--enable-expert-parallel"]


@transaction.atomic
def releases_seed() -> int:
    """Seal the releases of each pool of the lab that are not there yet; return how many."""
    pools = {pool.slug: pool for pool in Pool.objects.all()}
    return sum(
        _seal(pools[seed["pool"]], seed) for seed in SEED_RELEASES.values() if seed["pool"] in pools
    )


def _seal(pool: Pool, seed: dict[str, Any]) -> int:
    content = lab_content(seed)
    if problems := content_problems(content):
        raise UnsealableRelease("; ".join(str(problem) for problem in problems))
    now = database_now()
    release, is_new = Release.objects.exclude(state=Release.State.DRAFT).get_or_create(
        content_sha256=content_sha256(content),
        defaults={
            "pool": pool,
            "title": _title(content, seed["note"]),
            "state": Release.State.REVIEWED,
            "content": content,
            "is_rehearsal": True,
            "sealed_at": now,
            "reviewed_at": now,
        },
    )
    if is_new:
        _tell(release)
    return int(is_new)


def _title(content: dict[str, Any], note: str) -> str:
    title = f"{content['model']['served_name']} vLLM {content['image']['vllm_version']}"
    return f"{title}, {note}" if note else title


def _tell(release: Release) -> None:
    trail = {
        "actor": Actor(name="rule:seed", source="command"),
        "object_kind": "release",
        "object_id": release.public_id,
    }
    trail_add(verb="release.seal", after={"content_sha256": release.content_sha256}, **trail)
    trail_add(
        verb="release.review",
        reason="rehearsal: the seed's own signature stands for those of two people",
        after={"state": release.state, "signatures": ["rule:seed"]},
        **trail,
    )
