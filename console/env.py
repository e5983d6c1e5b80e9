"""Reads settings from the environment, checked when read, with an error that says what was
expected.

`make up` writes the addresses it chose to `$STATE_DIR/run.json`; they stand in for variables that
are not set,
so that `manage.py` finds the running services.
"""

import ipaddress
import json
import logging
import os
import zoneinfo
from pathlib import Path
from urllib.parse import unquote, urlsplit

from django.core.exceptions import ImproperlyConfigured

BASE_DIR = Path(__file__).resolve().parent.parent


def state_dir() -> Path:
    """The folder that holds everything a one-machine console keeps: data, keys, the lab."""
    return Path(os.environ.get("STATE_DIR") or BASE_DIR / ".state").absolute()


def _chosen_by_up() -> dict[str, str]:
    try:
        chosen = json.loads((state_dir() / "run.json").read_text())
    except (OSError, ValueError):
        return {}
    return chosen.get("env", {}) if isinstance(chosen, dict) else {}


_CHOSEN = _chosen_by_up()


def text(name: str, default: str = "") -> str:
    """A variable as it stands; an empty one counts as not set."""
    return os.environ.get(name) or _CHOSEN.get(name, default)


def integer(name: str, default: int, *, low: int, high: int) -> int:
    """A whole number within a range. Raises ImproperlyConfigured."""
    found = text(name, str(default))
    try:
        value = int(found)
    except ValueError:
        value = low - 1
    if not low <= value <= high:
        raise ImproperlyConfigured(
            f"{name}: expected a whole number from {low} to {high}, found {found!r}"
        )
    return value


def number(name: str, default: float, *, low: float, high: float) -> float:
    """A number within a range. Raises ImproperlyConfigured."""
    found = text(name, str(default))
    try:
        value = float(found)
    except ValueError:
        value = low - 1
    if not low <= value <= high:
        raise ImproperlyConfigured(
            f"{name}: expected a number from {low} to {high}, found {found!r}"
        )
    return value


def flag(name: str, default: bool = False) -> bool:
    """A switch: 1 or 0, true or false, yes or no. Raises ImproperlyConfigured."""
    found = text(name, "1" if default else "0").lower()
    if found not in {"0", "1", "true", "false", "yes", "no"}:
        raise ImproperlyConfigured(f"{name}: expected 1 or 0, found {found!r}")
    return found in {"1", "true", "yes"}


def words(name: str, default: str = "") -> list[str]:
    """A comma-separated list; blanks around the words are dropped."""
    return [word.strip() for word in text(name, default).split(",") if word.strip()]


def networks(name: str, default: str = "") -> list[str]:
    """A comma-separated list of networks, as 10.40.0.0/16."""
    found = words(name, default)
    for word in found:
        try:
            ipaddress.ip_network(word)
        except ValueError as error:
            raise ImproperlyConfigured(
                f"{name}: expected networks as 10.40.0.0/16 with commas, found {error}"
            ) from None
    return found


def zone(name: str, default: str) -> str:
    """The name of a time zone, as Asia/Shanghai."""
    found = text(name, default)
    try:
        zoneinfo.ZoneInfo(found)
    except (ValueError, OSError, zoneinfo.ZoneInfoNotFoundError):
        raise ImproperlyConfigured(
            f"{name}: expected a time zone as Asia/Shanghai, found {found!r}"
        ) from None
    return found


def level(name: str, default: str) -> str:
    """A level of Python's logging."""
    found, known = text(name, default).upper(), logging.getLevelNamesMapping()
    if found not in known:
        raise ImproperlyConfigured(f"{name}: expected one of {', '.join(known)}, found {found!r}")
    return found


def cache(name: str, default: str) -> str:
    """The address of a Redis, without the number of a database."""
    found = text(name, default).rstrip("/")
    parts = urlsplit(found)
    if parts.scheme not in {"redis", "rediss", "unix"} or (parts.path and parts.scheme != "unix"):
        raise ImproperlyConfigured(
            f"{name}: expected redis://host:port without a database number, found scheme "
            f"{parts.scheme!r} and path {parts.path!r}"
        )
    return found


def key_file(name: str, default: str) -> Path:
    """The path of a private key; one that was named must be there."""
    path = Path(text(name, default))
    if text(name) and not path.is_file():
        raise ImproperlyConfigured(f"{name}: expected a private key, found no file {path}")
    return path


def database(url: str) -> dict[str, object]:
    """Turn `postgresql://user:password@host:port/name` into Django's DATABASES entry."""
    parts = urlsplit(url)
    if parts.scheme not in {"postgres", "postgresql"} or not parts.path.strip("/"):
        raise ImproperlyConfigured(
            f"DATABASE_URL: expected postgresql://user:password@host:port/name, found scheme {parts.scheme!r}"
        )
    return {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": unquote(parts.path.strip("/")),
        "USER": unquote(parts.username or ""),
        "PASSWORD": unquote(parts.password or ""),
        "HOST": unquote(parts.hostname or ""),
        "PORT": str(parts.port or ""),
    }
