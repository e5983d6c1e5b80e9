"""Compiles translation catalogues (.po to .mo) without GNU gettext, so that an install needs no system package.

Understands what makemessages writes: contexts, plurals, multi-line strings; fuzzy entries are left out.
"""

import ast
import struct
from dataclasses import dataclass, field
from pathlib import Path

_LOCALE = Path(__file__).resolve().parents[1] / "locale"
_MAGIC = 0x950412DE


@dataclass
class _Entry:
    is_fuzzy: bool = False
    parts: dict[str, str] = field(
        default_factory=dict
    )  # msgctxt, msgid, msgid_plural, msgstr, msgstr[N]

    def key(self) -> str:
        plural = self.parts.get("msgid_plural")
        context = f"{self.parts['msgctxt']}\4" if "msgctxt" in self.parts else ""
        return context + self.parts["msgid"] + (f"\0{plural}" if plural is not None else "")

    def value(self) -> str:
        forms = [text for name, text in self.parts.items() if name.startswith("msgstr")]
        return "\0".join(forms) if all(forms) else ""


def compile_all(locale: Path = _LOCALE) -> list[Path]:
    """Compile every catalogue that is newer than its .mo; return what was written. Raises ValueError with the line."""
    written = []
    for source in sorted(locale.glob("*/LC_MESSAGES/*.po")):
        target = source.with_suffix(".mo")
        if not target.exists() or target.stat().st_mtime_ns < source.stat().st_mtime_ns:
            fresh = target.with_suffix(".mo.fresh")
            fresh.write_bytes(encode(parse(source.read_text(encoding="utf-8"), source.name)))
            fresh.replace(target)
            written.append(target)
    return written


def parse(text: str, name: str = "catalogue") -> dict[str, str]:
    """Return the messages of a .po text as gettext keys and values; untranslated ones are left out."""
    entries, entry, part = [], _Entry(), ""
    for number, line in enumerate(text.splitlines(), 1):
        line = line.strip()
        if not line or line.startswith("#"):
            if "msgid" in entry.parts:
                entries.append(entry)
                entry = _Entry()
            entry.is_fuzzy |= line.startswith("#,") and "fuzzy" in line
            continue
        keyword, _, quoted = line.partition('"')
        if keyword.strip():
            part = keyword.strip()
            if (
                part in ("msgid", "msgctxt") and "msgid" in entry.parts
            ):  # no blank line between entries
                entries.append(entry)
                entry = _Entry()
            entry.parts[part] = ""
        try:
            entry.parts[part] += ast.literal_eval('"' + quoted)
        except (SyntaxError, KeyError, ValueError):
            raise ValueError(
                f"{name}:{number}: expected a keyword and a quoted string, found {line!r}"
            ) from None
    entries += [entry] if "msgid" in entry.parts else []
    return {e.key(): e.value() for e in entries if not e.is_fuzzy and e.value()}


def encode(messages: dict[str, str]) -> bytes:
    """Return the messages in GNU's .mo format: header, two tables of (length, offset), then the texts."""
    pairs = sorted((key.encode(), value.encode()) for key, value in messages.items())
    start, table, texts = 28 + 16 * len(pairs), [], b""
    for column in (0, 1):
        for pair in pairs:
            table += [len(pair[column]), start + len(texts)]
            texts += pair[column] + b"\0"
    header = struct.pack("<7I", _MAGIC, 0, len(pairs), 28, 28 + 8 * len(pairs), 0, start)
    return header + struct.pack(f"<{len(table)}I", *table) + texts


if __name__ == "__main__":
    compile_all()
