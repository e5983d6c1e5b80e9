"""Collects every text that is wrapped for translation, and brings the catalogues up to date with them.

`python -m console.messages` writes what changed. Works without GNU gettext; compiling is catalogues.py's.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from django.utils.translation.template import templatize

from console import catalogues

ROOT = Path(__file__).resolve().parents[1]
APPS = ("console", "fleet", "releases", "runbooks")
# The console's own processes print to a terminal, and the lab speaks for engines and tools.
_UNTRANSLATED = ("console/embedded/", "fleet/lab/")
# Words of the state machines, as stored sentences carry them for their parameters.
STATE_WORDS = [
    "registered",
    "probing",
    "acceptance",
    "ready",
    "quarantined",
    "retired",
    "planned",
    "reserved",
    "launching",
    "warming",
    "serving",
    "draining",
    "stopping",
    "stopped",
    "failed",
    "lost",
    "unknown",
    "suspect",
    "unreachable",
    "unset",
    "pinned",
    "changed",
    "created",
    "preflight",
    "starting",
    "loading",
    "freezing",
    "draft",
    "sealed",
    "reviewed",
    "in_service",
    "superseded",
    "withdrawn",
    # a rollout
    "submitted",
    "approved",
    "running",
    "paused",
    "rolling_back",
    "rolled_back",
    "rollback_failed",
    "succeeded",
    "cancelled",
    # an incident
    "open",
    "acknowledged",
    "mitigating",
    "mitigated",
    "resolved",
    "closed",
    # the checks of a gate run
    "golden",
    "stream",
    "transport",
    # the triggers of a rollout
    "error_rate",
]
_PLAIN = frozenset({"_", "_lazy", "gettext", "gettext_lazy", "say", "tell"})
_PLURAL = frozenset({"ngettext", "ngettext_lazy"})
_CONTEXT = frozenset({"pgettext", "pgettext_lazy"})
_QUOTED = r"""u?(?:"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')"""
_CALL = re.compile(rf"(?<!\w)(_|n?p?gettext)\(\s*({_QUOTED})\s*(?:,\s*({_QUOTED}))?", re.DOTALL)


class Message(NamedTuple):
    """A text as gettext knows it."""

    text: str
    plural: str = ""
    context: str = ""

    @property
    def key(self) -> str:
        head = f"{self.context}\4{self.text}" if self.context else self.text
        return f"{head}\0{self.plural}" if self.plural else head


def collect(root: Path = ROOT) -> dict[Message, list[str]]:
    """Return every message with the places that use it, `file:line` in order."""
    found = {Message(word): ["state words"] for word in STATE_WORDS}
    for path in _sources(root):
        name = path.relative_to(root).as_posix()
        if name.startswith(_UNTRANSLATED):
            continue
        text = path.read_text(encoding="utf-8")
        rows = _in_python(text) if path.suffix == ".py" else _in_template(text, name)
        for message, line in rows:
            found.setdefault(message, []).append(f"{name}:{line}")
    return found


def _sources(root: Path) -> Iterator[Path]:
    yield from sorted((root / "templates").rglob("*.html"))
    for app in APPS:
        for path in sorted((root / app).rglob("*.py")):
            if "migrations" not in path.parts:
                yield path


def _in_template(text: str, name: str) -> Iterator[tuple[Message, int]]:
    code = templatize(text, origin=name)
    for call in _CALL.finditer(code):
        first, second = (ast.literal_eval(part) if part else "" for part in call.groups()[1:])
        line = code.count("\n", 0, call.start()) + 1
        if call[1] == "ngettext":
            yield Message(first, second), line
        elif call[1] == "pgettext":
            yield Message(second, context=first), line
        else:
            yield Message(first), line


def _in_python(text: str) -> Iterator[tuple[Message, int]]:
    tree = ast.parse(text)
    named = {
        target.id: node.value.value
        for node in tree.body
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant)
        for target in node.targets
        if isinstance(target, ast.Name) and isinstance(node.value.value, str)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and (message := _message_of(node, named)):
            yield message, node.lineno


def _message_of(call: ast.Call, named: dict[str, str]) -> Message | None:
    name = call.func.id if isinstance(call.func, ast.Name) else getattr(call.func, "attr", "")
    words = [_text_of(argument, named) for argument in call.args[:2]]
    if not words or words[0] is None:
        return None
    if name in _PLAIN:
        return Message(words[0])
    if len(words) < 2 or words[1] is None:
        return None
    if name in _PLURAL:
        return Message(words[0], words[1])
    return Message(words[1], context=words[0]) if name in _CONTEXT else None


def _text_of(node: ast.expr, named: dict[str, str]) -> str | None:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    return named.get(node.id) if isinstance(node, ast.Name) else None


def missing(language: str = "zh_Hans", root: Path = ROOT) -> list[Message]:
    """Return the messages that the catalogue of a language does not translate; a fuzzy one counts as missing."""
    done = catalogues.parse(catalogue_path(language, root).read_text(encoding="utf-8"))
    return [message for message in collect(root) if message.key not in done]


def catalogue_path(language: str, root: Path = ROOT) -> Path:
    """Return where the catalogue of a language lies."""
    return root / "locale" / language / "LC_MESSAGES" / "django.po"


def written(language: str, root: Path = ROOT) -> str:
    """Return the catalogue as it should be: every message in use, with the translations it has."""
    old = catalogue_path(language, root).read_text(encoding="utf-8")
    done = catalogues.parse(old)
    head = old.partition("\n\n")[0].rstrip()
    entries = [
        _entry(message, places, done.get(message.key, ""))
        for message, places in collect(root).items()
    ]
    return "\n\n".join([head, *sorted(entries)]) + "\n"


def _entry(message: Message, places: list[str], value: str) -> str:
    files = sorted({place.partition(":")[0] for place in places})
    lines = [f"#: {name}" for name in files]
    if message.context:
        lines.append(f"msgctxt {_quoted(message.context)}")
    lines.append(f"msgid {_quoted(message.text)}")
    if message.plural:
        lines.append(f"msgid_plural {_quoted(message.plural)}")
        lines += [f"msgstr[{n}] {_quoted(form)}" for n, form in enumerate(value.split("\0"))]
    else:
        lines.append(f"msgstr {_quoted(value)}")
    return "\n".join(lines)


def _quoted(text: str) -> str:
    escaped = (
        text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\t", "\\t")
    )
    return f'"{escaped}"'


def main() -> int:
    """Add what is new to every catalogue, and print what has no translation."""
    for path in sorted((ROOT / "locale").glob("*/LC_MESSAGES/django.po")):
        language = path.parts[-3]
        path.write_text(written(language), encoding="utf-8")
        left = missing(language)
        print(f"{language}: {len(left)} without translation")
        for message in left:
            print(f"  {message.text!r}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
