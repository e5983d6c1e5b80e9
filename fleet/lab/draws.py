"""Numbers and ids drawn from the lab's seed: the same keys give the same value for ever."""

import uuid
from hashlib import sha256

NAMESPACE = uuid.UUID("7d0e2a54-5d6c-5a55-9d5c-0f6f6c61620a")


def draw(seed: int, *keys: object) -> int:
    """Return a repeatable 48-bit number for the seed and any keys."""
    text = "/".join(map(str, (seed, *keys)))
    return int.from_bytes(sha256(text.encode()).digest()[:6], "big")


def draw_uuid(seed: int, *keys: object) -> str:
    """Return a repeatable UUID for the seed and any keys."""
    return str(uuid.uuid5(NAMESPACE, "/".join(map(str, (seed, *keys)))))


def spread(seed: int, low: float, high: float, *keys: object) -> float:
    """Return a repeatable value between `low` and `high` with two decimals."""
    return round(low + (high - low) * (draw(seed, *keys) % 10_000) / 9_999, 2)
