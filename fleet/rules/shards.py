"""The shard manifest of a model revision: read from what people paste, compared with what a node holds. Pure.

Source: 384-card manual, section 4.1 (index of safetensors, SHA-256 of every shard). Names are relative to the
revision's directory. Sizes in bytes.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fleet.rules.message import say

INDEX = "model.safetensors.index.json"
READY = ".ready"
MISSING, SHORT, LONG, ALTERED, UNREAD, EXTRA = (
    "missing",
    "short",
    "long",
    "altered",
    "unread",
    "extra",
)
BAD = (MISSING, SHORT, LONG, ALTERED, UNREAD)  # extra files are told, and forbid nothing
FILES_MAX = 2000
PASTE_MAX = 2 * 1024 * 1024
# What a name may be: it travels in argument lists, and a path must not leave its directory.
NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._+-]{0,199}(?:/[A-Za-z0-9_][A-Za-z0-9._+-]{0,199}){0,3}")
_SHA_LINE = re.compile(r"\\?([0-9a-fA-F]{64}) [ *](?:\./)?(.+)")
_SIZE_LINE = re.compile(r"(\d{1,18})\s+(?:\./)?(.+)")
_HASHED = {
    "tokenizer": ("tokenizer.json", "tokenizer.model", "tiktoken.model"),
    "template": ("chat_template.jinja", "chat_template.json"),
    "generation_config": ("generation_config.json",),
}


class ManifestUnreadable(ValueError):
    """What was given is no manifest; `problems` are sentences that name each line or file."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("; ".join(problems))
        self.problems = list(problems)


@dataclass(frozen=True)
class Shard:
    """One file of a revision. `size` None: not known yet, no node was read."""

    name: str
    sha256: str
    size: int | None = None
    nominal_size: int | None = None

    def as_row(self) -> dict[str, Any]:
        """Return the row that is stored, and hashed as the manifest."""
        nominal = self.size if self.nominal_size is None else self.nominal_size
        return {
            "name": self.name,
            "size": self.size,
            "sha256": self.sha256,
            "nominal_size": nominal,
        }


@dataclass(frozen=True)
class FileFound:
    """A file on a node: bytes, and its hash when it was read to its end."""

    size: int
    sha256: str = ""


@dataclass(frozen=True)
class Difference:
    """One file that is not as the manifest says; `text` is the sentence."""

    name: str
    kind: str
    text: str


def shards_of(rows: Iterable[Mapping[str, Any]]) -> list[Shard]:
    """Return the shards of stored rows."""
    return [
        Shard(row["name"], row["sha256"], row.get("size"), row.get("nominal_size")) for row in rows
    ]


def read_checksums(text: str, index: str = "") -> list[Shard]:
    """Read a checksum list as `sha256sum` prints it, with optional lines `SIZE NAME`.

    What the index names must be in it. A manifest of rows (name, size, sha256)
    in JSON is read too. Raises ManifestUnreadable with every problem.
    """
    if len(text) + len(index) > PASTE_MAX:
        raise ManifestUnreadable([say("more than %(max)s bytes", max=PASTE_MAX)])
    shards = _rows(text) if text.lstrip().startswith("[") else _lines(text)
    problems = [
        say("%(name)s: not a name of a file below the revision", name=shard.name[:80])
        for shard in shards
        if not is_name(shard.name)
    ]
    names = [shard.name for shard in shards]
    problems += [
        say("%(name)s: named twice", name=name[:80])
        for name in sorted({name for name in names if names.count(name) > 1})
    ]
    if not shards:
        problems.append(say("no line of a checksum list: expected 64 hex digits, blanks, a name"))
    if len(shards) > FILES_MAX:
        problems.append(say("%(n)s files: expected at most %(max)s", n=len(shards), max=FILES_MAX))
    if index.strip():
        problems += [
            say("%(name)s: the index names it, the checksum list does not", name=name)
            for name in index_names(index)
            if name not in set(names)
        ]
    if problems:
        raise ManifestUnreadable(problems)
    return sorted(shards, key=lambda shard: shard.name)


