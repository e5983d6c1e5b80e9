"""Releases of the scene: a draft with two pins missing, and a sealed one that waits for a signature."""

from __future__ import annotations

import copy

from releases.models import Release
from releases.services.releases import release_draft, release_review_ask, release_seal
from tests import factories


def draw() -> None:
    """Draft twice from the scene's first release; the second draft is sealed and asked for."""
    first = Release.objects.earliest("id")
    _draft(first, "glm-5.2 vLLM 0.33.0", _unpinned(first.content))
    release = release_seal(
        release=_draft(first, "glm-5.2 vLLM 0.23.0, 24 sequences", _longer(first.content)),
        actor=factories.make_actor("ana"),
    )
    release_review_ask(
        release=release,
        actor=factories.make_actor("ana"),
        user=factories.make_person("ana"),
        reason="24 sequences fit since the MTP draft is off; budget measured on glm52-c1",
    )


def _draft(first: Release, title: str, content: dict) -> Release:
    return release_draft(
        pool=first.pool,
        title=title,
        content=content,
        actor=factories.make_actor("ana"),
        user=factories.make_person("ana"),
        based_on=first,
    )


def _unpinned(content: dict) -> dict:
    changed = copy.deepcopy(content)
    changed["image"] |= {"digest": "v0.33.0", "vllm_version": "0.33.0"}
    changed["model"]["revision"] = "main"
    return changed


def _longer(content: dict) -> dict:
    changed = copy.deepcopy(content)
    changed["model"]["revision"] = "5" * 40
    changed["args"] = [
        [flag, "24" if flag == "--max-num-seqs" else value] for flag, value in changed["args"]
    ]
    changed["env"]["NCCL_NET_GDR_LEVEL"] = "PIX"
    return changed
