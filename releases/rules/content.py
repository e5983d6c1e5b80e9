"""What a release must pin, and the patterns its values must match before they may reach a command
line.

Everything here is an allow-list with fullmatch: a value that needs shell quoting to be safe is
refused, not quoted.
Source: SECURITY.md S10; manual A 4.1 (five-piece pin, REPLACE_WITH_* cannot be sealed).
"""

import hashlib
import json
import re
from dataclasses import dataclass
from typing import Any

HEX40 = re.compile(r"[0-9a-f]{40}")
SHA256 = re.compile(r"[0-9a-f]{64}")
DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
SLUG = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,79}")
IMAGE = re.compile(r"[a-z0-9][a-z0-9._/-]{0,120}(:\d{1,5}/[a-z0-9._/-]+)?")
FLAG = re.compile(r"--[a-z0-9][a-z0-9._-]{0,80}")
FLAG_VALUE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/:,=+{}\"\[\]-]{0,400}|")
ENV_NAME = re.compile(r"[A-Z][A-Z0-9_]{0,60}")
ENV_VALUE = re.compile(r"[A-Za-z0-9._/:,=+@^~-]{0,1024}")
PLACEHOLDERS = ("REPLACE_WITH", "latest", "main", "TODO")


@dataclass(frozen=True)
class Problem:
    """One reason not to seal: where it stands, what was expected and what was found."""

    where: str
    expected: str
    found: str

    def __str__(self) -> str:
        return f"{self.where}: expected {self.expected}, found {self.found!r}"


def content_sha256(content: dict[str, Any]) -> str:
    """Hash a release's content in its one canonical form (sorted keys, no blanks, UTF-8)."""
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()


def content_problems(content: dict[str, Any]) -> list[Problem]:
    """Name everything that keeps this content from being sealed; an empty list means sealable."""
    return [*_pin_problems(content), *_flag_problems(content), *_env_problems(content)]


def _pin_problems(content: dict[str, Any]) -> list[Problem]:
    wanted = (
        ("model.slug", SLUG, "a name without blanks"),
        ("model.served_name", SLUG, "a name without blanks"),
        ("model.revision", HEX40, "a 40-digit commit hash"),
        ("model.manifest_sha256", SHA256, "the SHA-256 of the shard manifest"),
        ("image.name", IMAGE, "an image name without tag"),
        ("image.digest", DIGEST, "sha256: and 64 hex digits"),
        ("image.vllm_version", SLUG, "the engine's version"),
    )
    problems = []
    for where, pattern, expected in wanted:
        found = _at(content, where)
        if not isinstance(found, str) or not pattern.fullmatch(found) or _is_placeholder(found):
            problems.append(Problem(where, expected, str(found)))
    for name, found in content.get("tokenizer", {}).items():
        if not SHA256.fullmatch(str(found)):
            problems.append(Problem(f"tokenizer.{name}", "a SHA-256", str(found)))
    return problems


def _flag_problems(content: dict[str, Any]) -> list[Problem]:
    problems = []
    for flag, value in content.get("args", []):
        if not FLAG.fullmatch(flag):
            problems.append(Problem("args", "a flag such as --max-model-len", str(flag)))
        if value is not None and not FLAG_VALUE.fullmatch(str(value)):
            problems.append(Problem(f"args {flag}", "a plain value", str(value)))
    return problems


def _env_problems(content: dict[str, Any]) -> list[Problem]:
    problems = []
    for name, value in content.get("env", {}).items():
        if not ENV_NAME.fullmatch(name):
            problems.append(Problem("env", "an upper-case name", str(name)))
        if not ENV_VALUE.fullmatch(str(value)):
            problems.append(Problem(f"env {name}", "a plain value of at most 1 KiB", str(value)))
    return problems


def _at(content: dict[str, Any], dotted: str) -> Any:
    found: Any = content
    for key in dotted.split("."):
        found = found.get(key) if isinstance(found, dict) else None
    return found


def _is_placeholder(value: str) -> bool:
    return value in PLACEHOLDERS or any(mark in value for mark in ("REPLACE_WITH", "TODO"))
