"""What `make up` may be told by its environment, checked before anything starts."""

import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from django.core.exceptions import ImproperlyConfigured

from console.embedded.places import make_state_dir
from fleet.lab.fabric import REFERENCE

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
    """Read HOST, PORT, LAB_NODES, LAB_LAUNCH, STATE_DIR, HANDS, DATABASE_URL, REDIS_URL. Raises `WrongUse`."""
    options = Options(
        host=env.get("HOST") or "127.0.0.1",
        port=_whole(env, "PORT", 8000, 1, 65535),
        lab_nodes=_whole(env, "LAB_NODES", 48, 0, 48),
        lab_launch=_pools(env.get("LAB_LAUNCH") or "glm52"),
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


def demand_usable(options: Options) -> None:
    """Check what needs a look at this machine, and the settings of all parts. Raises `WrongUse`."""
    try:
        family = socket.AF_INET6 if ":" in options.host else socket.AF_INET
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.bind((options.host.strip("[]"), 0))
    except OSError as error:
        raise WrongUse(
            f"HOST={options.host}: expected an address of this machine, found {error.strerror or error}"
        ) from None
    try:
        import console.settings  # noqa: F401 -- each value is checked when it is read
    except ImproperlyConfigured as problem:
        raise WrongUse(str(problem)) from None
    try:
        make_state_dir(options.state_dir)
    except OSError as error:
        raise WrongUse(
            f"STATE_DIR={options.state_dir}: expected a folder that can be written, found {error.strerror}"
        ) from None


def _pools(found: str) -> str:
    words = [word.strip() for word in found.split(",")]
    if words not in (["all"], ["none"]) and not set(words) <= set(REFERENCE):
        raise WrongUse(
            f"LAB_LAUNCH: expected all, none, or pools of {', '.join(REFERENCE)} with commas, found {found!r}"
        )
    return ",".join(words)


def _whole(env: Mapping[str, str], name: str, default: int, low: int, high: int) -> int:
    found = env.get(name) or str(default)
    if not found.isascii() or not found.isdigit() or not low <= int(found) <= high:
        raise WrongUse(f"{name}: expected a whole number from {low} to {high}, found {found!r}")
    return int(found)
