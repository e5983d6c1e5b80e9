"""Reads settings from the environment, checked when read, with an error that says what was
expected.

`make up` writes the addresses it chose to `$STATE_DIR/run.json`; they stand in for variables that
are not set,
so that `manage.py` finds the running services.
"""

import json
import os
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
    value = os.environ.get(name)
    return _CHOSEN.get(name, default) if value is None else value


def integer(name: str, default: int, *, low: int, high: int) -> int:
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
    found = text(name, "1" if default else "0").lower()
    if found not in {"0", "1", "true", "false", "yes", "no"}:
        raise ImproperlyConfigured(f"{name}: expected 1 or 0, found {found!r}")
    return found in {"1", "true", "yes"}


def words(name: str, default: str = "") -> list[str]:
    """A comma-separated list; blanks around the words are dropped."""
    return [word.strip() for word in text(name, default).split(",") if word.strip()]


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
