"""Where the embedded servers keep their files, and as whom they run.

PostgreSQL refuses root, so under root it runs as nobody, who must be able to walk to its folders.
"""

import os
import pwd
import secrets
import stat
import tempfile
from pathlib import Path


def server_user() -> pwd.struct_passwd | None:
    """Say as whom the database runs: None is the present user. A uid without a passwd entry does
    not work.
    """
    return pwd.getpwnam("nobody") if os.geteuid() == 0 else None


def is_walkable(path: Path) -> bool:
    """Tell whether any user may walk to `path`: every folder on the way has x for others."""
    real = path.resolve()
    return all(folder.stat().st_mode & stat.S_IXOTH for folder in (real, *real.parents))


def make_state_dir(path: Path) -> None:
    """Create the state folder: private to a user, but open to walk through under root (for nobody)."""
    if not path.is_dir():
        path.mkdir(parents=True)
        path.chmod(0o711 if os.geteuid() == 0 else 0o700)


def server_home(state_dir: Path, name: str, *, for_nobody: bool = False) -> Path:
    """Return the folder of one server, made when absent: private, or `for_nobody` walkable under root.

    When nobody cannot walk to the state folder, it is a new folder in /var/tmp with a link to it.
    """
    home = state_dir / name
    if home.exists():
        return home.resolve()
    must_open = for_nobody and os.geteuid() == 0
    if must_open and not is_walkable(state_dir):
        outside = Path(tempfile.mkdtemp(prefix="flotilla-", dir="/var/tmp"))
        home.unlink(missing_ok=True)  # a link whose target was swept away
        home.symlink_to(outside)
    else:
        home.mkdir()
    home.chmod(0o711 if must_open else 0o700)
    return home.resolve()


def secret_file(path: Path) -> str:
    """Return the secret kept in `path`, made on first use and readable only by its owner."""
    try:
        return path.read_text().strip()
    except FileNotFoundError:
        secret = secrets.token_urlsafe(48)
        write_private(path, secret + "\n")
        return secret


def write_private(path: Path, text: str) -> None:
    """Replace a file whole, with mode 0600 from its first byte."""
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as stream:
        stream.write(text)
    fresh.replace(path)