def index_names(index: str) -> list[str]:
    """Return the shard files that a model.safetensors.index.json names. Raises ManifestUnreadable."""
    found = _json(index)
    table = found.get("weight_map") if isinstance(found, dict) else None
    if not isinstance(table, dict) or not table:
        raise ManifestUnreadable([say("%(name)s: no weight_map in it", name=INDEX)])
    names = sorted({str(name) for name in table.values()})
    if bad := [name for name in names if not is_name(name)]:
        raise ManifestUnreadable(
            [say("%(name)s: not a name of a file below the revision", name=bad[0][:80])]
        )
    return names


def is_name(name: str) -> bool:
    """Tell whether a file of this name may be part of a revision."""
    return bool(NAME.fullmatch(name)) and ".." not in name.split("/")


def _rows(text: str) -> list[Shard]:
    found = _json(text)
    shards, problems = [], []
    for number, row in enumerate(found if isinstance(found, list) else [], 1):
        row = row if isinstance(row, dict) else {}
        digest, size = str(row.get("sha256", "")), row.get("size")
        nominal = row.get("nominal_size")
        if not re.fullmatch(r"[0-9a-f]{64}", digest) or not all(map(_is_size, (size, nominal))):
            problems.append(say("row %(n)s: expected name, size and sha256", n=number))
            continue
        shards.append(Shard(str(row.get("name", "")), digest, size, nominal))
    if problems:
        raise ManifestUnreadable(problems[:20])
    return shards


def _is_size(value: Any) -> bool:
    return value is None or (
        isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 10**18
    )


def _lines(text: str) -> list[Shard]:
    digests, sizes, problems = [], {}, []
    for number, line in enumerate(text.splitlines(), 1):
        line = line.strip()
        if not line or line.startswith("#"):
            continue
        if found := _SHA_LINE.fullmatch(line):
            digests.append((found[2].strip(), found[1].lower()))
        elif found := _SIZE_LINE.fullmatch(line):
            sizes[found[2].strip()] = int(found[1])
        else:
            problems.append(
                say(
                    "line %(n)s: expected 64 hex digits and a name, found %(found)s",
                    n=number,
                    found=line[:60],
                )
            )
    if problems:
        raise ManifestUnreadable(problems[:20])
    return [Shard(name, digest, sizes.get(name)) for name, digest in digests]


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise ManifestUnreadable([say("not JSON")]) from None


def read_found(text: str) -> dict[str, FileFound]:
    """Read what a check printed on a node: `F SIZE NAME` for what lies there, `H SHA256 NAME` for what was read.

    Other lines (a tool's complaints) say nothing of a file. A torn last line is none.
    """
    sizes: dict[str, int] = {}
    digests: dict[str, str] = {}
    for line in text.split("\n")[:-1]:
        word, _, rest = line.partition(" ")
        value, _, name = rest.partition(" ")
        if word == "F" and value.isdecimal() and len(value) < 19:
            sizes[name] = int(value)
        elif word == "H" and re.fullmatch(r"[0-9a-f]{64}", value):
            digests[name] = value
    return {name: FileFound(size, digests.get(name, "")) for name, size in sizes.items()}


def compare(shards: Sequence[Shard], found: Mapping[str, FileFound]) -> list[Difference]:
    """Name every file that is not as the manifest says, the bad ones first, in name order."""
    differences = [one for shard in shards if (one := _difference(shard, found.get(shard.name)))]
    named = {shard.name for shard in shards}
    extra = [
        Difference(name, EXTRA, say("%(name)s is not in the manifest.", name=_shown(name)))
        for name in sorted(found)
        if name not in named and not _is_ours(name)
    ]
    return differences + extra


