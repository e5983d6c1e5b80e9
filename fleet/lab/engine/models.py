"""What the rehearsed engine knows about models: layers, bytes a token, weights, phase times, pace.

Starting values for a rehearsal, not measurements. Sources: LAB.md 4.2, 4.3, 4.8 and MODELS.md 2.
"""

import json
import os
import re
from dataclasses import dataclass, field

REVISION = re.compile(r"[0-9a-f]{40}")

GLM_PHASES = {
    "config": 20, "spawn": 15, "nccl": 10, "load": 390, "compile": 120, "compile_warm": 12,
    "profile": 15, "kv": 2, "capture": 60, "warmup": 45, "api": 5,
}  # fmt: skip
DSV4_PHASES = {
    "config": 18, "spawn": 15, "nccl": 8, "load": 95, "compile": 90, "compile_warm": 9,
    "profile": 10, "kv": 2, "capture": 40, "warmup": 20, "api": 4,
}  # fmt: skip


@dataclass(frozen=True)
class ModelShape:
    """One model family. Sizes in GiB are for the whole model unless a name says `rank`."""

    family: str
    architecture: str
    layers: int
    # Weights a rank = (experts / (tp * ep) + body / tp) / pp, and the head on the last stage.
    experts_gib: float
    body_gib: float
    head_gib: float
    activation_rank_gib: float
    nccl_rank_gib: float
    graphs_rank_gib: float
    context_rank_gib: float
    shards: int
    block_size: int
    max_position: int
    indexer_layers: frozenset[int] = frozenset()
    phases_s: dict[str, float] = field(default_factory=lambda: dict(DSV4_PHASES))
    front_s: float = 0.12
    prefill_token_s: float = 0.00002
    token_s: float = 0.0148
    # Chance that a drafted token is accepted, given the one before it.
    acceptance: float = 0.68
    parser: str = ""


def _glm(**changes) -> ModelShape:
    base = {
        "architecture": "GlmMoeDsaForCausalLM", "layers": 78, "experts_gib": 675.0,
        "body_gib": 27.4, "head_gib": 7.2, "activation_rank_gib": 6.1, "nccl_rank_gib": 2.5,
        "graphs_rank_gib": 1.6, "context_rank_gib": 1.3, "shards": 141, "block_size": 64,
        "phases_s": GLM_PHASES, "front_s": 0.15, "prefill_token_s": 0.000028, "token_s": 0.0245, "acceptance": 0.64,
    }  # fmt: skip
    return ModelShape(**(base | changes))


# Full indexer layers of GLM-5.2: 0, 1, 2, then every fourth from 6 (its config's indexer_types).
GLM52_INDEXERS = frozenset({0, 1, 2, *range(6, 78, 4)})

SHAPES = (
    _glm(family="glm-5.2", max_position=1048576, indexer_layers=GLM52_INDEXERS),
    _glm(family="glm-5.1", max_position=202752, indexer_layers=frozenset(range(78))),
    ModelShape(
        family="deepseek-v4-flash", architecture="DeepseekV4ForCausalLM", layers=43,
        experts_gib=137.12, body_gib=7.86, head_gib=0.0, activation_rank_gib=4.4,
        nccl_rank_gib=2.4, graphs_rank_gib=2.2, context_rank_gib=1.3, shards=45, block_size=256,
        max_position=1048576,
    ),
)  # fmt: skip
SMALL = ModelShape(
    family="small", architecture="LlamaForCausalLM", layers=32, experts_gib=0.0, body_gib=15.0,
    head_gib=0.0, activation_rank_gib=1.5, nccl_rank_gib=0.6, graphs_rank_gib=0.6,
    context_rank_gib=0.6, shards=4, block_size=16, max_position=131072,
)  # fmt: skip


def find_shape(name: str, architecture: str) -> ModelShape:
    """Return the family named in `name` (a path or slug), else the one of the architecture."""
    plain = re.sub(r"[^a-z0-9]", "", name.lower())
    for shape in SHAPES:
        if re.sub(r"[^a-z0-9]", "", shape.family) in plain:
            return shape
    for shape in SHAPES:
        if shape.architecture == architecture:
            return shape
    return SMALL


@dataclass(frozen=True)
class ModelFiles:
    """Where the model lies on this node and who it says it is."""

    path: str
    slug: str
    revision: str
    config: dict
    nominal_gib: float
    shards: int


def read_model(path: str, binds: list) -> ModelFiles:
    """Read the model directory that a container path stands for.

    A directory that is missing gives an empty config; the caller decides what that means.
    """
    host = host_path(path, binds)
    slug, revision = name_of(host) if REVISION.search(host) else name_of(path)
    config = _read_json(host, "config.json")
    return ModelFiles(
        host,
        slug,
        revision,
        config if isinstance(config, dict) else {},
        _nominal_gib(host),
        _count_shards(host),
    )


def host_path(path: str, binds: list) -> str:
    """Translate a path in the container to the node's path by the longest matching bind."""
    best = ("", "")
    for bind in binds:
        source, target = bind[0], bind[1].rstrip("/")
        if (path == target or path.startswith(target + "/")) and len(target) >= len(best[1]):
            best = (source, target)
    return best[0] + path[len(best[1]) :] if best[1] else path


def name_of(path: str) -> tuple[str, str]:
    """Return (slug, revision) of `.../<slug>/<rev40>`; without a revision 40 zeros."""
    parts = [part for part in path.split("/") if part]
    for index, part in enumerate(parts):
        if REVISION.fullmatch(part):
            return (parts[index - 1] if index else "model"), part
    return (parts[-1] if parts else "model"), "0" * 40


def _count_shards(folder: str) -> int:
    try:
        return sum(1 for name in os.listdir(folder) if name.endswith(".safetensors"))
    except OSError:
        return 0


def _read_json(folder: str, name: str) -> object:
    try:
        with open(os.path.join(folder, name), encoding="utf-8") as file:
            return json.load(file)
    except (OSError, ValueError):
        return None


def _nominal_gib(folder: str) -> float:
    """Sum the nominal shard sizes of a manifest; 0 when the directory has none."""
    manifest = _read_json(folder, "manifest.json")
    files = manifest.get("files") if isinstance(manifest, dict) else manifest
    sizes = [
        row.get("nominal_size") or 0
        for row in files or []
        if isinstance(row, dict) and str(row.get("name", "")).endswith(".safetensors")
    ]
    return sum(sizes) / 2**30
