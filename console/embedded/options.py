"""What `make up` may be told by its environment, checked before anything starts."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

_ROOT = Path(__file__).resolve().parents[2]
_WILDCARDS = {"0.0.0.0", "::", "[::]"}


class WrongUse(ValueError):
    """A variable holds what cannot be used; exit code 2."""


@dataclass(frozen=True)
class Options:
    """One run of the whole console on this machine."""

    host: str
    port: int
    lab_nodes: int
    lab_launch: str
    state_dir: Path
    hands: int
    database_url: str
    redis_url: str

    @property
    def has_lab(self) -> bool:
        return self.lab_nodes > 0

    @property
    def address(self) -> str:
        return f"http://{self.host}:{self.port}"

    @property
    def reachable_host(self) -> str:
        """The address under which this machine itself reaches the web process."""
        return "127.0.0.1" if self.host in _WILDCARDS else self.host


def read_options(env: Mapping[str, str] = os.environ) -> Options:
    """Read HOST, PORT, LAB_NODES, LAB_LAUNCH, STATE_DIR, HANDS, DATABASE_URL, REDIS_URL. Raises
    `WrongUse`.
    """
    options = Options(
        host=env.get("HOST") or "127.0.0.1",
        port=_whole(env, "PORT", 8000, 1, 65535),
        lab_nodes=_whole(env, "LAB_NODES", 48, 0, 48),
        lab_launch=env.get("LAB_LAUNCH") or "glm52",
        state_dir=Path(env.get("STATE_DIR") or _ROOT / ".state").absolute(),
        hands=_whole(env, "HANDS", 4, 1, 64),
        database_url=env.get("DATABASE_URL", ""),
        redis_url=env.get("REDIS_URL", ""),
    )
    if options.has_lab and options.host in _WILDCARDS:
        raise WrongUse(
            f"HOST={options.host}: expected one address while the lab is on, because its engines own"
            " port 8000 on 127.0.13.N; use HOST=127.0.0.1, or LAB_NODES=0"
        )
    return options


def _whole(env: Mapping[str, str], name: str, default: int, low: int, high: int) -> int:
    found = env.get(name) or str(default)
    if not found.isascii() or not found.isdigit() or not low <= int(found) <= high:
        raise WrongUse(f"{name}: expected a whole number from {low} to {high}, found {found!r}")
    return int(found)