def _difference(shard: Shard, file: FileFound | None) -> Difference | None:
    words = {"name": shard.name}
    if file is None:
        return Difference(shard.name, MISSING, say("%(name)s is missing.", **words))
    if shard.size is not None and file.size != shard.size:
        kind = SHORT if file.size < shard.size else LONG
        text = say(
            "%(name)s has %(found)s bytes, the manifest says %(wanted)s.",
            **words,
            found=file.size,
            wanted=shard.size,
        )
        return Difference(shard.name, kind, text)
    if not file.sha256:
        text = say("%(name)s was not read to its end, so nothing is known of it.", **words)
        return Difference(shard.name, UNREAD, text)
    if file.sha256 != shard.sha256:
        text = say(
            "%(name)s is altered: SHA-256 %(found)s, the manifest says %(wanted)s.",
            **words,
            found=file.sha256[:12],
            wanted=shard.sha256[:12],
        )
        return Difference(shard.name, ALTERED, text)
    return None


def _is_ours(name: str) -> bool:
    """Our own marker, and what a copier keeps of a file that is on its way."""
    return name.startswith((".ready", ".partial/")) or name.rpartition("/")[2].startswith(".")


def _shown(name: str) -> str:
    return "".join(letter if letter.isprintable() else "?" for letter in name)[:120]


def bad_files(differences: Iterable[Difference]) -> list[str]:
    """Return the names that must be copied again."""
    return [one.name for one in differences if one.kind in BAD]


def made_from(
    found: Mapping[str, FileFound], wanted: Sequence[Shard] = ()
) -> tuple[list[Shard], list[str]]:
    """Make the manifest from what a seed node holds; with `wanted` (a checksum list) only its files, sizes filled in.

    Returns (shards, problems): with a problem nothing was made.
    """
    if wanted:
        differences = [one for one in compare(wanted, found) if one.kind in BAD]
        sizes = {name: file.size for name, file in found.items()}
        shards = [
            Shard(one.name, one.sha256, sizes.get(one.name), one.nominal_size) for one in wanted
        ]
        return shards, [one.text for one in differences]
    named = {name: file for name, file in found.items() if not _is_ours(name)}
    problems = [
        say("%(name)s: not a name of a file below the revision", name=_shown(name))
        for name in sorted(named)
        if not is_name(name)
    ]
    problems += [
        say("%(name)s was not read to its end, so nothing is known of it.", name=_shown(name))
        for name, file in sorted(named.items())
        if is_name(name) and not file.sha256
    ]
    if not any(name.endswith(".safetensors") for name in named):
        problems.append(say("no .safetensors file lies in the directory of this revision"))
    if len(named) > FILES_MAX:
        problems.append(say("%(n)s files: expected at most %(max)s", n=len(named), max=FILES_MAX))
    shards = [Shard(name, file.sha256, file.size) for name, file in sorted(named.items())]
    return shards, problems


def manifest_sha256(shards: Iterable[Shard]) -> str:
    """Return the hash that `.ready` and a release name: SHA-256 of the rows as compact sorted JSON."""
    rows = [shard.as_row() for shard in sorted(shards, key=lambda shard: shard.name)]
    text = json.dumps(rows, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def part_hashes(shards: Iterable[Shard]) -> dict[str, str]:
    """Return the SHA-256 of tokenizer, template and generation config; empty text where the revision has none."""
    by_name = {shard.name: shard.sha256 for shard in shards}
    return {
        part: next((by_name[name] for name in names if name in by_name), "")
        for part, names in _HASHED.items()
    }


def ready_record(model: str, revision: str, shards: Sequence[Shard]) -> str:
    """Return the text of `.ready`: which revision lies here, and by which manifest it was verified."""
    record = {
        "model": model,
        "revision": revision,
        "manifest_sha256": manifest_sha256(shards),
        "files": len(shards),
        "bytes": sum(shard.size or 0 for shard in shards),
    }
    return json.dumps(record, sort_keys=True)
