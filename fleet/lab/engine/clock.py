"""The engine's clock and its seeded draws: wall time in docker's and vLLM's spelling, no modules."""

import time
from zlib import crc32

_MASK = (1 << 64) - 1


def rfc3339(now_ns: int | None = None) -> str:
    """Spell a time as docker does: UTC, nine decimals, Z."""
    now_ns = time.time_ns() if now_ns is None else now_ns
    seconds, nanos = divmod(now_ns, 1_000_000_000)
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(seconds))}.{nanos:09d}Z"


def draw(*keys: object) -> float:
    """Draw a number in [0, 1) that depends on the keys alone (random would cost 1 MB of memory)."""
    text = "\x1f".join(map(str, keys)).encode()
    value = (crc32(text) << 32 | crc32(text, 0x9E3779B9)) + 0x9E3779B97F4A7C15 & _MASK
    value = (value ^ value >> 30) * 0xBF58476D1CE4E5B9 & _MASK
    value = (value ^ value >> 27) * 0x94D049BB133111EB & _MASK
    return (value ^ value >> 31) / 2**64


def jitter(*keys: object) -> float:
    """Draw `1 + 0.06 * N` for a phase of a rank; N from four draws, cut at 2.5 (LAB.md 4.2)."""
    normal = (sum(draw(*keys, turn) for turn in range(4)) - 2.0) * 3**0.5
    return 1.0 + 0.06 * max(-2.5, min(2.5, normal))


def hexes(count: int, *keys: object) -> str:
    """Draw `count` hexadecimal digits that depend on the keys alone."""
    digits = ""
    while len(digits) < count:
        digits += f"{int(draw(*keys, len(digits)) * 2**32):08x}"
    return digits[:count]
