"""Keys of a lab: host keys and the operator's key, made in this process.

ssh-keygen would do, but 48 forks of it cost more than the rest of a lab's birth.
"""

import os
from dataclasses import dataclass
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)


@dataclass(frozen=True)
class KeyPair:
    """An Ed25519 pair in OpenSSH's text forms."""

    private_text: str
    public_text: str


def make_key_pair() -> KeyPair:
    """Make a random Ed25519 pair."""
    key = Ed25519PrivateKey.generate()
    private = key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption())
    public = key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH)
    return KeyPair(private.decode(), public.decode())


def write_key_pair(path: Path, comment: str) -> str:
    """Write `path` (0600) and `path`.pub with a new pair; return the public key text."""
    pair = make_key_pair()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(pair.private_text)
    public_path(path).write_text(f"{pair.public_text} {comment}\n")
    return pair.public_text


def ensure_key_pair(path: Path, comment: str) -> str:
    """Return the public key of `path`, making the pair first when there is none."""
    if path.exists() and public_path(path).exists():
        return " ".join(public_path(path).read_text().split()[:2])
    return write_key_pair(path, comment)


def public_path(path: Path) -> Path:
    """Return where the public half of `path` lies."""
    return path.with_name(path.name + ".pub")


def keep_first(path: Path) -> None:
    """Put a pair aside, so that it can come back; a pair put aside before stays the first."""
    for name in (path, public_path(path)):
        kept = name.with_name(f"{name.name}.first")
        if not kept.exists():
            os.rename(name, kept)


def restore_first(path: Path) -> None:
    """Bring back the pair that was put aside; nothing happens when there is none."""
    for name in (path, public_path(path)):
        kept = name.with_name(f"{name.name}.first")
        if kept.exists():
            os.rename(kept, name)
