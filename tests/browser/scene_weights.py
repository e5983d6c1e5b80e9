"""Weights of the scene: one distribution over three leaves with a bad shard, one revision held nowhere yet."""

from __future__ import annotations

from typing import Any

from django.contrib.auth import get_user_model
from django.utils import timezone

from fleet.models import Distribution, Holding, Node, WeightsArtefact
from fleet.rules import shards
from fleet.rules.message import say
from fleet.services.weights import artefact_complete

SHARDS = 141
SIZE = 5_356_000_000


def draw() -> None:
    artefact = _artefact("glm-5.1-fp8", "8c2d51aa" + "7" * 32)
    _artefact("deepseek-v4-flash", "4" * 40, count=46)
    run = Distribution.objects.create(
        artefact=artefact,
        requested_by=get_user_model().objects.get(username="ana"),
        limits={"at_once": 8, "per_leaf": 3, "seeds_per_leaf": 1},
    )
    nodes = {node.name: node for node in Node.objects.all()}
    names = [row["name"] for row in artefact.manifest]
    total = artefact.total_bytes

    def hold(number: int, state: str, **fields: Any) -> None:
        parent = fields.pop("parent", None)
        Holding.objects.create(
            node=nodes[f"gpu{number:03d}"],
            artefact=artefact,
            distribution=run,
            state=state,
            parent=nodes[f"gpu{parent:03d}"] if parent else None,
            **fields,
        )

    done = {"needs": [], "bytes_done": total, "verified_at": timezone.now()}
    hold(1, "ready", **done)
    for child, parent in ((2, 1), (3, 1), (4, 2)):
        hold(child, "ready", parent=parent, **done)
    hold(9, "ready", parent=1, **done)
    for child, share, rate in ((10, 0.72, 1.1e9), (11, 0.31, 0.9e9)):
        hold(
            child, "copying", parent=9, needs=names, bytes_done=int(total * share),
            bytes_per_s=rate, read_at=timezone.now(), explanation=say("Is copied from %(node)s.", node="gpu009"),
        )  # fmt: skip
    hold(12, "verifying", parent=9, needs=names, explanation=say("Is being verified."))
    hold(13, "wanted", needs=names, explanation=say("Every parent serves %(n)s already.", n=2))
    bad = say(
        "%(name)s is altered: SHA-256 %(found)s, the manifest says %(wanted)s.",
        name=names[60], found="77aa01bc9e02", wanted="c41d5521ff00",
    )  # fmt: skip
    hold(
        17, "failed", needs=[names[60]], explanation=bad,
        findings=[{"name": names[60], "kind": "altered", "text": bad}],
    )  # fmt: skip
    hold(
        18,
        "copying",
        parent=1,
        needs=names,
        bytes_done=None,
        explanation=say("Is copied from %(node)s.", node="gpu001"),
    )


def _artefact(model: str, revision: str, count: int = SHARDS) -> WeightsArtefact:
    row = WeightsArtefact(
        model=model, revision=revision, origin=say("pasted by %(who)s", who="ana")
    )
    files = [
        shards.Shard(f"model-{n:05d}-of-{count:05d}.safetensors", f"{n:064x}", SIZE)
        for n in range(1, count + 1)
    ]
    small = ("tokenizer.json", "chat_template.jinja", "generation_config.json")
    files += [shards.Shard(name, f"{n:064x}", 4096) for n, name in enumerate(small, 900)]
    artefact_complete(row, files)
    row.save()
    return row
