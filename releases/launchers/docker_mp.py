"""Renders the launch plan of a unit that runs as one docker container a node, vLLM multi-node mp.

Pure: a sealed release's content and a placement in, the exact argv of every node out. One node needs no
rendezvous, so the same launcher serves DP and TP units of one whole node; single.py takes some cards of one.
Source: manual A 5.2, 6.2; vLLM 0.23 multi-node flags (followers need --headless, only position 0 serves HTTP).
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

HTTP_PORT = 8000
MASTER_PORT = 29500
# Stands in the plan where its own hash goes, so that the hash can cover the argv that carries it.
PLAN_SHA = "PLAN_SHA"


@dataclass(frozen=True)
class Place:
    """Where one position of the unit runs; `env` is what the signed network matrix says of its node."""

    position: int
    node: str
    address: str
    model_root: str
    env: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Cards:
    """Which cards of a node a container gets (docker's word for them), and the port that goes with them."""

    word: str = "all"
    http_port: int = HTTP_PORT


def plan_render(
    *,
    unit: str,
    generation: int,
    content: dict[str, Any],
    content_sha: str,
    places: list[Place],
    launcher: str = "docker_mp",
    cards: Cards = Cards(),
) -> dict[str, Any]:
    """Render the plan: argv and environment per node, ports, world size, and what a log line's rank
    follows from.
    """
    token = hashlib.sha256(f"{unit}:{generation}:{content_sha}".encode()).hexdigest()[:8]
    shape = content["shape"]
    # Another port for each generation, so that a rendezvous left behind cannot be joined by
    # mistake.
    master = {"address": places[0].address, "port": MASTER_PORT + generation % 100}
    layout = {"gpus_per_node": shape["gpus_per_node"], **{k: shape[k] for k in ("tp", "pp", "dp")}}
    positions = [
        _position(unit, generation, token, content, place, places, master, layout, cards)
        for place in places
    ]
    return {
        "launcher": launcher,
        "unit": unit,
        "generation": generation,
        "release_sha256": content_sha,
        "token": token,
        "world_size": shape["gpus_per_node"] * len(places),
        "master": master,
        "http": {"address": places[0].address, "port": cards.http_port},
        "positions": positions,
    }


def plan_sha256(plan: dict[str, Any]) -> str:
    """Hash a plan in its canonical form; an approval, a label and a barrier all name this hash."""
    text = json.dumps(plan, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()


def argv_of(position: dict[str, Any], sha256: str) -> list[str]:
    """Return the argv that the node gets: the plan's, with the plan's own hash in its label."""
    return [word.replace(PLAN_SHA, sha256) for word in position["argv"]]


def _position(unit, generation, token, content, place, places, master, layout, cards):
    subject = f"{unit}-g{generation}-n{place.position}-{token}"
    container = f"fc-{unit}-n{place.position}-{token}"
    return {
        "position": place.position,
        "node": place.node,
        "address": place.address,
        "subject": subject,
        "container": container,
        "model_dir": f"{place.model_root}/{content['model']['slug']}/{content['model']['revision']}",
        "layout": {**layout, "position": place.position},
        "argv": [
            *_docker_words(unit, generation, subject, container, content, place, cards),
            f"{content['image']['name']}@{content['image']['digest']}",
            *_engine_words(content, place, places, master, cards),
        ],
    }


def _docker_words(unit, generation, subject, container, content, place, cards) -> list[str]:
    model = content["model"]
    inside = f"/models/{model['slug']}/{model['revision']}"
    labels = {
        "fleet.unit": unit,
        "fleet.launch": f"{unit}.g{generation}",
        "fleet.position": place.position,
        "fleet.subject": subject,
        "fleet.plan_sha": PLAN_SHA,
    }
    words = ["docker", "run", "--name", container, "--gpus", cards.word, "--network", "host"]
    words += ["--ipc", "host", "--ulimit", "memlock=-1", "--restart", "no"]
    for name, value in labels.items():
        words += ["--label", f"{name}={value}"]
    words += ["-v", f"{place.model_root}/{model['slug']}/{model['revision']}:{inside}:ro"]
    # The matrix goes before a release of old that still names a card or an interface itself.
    env = {**content["env"], **place.env, "VLLM_HOST_IP": place.address}
    for name, value in sorted(env.items()):
        words += ["-e", f"{name}={value}"]
    return words


def _engine_words(content, place, places, master, cards) -> list[str]:
    model, shape = content["model"], content["shape"]
    words = [f"/models/{model['slug']}/{model['revision']}"]
    words += ["--served-model-name", model["served_name"]]
    words += ["--host", place.address, "--port", str(cards.http_port)]
    for flag, size in (
        ("--tensor-parallel-size", shape["tp"]),
        ("--pipeline-parallel-size", shape["pp"]),
        ("--data-parallel-size", shape["dp"]),
    ):
        words += [flag, str(size)] if size > 1 else []
    words += ["--enable-expert-parallel"] if shape["ep"] else []
    if len(places) > 1:
        words += ["--nnodes", str(len(places)), "--node-rank", str(place.position)]
        words += ["--master-addr", master["address"], "--master-port", str(master["port"])]
        words += ["--headless"] if place.position else []
    for flag, value in content["args"]:
        words += [flag] if value is None else [flag, str(value)]
    return words
