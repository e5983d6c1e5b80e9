"""Reads Docker: its versions, and its containers.

The client always answers; the daemon only when it runs.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from fleet.readings.host.whole import only, whole_lines
from fleet.readings.text import Line, number_lines

_SIDE = re.compile(r"(Client|Server):(.*)")
_FIELD = re.compile(r"(\s+)(Version|API version|OS/Arch):\s+(\S{1,80})(?: \(.{0,80}\))?\s*")
_COMPONENT = re.compile(r"\s+([\w.-]{1,40}):\s*")
_ENGINE = "Engine"
_REFUSED = re.compile(
    r"Cannot connect to the Docker daemon|permission denied while trying to connect"
    r"|Is the docker daemon running|error during connect|Error response from daemon"
)
_VERSION = re.compile(r"\d{1,4}\.\d{1,4}[\w.+~-]{0,60}", re.ASCII)


@dataclass(frozen=True)
class Container:
    """A container as `docker ps` lists it; ours carry the label fleet.subject."""

    id: str
    name: str
    image: str
    state: str
    subject: str


@dataclass(frozen=True)
class DockerVersions:
    """Versions of both sides. `refusal`: why the daemon did not answer, when the tool says so."""

    client: str | None
    client_api: str | None
    server: str | None
    server_api: str | None
    refusal: str | None


def parse_docker_versions(text: str) -> DockerVersions | None:
    """Read `docker version`, as text or with `--format json`; None for any other text."""
    lines, _ = whole_lines(text)
    refusal = next((n.text.strip()[:300] for n in lines if _REFUSED.search(n.text)), None)
    objects = [n.text for n in lines if n.text.lstrip().startswith("{")]
    told = dict(_of_json(text, objects)) if "{" in text else _of_text(lines)
    versions = {key: word for key, word in told.items() if _VERSION.fullmatch(word)}
    if not versions and refusal is None:
        return None
    return DockerVersions(
        versions.get("Client Version"),
        versions.get("Client API version"),
        versions.get("Server Version"),
        versions.get("Server API version"),
        refusal,
    )


def _of_json(text: str, objects: list[str]) -> Iterator[tuple[str, str]]:
    """The object may stand in one line beside an error, or be printed over many lines."""
    top: Any = None
    if len(objects) <= 1:
        for part in (*objects, text):
            try:
                top = json.loads(part)
                break
            except (ValueError, RecursionError):
                continue
    if not isinstance(top, dict):
        return
    for side in ("Client", "Server"):
        found = top.get(side)
        for name, ours in (("Version", "Version"), ("ApiVersion", "API version")):
            if isinstance(found, dict) and isinstance(found.get(name), str):
                yield f"{side} {ours}", found[name]


def _of_text(lines: list[Line]) -> dict[str, str]:
    """Of the server only the engine's version counts: containerd and runc stand there too."""
    told: dict[str, list[str]] = {}
    side, component = "", ""
    for line in lines:
        if found := _SIDE.match(line.text):
            side, component = found[1], ""
        elif found := _FIELD.fullmatch(line.text):
            if side and component in ("", _ENGINE):
                told.setdefault(f"{side} {found[2]}", []).append(found[3])
        elif found := _COMPONENT.fullmatch(line.text):
            component = found[1]
    return {name: word for name, words in told.items() if (word := only(words)) is not None}


def parse_docker_ps(text: str) -> tuple[Container, ...] | None:
    """Read `docker ps -a --format json`: one object a line; no container is an empty answer."""
    found = []
    for line in number_lines(text):
        if not line.text.strip():
            continue
        try:
            row = json.loads(line.text)
        except ValueError:
            return None
        if not isinstance(row, dict) or not row.get("ID"):
            return None
        labels = dict(_labels(str(row.get("Labels", ""))))
        found.append(
            Container(
                id=str(row["ID"])[:200],
                name=str(row.get("Names", ""))[:200],
                image=str(row.get("Image", ""))[:200],
                state=str(row.get("State", ""))[:200],
                subject=labels.get("fleet.subject", "")[:80],
            )
        )
    return tuple(found)


def _labels(text: str) -> Iterator[tuple[str, str]]:
    for part in text.split(","):
        name, equals, value = part.partition("=")
        if equals:
            yield name, value
