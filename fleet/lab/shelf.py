"""The model files of a node, for faults: one byte turned, a file gone, and everything as it was again.

Files are links to the object store: what is changed is first given a place of its own.
"""

import os
from pathlib import Path

from . import birth, releases
from .effects import Site
from .place import LabError


def corrupt_shard(site: Site, args: dict) -> None:
    """Turn one byte of a shard; its size and its times stay, and so does `.ready`."""
    path = _shard(site, args)
    stat, raw = path.stat(), bytearray(path.read_bytes())
    raw[len(raw) // 2] ^= 0xFF
    fresh = path.with_name(f"{path.name}.new")
    fresh.write_bytes(raw)
    os.utime(fresh, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    os.rename(fresh, path)


def remove_shard(site: Site, args: dict) -> None:
    """Remove a shard; `.ready` stays."""
    _shard(site, args).unlink()


def restore_shard(site: Site, args: dict) -> None:
    """Bring the shard back from the object store, if somebody has not done so."""
    name = _name(args)
    source = birth.model_directory(site.lab / birth.STORE_MODELS, args["model"]) / name
    target = birth.model_directory(site.directory / "root" / "models", args["model"]) / name
    if source.exists() and target.parent.is_dir():
        target.unlink(missing_ok=True)
        os.link(source, target)


def _shard(site: Site, args: dict) -> Path:
    directory = birth.model_directory(site.directory / "root" / "models", _model(args))
    path = directory / _name(args)
    if not path.exists():
        raise LabError(f"{site.host.name} has no {path.name} of {args['model']}")
    return path


def _model(args: dict) -> str:
    if args["model"] not in releases.MODELS:
        raise LabError(f"no model {args['model']}; there are {', '.join(releases.MODELS)}")
    return args["model"]


def _name(args: dict) -> str:
    count = releases.MODELS[_model(args)].shards
    if not 1 <= args["n"] <= count:
        raise LabError(f"n={args['n']}: {args['model']} has shards 1 to {count}")
    return f"model-{args['n']:05d}-of-{count:05d}.safetensors"
