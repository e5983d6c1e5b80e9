"""Lay out a lab on disk: stubs, keys, the object store, and each node's directory.

Everything here is safe to repeat on a lab that was switched off: keys, states and weights stay.
"""

import json
import os
import shutil
from datetime import datetime
from pathlib import Path

from . import keys, releases, state, views
from .fabric import RAILS, Place, fabric_table
from .sshd import NodeHost, known_hosts_line, login_user, write_shared_files, write_sshd_files

PACKAGE = Path(__file__).resolve().parent
STORE_MODELS = "store/models"
# Those by which a test tells packets that were sent again (mlx5 hw_counters).
RDMA_COUNTERS = (
    "local_ack_timeout_err",
    "out_of_sequence",
    "packet_seq_err",
    "rnr_nak_retry_err",
    "roce_adp_retrans",
)
NODE_DIRECTORIES = ("pids", "docker/containers", "root/dev/shm", "root/models", "root/home", "view")


def lay_out_lab(lab: Path, places: list[Place], weights: str) -> None:
    """Make the lab's shared part: stubs, libraries, operator key, fabric and object store."""
    lab.mkdir(mode=0o700, parents=True, exist_ok=True)
    _copy_stubs(lab)
    write_shared_files(lab)
    public = keys.ensure_key_pair(lab / "ssh" / "id_ed25519", "operator@flotilla-lab")
    (lab / "ssh" / "authorized_keys").write_text(f"{public} operator@flotilla-lab\n")
    state.replace_text(lab / "fabric.json", json.dumps(fabric_table(places), indent=1))
    (lab / "unknown.log").touch()
    if weights == "seeded":
        for model in releases.MODELS:
            _store_model(lab, model)
    _store_images(lab)


def _copy_stubs(lab: Path) -> None:
    """Copy stubs and programs afresh, so that a lab never runs an older console's stubs."""
    for name in ("bin", "lib"):
        shutil.rmtree(lab / name, ignore_errors=True)
        shutil.copytree(PACKAGE / "stubs" / name, lab / name)
    shutil.copytree(PACKAGE / "stubs" / "flags", lab / "lib" / "flags")
    for module in ("keeper.py", "procs.py"):
        shutil.copy(PACKAGE / module, lab / "lib" / module)
    skip = shutil.ignore_patterns("__pycache__")
    if (PACKAGE / "engine").is_dir():
        shutil.copytree(PACKAGE / "engine", lab / "lib" / "engine", ignore=skip)
    if (PACKAGE / "golden.py").exists():
        shutil.copy(PACKAGE / "golden.py", lab / "lib" / "golden.py")


def model_directory(root: Path, model: str) -> Path:
    """Return where a model (a key of MODELS) lies below a model root."""
    return root / releases.MODELS[model].slug / releases.MODELS[model].revision


def _store_model(lab: Path, model: str) -> None:
    directory = model_directory(lab / STORE_MODELS, model)
    if (directory / "manifest.json").exists():
        return
    directory.mkdir(parents=True, exist_ok=True)
    for name, content in releases.model_files(model).items():
        (directory / name).write_bytes(content)
    manifest = list(releases.seed_manifest(model))
    state.replace_text(directory / "manifest.json", json.dumps(manifest, indent=1))


def _store_images(lab: Path) -> None:
    """Write the images and the flag list of the fork, which is 0.23's without some."""
    flags = lab / "lib" / "flags"
    rows = json.loads((flags / "0.23.0.json").read_text())
    kept = {name: row for name, row in rows.items() if name not in releases.MULTI_NODE_FLAGS}
    (flags / "fork-0.19.json").write_text(json.dumps(kept))
    directory = lab / "store" / "images"
    directory.mkdir(parents=True, exist_ok=True)
    for tag, image in releases.IMAGES.items():
        state.replace_text(directory / f"{tag}.json", json.dumps(image))


def lay_out_node(host: NodeHost, place: Place, seed: int, now: datetime) -> str:
    """Make or keep one node's directory; return its public host key."""
    node_dir = host.directory
    if not node_dir.is_dir():
        for name in NODE_DIRECTORIES:
            os.makedirs(node_dir / name, exist_ok=True)
    keys.restore_first(node_dir / "hostkey")
    host_key = keys.ensure_key_pair(node_dir / "hostkey", place.name)
    write_sshd_files(host)
    state.replace_text(node_dir / "faults.json", "[]")
    if not (node_dir / "state.json").exists():
        _bear_node(node_dir, place, seed, now)
    return host_key


def _bear_node(node_dir: Path, place: Place, seed: int, now: datetime) -> None:
    born = state.born_state(place, seed, now)
    born["at"] = state.time_text(now)
    (node_dir / "birth.json").write_text(json.dumps(born, indent=1))
    # state.json is only ever replaced whole, so the birth state keeps its content.
    os.link(node_dir / "birth.json", node_dir / "state.json")
    shared = node_dir.parents[1] / "class" / place.node_class
    views.bear_views(node_dir, born, shared)
    _bear_counters(node_dir, shared)


def _bear_counters(node_dir: Path, shared: Path) -> None:
    """Give every rail its RDMA counters, all zero: links of one file, replaced when a test moves one."""
    zero = shared / "counter.zero"
    if not zero.exists():
        shared.mkdir(parents=True, exist_ok=True)
        zero.write_text("0\n")
    for rail in range(RAILS):
        folder = f"{node_dir}/root/sys/class/infiniband/mlx5_{rail}/ports/1/hw_counters"
        os.makedirs(folder, exist_ok=True)
        for name in RDMA_COUNTERS:
            os.link(zero, f"{folder}/{name}")


def seed_weights(lab: Path, node_dir: Path) -> None:
    """Give a node every seeded model with its `.ready`, as links to the object store."""
    for model in releases.MODELS:
        source = model_directory(lab / STORE_MODELS, model)
        target = model_directory(node_dir / "root" / "models", model)
        if (target / ".ready").exists():
            continue
        os.makedirs(target, exist_ok=True)
        files = releases.seed_manifest(model)
        _link_all([row["name"] for row in files], str(source), str(target))
        (target / ".ready").write_text(json.dumps(releases.ready_record(files)))


def _link_all(names: list[str], source: str, target: str) -> None:
    """Link files by plain strings: a fleet of 48 has 16,000 of them."""
    for name in names:
        try:
            os.link(f"{source}/{name}", f"{target}/{name}")
        except FileExistsError:
            os.unlink(f"{target}/{name}")
            os.link(f"{source}/{name}", f"{target}/{name}")


def inventory_rows(lab: Path, places: list[Place], host_keys: dict[str, str]) -> list[dict]:
    """Return the lab's nodes as an inventory import reads them."""
    return [
        {
            "name": place.name,
            "address": place.address,
            "ssh_port": 2222,
            "user": login_user(),
            "leaf": place.leaf,
            "rack": place.rack,
            "rack_unit": place.rack_unit,
            "pool": place.pool,
            "unit": place.unit,
            "position": place.position,
            "model_root": str(lab / "nodes" / place.name / "root" / "models"),
            "node_class": place.node_class,
            "host_key": host_keys[place.name],
            "origin": "lab",
        }
        for place in places
    ]


def write_known_hosts(lab: Path, rows: list[dict]) -> None:
    """Write all host keys as ssh-keyscan prints them."""
    lines = [known_hosts_line(row["address"], row["host_key"]) for row in rows]
    state.replace_text(lab / "ssh" / "known_hosts", "\n".join(lines) + "\n")
