"""The releases a rehearsed fleet is born with, and the model files that belong to them.

Pure data and pure functions; the same bytes are hashed for the manifest and written to nodes,
so the hashes agree. Files are kept at 1/655360 of the size they stand for (LAB.md 3.5).
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from hashlib import sha1, sha256, shake_256

from .hardware import DRIVER, VBIOS

SIZE_SCALE = 655_360
SMALLEST_SHARD_BYTES = 4096
NCCL = "2.28.9"
REGISTRY = "registry.internal/vllm-openai"
# What the cards of a newborn node answer (state.py, views_smi.py).
PLATFORM = {"driver": DRIVER, "vbios": VBIOS}


@dataclass(frozen=True)
class Model:
    """One model at one revision, as it lies on a node."""

    slug: str
    name: str
    architecture: str
    shards: int
    weight_bytes: int
    layers: int
    hidden: int
    vocabulary: int
    experts: int
    experts_per_token: int
    longest: int
    quantization: str
    model_type: str
    # Counts the revisions of one model; every shard of another turn has other bytes.
    turn: int = 1

    @property
    def key(self) -> str:
        return self.slug if self.turn == 1 else f"{self.slug}/{self.turn}"

    @property
    def revision(self) -> str:
        return sha1(f"{self.slug} revision {self.turn}".encode()).hexdigest()


def _glm(slug: str, name: str, longest: int, turn: int = 1) -> Model:
    return Model(
        slug=slug,
        name=name,
        architecture="GlmMoeDsaForCausalLM",
        shards=141,
        weight_bytes=755_000_000_000,
        layers=78,
        hidden=6144,
        vocabulary=154_880,
        experts=256,
        experts_per_token=8,
        longest=longest,
        quantization="fp8",
        model_type="glm_moe_dsa",
        turn=turn,
    )


# Every node is born with all of them, each revision in a directory of its own.
MODELS = {
    model.key: model
    for model in (
        _glm("glm-5.2-fp8", "GLM-5.2-FP8", longest=1_048_576),
        _glm("glm-5.2-fp8", "GLM-5.2-FP8", longest=1_048_576, turn=2),
        _glm("glm-5.1-fp8", "GLM-5.1-FP8", longest=202_752),
        Model(
            slug="deepseek-v4-flash",
            name="DeepSeek-V4-Flash",
            architecture="DeepseekV4ForCausalLM",
            shards=46,
            weight_bytes=160_000_000_000,
            layers=43,
            hidden=4096,
            vocabulary=129_280,
            experts=256,
            experts_per_token=6,
            longest=1_048_576,
            quantization="fp8",
            model_type="deepseek_v4",
        ),
    )
}


def image_digest(tag: str) -> str:
    """Return the digest of a lab image; it names nothing outside the lab."""
    return f"sha256:{sha256(f'flotilla lab image {tag}'.encode()).hexdigest()}"


def _image(tag: str, vllm: str, nccl: str = NCCL, flags: str = "") -> dict:
    return {
        "repository": REGISTRY,
        "tag": tag,
        "ref": f"{REGISTRY}:{tag}@{image_digest(tag)}",
        "digest": image_digest(tag),
        "id": f"sha256:{sha256(f'flotilla lab config {tag}'.encode()).hexdigest()}",
        "size_bytes": 19_482_000_000,
        "created": "2026-10-02T08:14:55Z",
        "entrypoint": ["vllm", "serve"],
        "vllm_version": vllm,
        "nccl": nccl,
        "torch": "2.11.0+cu129",
        "flags_file": f"{flags or vllm}.json",
    }


# The fork stands for a model-specific image too old for several nodes without Ray.
MULTI_NODE_FLAGS = ("--nnodes", "--node-rank", "--master-addr", "--master-port", "--headless")
IMAGES = {
    "v0.23.0": _image("v0.23.0", "0.23.0"),
    "v0.33.0": _image("v0.33.0", "0.33.0", nccl="2.29.3"),
    "fork-0.19": _image("fork-0.19", "0.19.0", nccl="2.27.7", flags="fork-0.19"),
}
GLM_ARGS = [
    "--gpu-memory-utilization", "0.88",
    "--max-model-len", "131072",
    "--max-num-seqs", "16",
    "--max-num-batched-tokens", "32768",
    "--enable-prefix-caching",
    "--enable-chunked-prefill",
    "--tool-call-parser", "glm47",
    "--reasoning-parser", "glm45",
    "--enable-auto-tool-choice",
    "--chat-template-content-format", "string",
]  # fmt: skip
DSV4_ARGS = [
    "--trust-remote-code",
    "--enable-expert-parallel",
    "--kv-cache-dtype", "fp8",
    "--block-size", "256",
    "--gpu-memory-utilization", "0.88",
    "--max-model-len", "131072",
    "--max-num-seqs", "32",
    "--max-num-batched-tokens", "16384",
    "--enable-prefix-caching",
    "--enable-chunked-prefill",
    "--tokenizer-mode", "deepseek_v4",
    "--tool-call-parser", "deepseek_v4",
    "--reasoning-parser", "deepseek_v4",
    "--enable-auto-tool-choice",
]  # fmt: skip


def _release(
    pool: str, model: str, served: str, shape: dict[str, int], args: list[str], note: str = ""
) -> dict:
    """Describe one release of a pool; `note` tells people what is new in it."""
    image = IMAGES["v0.23.0"]
    return {
        "pool": pool,
        "model": model,
        "note": note,
        "model_slug": MODELS[model].slug,
        "model_name": MODELS[model].name,
        "revision": MODELS[model].revision,
        "served_model_name": served,
        "image": image["ref"],
        "image_digest": image["digest"],
        "vllm_version": image["vllm_version"],
        "nccl": image["nccl"],
        "platform": PLATFORM,
        "shape": {"nodes": 1, "tp": 1, "pp": 1, "dp": 1, "ep": False, **shape},
        "args": args,
        "hashes": seed_hashes(model),
        "manifest_sha256": manifest_sha256(seed_manifest(model)),
    }


@cache
def seed_manifest(model: str) -> tuple[dict, ...]:
    """Return the model's files in name order: name, size, sha256, nominal_size (bytes).

    `model` is a key of MODELS.
    """
    rows = []
    for name, (nominal, content) in sorted(_files(MODELS[model]).items()):
        text = content()
        rows.append(
            {
                "name": name,
                "size": len(text),
                "sha256": sha256(text).hexdigest(),
                "nominal_size": nominal or len(text),
            }
        )
    return tuple(rows)


def manifest_sha256(files: tuple[dict, ...] | list[dict]) -> str:
    """Return the hash that `.ready` names: SHA-256 of the file rows as compact sorted JSON."""
    rows = [
        {key: row[key] for key in ("name", "size", "sha256", "nominal_size")}
        for row in sorted(files, key=lambda row: row["name"])
    ]
    text = json.dumps(rows, sort_keys=True, separators=(",", ":"))
    return sha256(text.encode()).hexdigest()


def ready_record(files: tuple[dict, ...]) -> dict:
    """Return what `.ready` holds for complete files."""
    return {
        "manifest_sha256": manifest_sha256(files),
        "files": len(files),
        "bytes": sum(row["size"] for row in files),
    }


def seed_hashes(model: str) -> dict[str, str]:
    """Return the SHA-256 of tokenizer, chat template and generation config."""
    by_name = {row["name"]: row["sha256"] for row in seed_manifest(model)}
    return {
        "tokenizer": by_name["tokenizer.json"],
        "template": by_name["chat_template.jinja"],
        "generation_config": by_name["generation_config.json"],
    }


def model_files(model: str) -> dict[str, bytes]:
    """Return file name -> content for one model; about 1.2 MB for the largest."""
    return {name: content() for name, (_nominal, content) in _files(MODELS[model]).items()}


def _files(model: Model) -> dict[str, tuple[int, Callable[[], bytes]]]:
    """Return name -> (size it stands for or 0 for its own, function that makes the bytes)."""
    nominal = model.weight_bytes // model.shards
    files: dict[str, tuple[int, Callable[[], bytes]]] = {
        "config.json": (0, lambda: _json(_config(model))),
        "tokenizer.json": (0, lambda: _json(_tokenizer(model))),
        "tokenizer_config.json": (0, lambda: _json({"model_max_length": model.longest})),
        "generation_config.json": (0, lambda: _json({"temperature": 1.0, "top_p": 0.95})),
        "chat_template.jinja": (0, lambda: _template(model)),
        "model.safetensors.index.json": (0, lambda: _json(_index(model))),
    }
    for name in _shard_names(model):
        files[name] = (nominal, partial(_shard, model, name, nominal))
    return files


def _shard_names(model: Model) -> list[str]:
    return [f"model-{n:05d}-of-{model.shards:05d}.safetensors" for n in range(1, model.shards + 1)]


def _shard(model: Model, name: str, nominal: int) -> bytes:
    size = max(SMALLEST_SHARD_BYTES, nominal // SIZE_SCALE)
    return shake_256(f"{model.slug}/{model.revision}/{name}".encode()).digest(size)


def _json(value: object) -> bytes:
    return (json.dumps(value, indent=2, sort_keys=True) + "\n").encode()


def _config(model: Model) -> dict:
    return {
        "architectures": [model.architecture],
        "model_type": model.model_type,
        "dtype": "bfloat16",
        "hidden_size": model.hidden,
        "num_hidden_layers": model.layers,
        "num_attention_heads": 64,
        "vocab_size": model.vocabulary,
        "n_routed_experts": model.experts,
        "n_shared_experts": 1,
        "num_experts_per_tok": model.experts_per_token,
        "moe_intermediate_size": 2048,
        "num_nextn_predict_layers": 1,
        "max_position_embeddings": model.longest,
        "quantization_config": {
            "quant_method": model.quantization,
            "fmt": "e4m3",
            "weight_block_size": [128, 128],
        },
    }


def _tokenizer(model: Model) -> dict:
    words = {f"piece{n}": n for n in range(256)}
    return {"version": "1.0", "lab_model": model.slug, "model": {"type": "BPE", "vocab": words}}


def _template(model: Model) -> bytes:
    return (
        f"{{# {model.slug} {model.revision[:8]} #}}"
        "{% for message in messages %}<|{{ message.role }}|>{{ message.content }}{% endfor %}"
        "{% if add_generation_prompt %}<|assistant|>{% endif %}\n"
    ).encode()


def _index(model: Model) -> dict:
    names = _shard_names(model)
    weights = {
        f"model.layers.{layer}.weight": names[layer * len(names) // model.layers]
        for layer in range(model.layers)
    }
    return {"metadata": {"total_size": model.weight_bytes}, "weight_map": weights}


def _with(args: list[str], flag: str, value: str) -> list[str]:
    """Return the arguments with another value for one flag that they have."""
    at = args.index(flag) + 1
    return [*args[:at], value, *args[at + 1 :]]


_GLM52_ARGS = ["--kv-cache-dtype", "fp8", *GLM_ARGS]
_GLM_SHAPE = {"nodes": 2, "tp": 8, "pp": 2}
_DSV4_SHAPE = {"dp": 8, "ep": True}
# In the order in which they are seeded: a pool's first is the one that a new lab launches.
SEED_RELEASES = {
    "glm52": _release("glm52", "glm-5.2-fp8", "glm-5.2", _GLM_SHAPE, _GLM52_ARGS),
    "dsv4": _release("dsv4", "deepseek-v4-flash", "deepseek-v4-flash", _DSV4_SHAPE, DSV4_ARGS),
    "glm51": _release(
        "glm51", "glm-5.1-fp8", "glm-5.1", _GLM_SHAPE, ["--kv-cache-dtype", "auto", *GLM_ARGS]
    ),
    "glm52-next": _release(
        "glm52", "glm-5.2-fp8/2", "glm-5.2", _GLM_SHAPE, _with(_GLM52_ARGS, "--max-num-seqs", "24"),
        note="revision 2, 24 sequences",
    ),
    "dsv4-next": _release(
        "dsv4", "deepseek-v4-flash", "deepseek-v4-flash", _DSV4_SHAPE,
        _with(DSV4_ARGS, "--max-num-seqs", "48"), note="48 sequences",
    ),
}  # fmt: skip
