"""What a command brought back from its node: named sections of raw bytes, packed in one row.

The bytes are a node's: data to show and to parse, never to trust.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import zstandard

from fleet.execution.models import Command, CommandOutput
from fleet.execution.storable import storable_text

UNPACKED_CAP_BYTES = 256 * 1024 * 1024


@dataclass(frozen=True)
class Section:
    """One named part of an output. `error` says why its bytes are missing or fewer than on the node."""

    name: str
    rc: int | None = None
    ms: int | None = None
    truncated: bool = False
    error: str = ""
    body: bytes = b""
    sha256: str = ""

    @property
    def text(self) -> str:
        return self.body.decode("utf-8", "replace")


def sections_pack(command_id: int, sections: Iterable[Section]) -> CommandOutput:
    """Return the row that holds these sections, not saved."""
    sections = list(sections)
    return CommandOutput(
        command_id=command_id,
        sections=[_head(section) for section in sections],
        body=zstandard.compress(b"".join(section.body for section in sections), 3),
    )


def command_sections(command: Command) -> dict[str, Section]:
    """Return the sections of a command's output by name; nothing when it has none."""
    try:
        output = command.output
    except CommandOutput.DoesNotExist:
        return {}
    raw = zstandard.decompress(bytes(output.body), max_output_size=UNPACKED_CAP_BYTES)
    found, offset = {}, 0
    for head in output.sections:
        size = head["bytes"]
        fields = {key: value for key, value in head.items() if key != "bytes"}
        found[head["name"]] = Section(**fields, body=raw[offset : offset + size])
        offset += size
    return found


def _head(section: Section) -> dict[str, Any]:
    return {
        "name": section.name,
        "rc": section.rc,
        "ms": section.ms,
        "truncated": section.truncated,
        "error": storable_text(section.error, 500),
        "sha256": section.sha256,
        "bytes": len(section.body),
    }
