"""Books and their catalogue: read from TOML, checked whole, rendered with parameters. Pure.

A book names phases and steps; what an action or a reading means, in both languages, stands once in the catalogue.
Not in charge of running anything (rules/run.py decides, services carry out).
Source: manual A 12.4; the loader's rules are the drafts' section 3 (evidence before any stop, unknown blocks,
no step acts on a part of a unit).
"""

import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

RISKS = ("read_only", "reversible", "destructive")
WHO = ("auto", "operator", "approver")
ASKED = ("operator", "approver")  # whom a question may be for: it needs a person
ON_FAIL = ("stop", "continue")
LANGUAGES = ("en", "zh")
GIVEN = ("asked", "derived", "default")
FREEZE, STOPS = "evidence_freeze", ("unit_stop", "rollout_rollback")
_BOOK_KEYS = frozenset(
    [
        "schema",
        "id",
        "version",
        "title",
        "summary",
        "sources",
        "signatures",
        "rto_target_s",
        "params",
        "phase",
    ]
)
_PHASE_KEYS = frozenset(["id", "title", "why", "step"])
_STEP_KEYS = frozenset(
    [
        "id",
        "do",
        "read",
        "ask",
        "args",
        "who",
        "on_fail",
        "on_unknown",
        "typed",
        "timeout_s",
        "wait_s",
        "title",
    ]
)
_NUMBER = (int, float)
# What a value must be before anything else is asked of it; what stands here is optional or asked for later.
_BOOK_SHAPE = {
    "params": dict,
    "phase": list,
    "sources": list,
    "signatures": list,
    "rto_target_s": _NUMBER,
}
_PHASE_SHAPE = {"id": str, "step": list}
_STEP_SHAPE = {
    "id": str,
    "do": str,
    "read": str,
    "args": dict,
    "typed": str,
    "who": str,
    "on_fail": str,
    "on_unknown": str,
    "timeout_s": _NUMBER,
}
_PARAM = re.compile(r"\{([a-z_]+)\}")
_ID = re.compile(r"[a-z][a-z0-9-]{0,40}")

Text = Mapping[str, str]


@dataclass(frozen=True)
class Meaning:
    """An action or a reading of the catalogue. Times in seconds."""

    name: str
    is_action: bool
    title: Text
    outcomes: Mapping[str, Text]  # passed, failed, unknown
    risk: str = "read_only"
    who: str = "auto"
    timeout_s: float = 60.0
    is_repeatable: bool = True
    args: tuple[str, ...] = ()


@dataclass(frozen=True)
class Step:
    id: str
    phase: str
    kind: str  # action, check, confirm
    meaning: Meaning
    args: Mapping[str, Any] = field(default_factory=dict)
    who: str = "auto"
    on_fail: str = "stop"
    on_unknown: str = "block"
    typed: str = ""
    timeout_s: float = 60.0


@dataclass(frozen=True)
class Phase:
    id: str
    title: Text
    why: Text
    steps: tuple[Step, ...]


@dataclass(frozen=True)
class Book:
    id: str
    version: int
    title: Text
    summary: Text
    sources: tuple[str, ...]
    signatures: tuple[str, ...]
    rto_target_s: float
    params: Mapping[str, str]
    phases: tuple[Phase, ...]

    @property
    def steps(self) -> tuple[Step, ...]:
        return tuple(step for phase in self.phases for step in phase.steps)

    @property
    def numbers(self) -> dict[str, str]:
        """Return step id -> its number on pages: 2.3 is the third step of the second phase."""
        return {
            step.id: f"{number}.{place}"
            for number, phase in enumerate(self.phases, start=1)
            for place, step in enumerate(phase.steps, start=1)
        }


@dataclass(frozen=True)
class Fault:
    """One reason not to load a book, at the line of its step where that can be told."""

    file: str
    line: int
    step: str
    text: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.step or '-'}: {self.text}"


Catalogue = Mapping[str, Meaning]


def read_catalogue(text: str) -> Catalogue:
    """Read the catalogue. Raises ValueError naming the entry and what is missing."""
    raw = tomllib.loads(text)
    found: dict[str, Meaning] = {}
    for kind in ("action", "reading"):
        for name, entry in raw.get(kind, {}).items():
            for part in ("title", "pass", "fail", "unknown"):
                if missing := _missing_languages(entry.get(part)):
                    raise ValueError(f"{kind} {name}: {part}: expected {', '.join(missing)} too")
            found[name] = _meaning(name, entry, is_action=kind == "action")
    return found


def _meaning(name: str, entry: Mapping[str, Any], *, is_action: bool) -> Meaning:
    return Meaning(
        name=name,
        is_action=is_action,
        title=entry["title"],
        outcomes={"passed": entry["pass"], "failed": entry["fail"], "unknown": entry["unknown"]},
        risk=entry.get("risk", "read_only"),
        who=entry.get("who", "auto"),
        timeout_s=float(entry.get("timeout_s", 60.0)),
        is_repeatable=bool(entry.get("again", not is_action)),
        args=tuple(entry.get("args", ())),
    )


def read_book(text: str, catalogue: Catalogue, file: str) -> tuple[Book | None, list[Fault]]:
    """Return the book, or every fault that keeps it from being one."""
    try:
        raw = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        line = re.search(r"line (\d+)", str(error))
        return None, [Fault(file, int(line[1]) if line else 1, "", str(error))]
    lines = _lines_of_steps(text)
    told = list(_shape_faults(raw)) or list(_faults(raw, catalogue, file.rpartition("/")[2]))
    faults = [Fault(file, lines.get(step, 1), step, words) for step, words in told]
    return (None, faults) if faults else (_build(raw, catalogue), [])


def _lines_of_steps(text: str) -> dict[str, int]:
    found: dict[str, int] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if match := re.match(r'\s*id\s*=\s*"([^"]*)"', line):
            found[match[1]] = number
    return found


def _shape_faults(raw: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Values of the wrong kind: until there are none, nothing can be said of what they mean."""
    yield from _kinds("", raw, _BOOK_SHAPE)
    for phase in _listed(raw, "phase"):
        yield from _kinds("phase", phase, _PHASE_SHAPE)
        for step in _listed(phase, "step"):
            yield from _kinds("step", step, _STEP_SHAPE)


def _kinds(what: str, table: Any, shape: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    if not isinstance(table, dict):
        yield "", f"{what}: expected a table, found {table!r}"
        return
    where = str(table.get("id", "")) if what else ""
    for key, kind in shape.items():
        if key in table and not isinstance(table[key], kind):
            yield where, f"{key}: expected {_KIND_WORDS[kind]}, found {table[key]!r}"


_KIND_WORDS = {dict: "a table", list: "a list", str: "a text", _NUMBER: "a number"}


def _listed(table: Any, key: str) -> list[Any]:
    found = table.get(key, []) if isinstance(table, dict) else []
    return found if isinstance(found, list) else []


def _faults(raw: dict[str, Any], catalogue: Catalogue, name: str) -> Iterator[tuple[str, str]]:
    if raw.get("schema") != 1:
        yield "", f"schema: expected 1, found {raw.get('schema')!r}"
    if f"{raw.get('id')}.toml" != name:
        yield "", f"id: expected the file's name, found {raw.get('id')!r} in {name}"
    if not isinstance(raw.get("version"), int):
        yield "", f"version: expected a number, found {raw.get('version')!r}"
    for key in sorted(set(raw) - _BOOK_KEYS):
        yield "", f"{key}: not a key of a book"
    for part in ("title", "summary"):
        if missing := _missing_languages(raw.get(part)):
            yield "", f"{part}: expected {', '.join(missing)} too"
    for param, given in raw.get("params", {}).items():
        if given not in GIVEN:
            yield "", f"params.{param}: expected one of {', '.join(GIVEN)}, found {given!r}"
    if not raw.get("phase"):
        yield "", "phase: expected at least one"
    yield from _phase_faults(raw, catalogue)
    yield from _order_faults(raw)


def _phase_faults(raw: dict[str, Any], catalogue: Catalogue) -> Iterator[tuple[str, str]]:
    seen: set[str] = set()
    for phase in raw.get("phase", []):
        for key in sorted(set(phase) - _PHASE_KEYS):
            yield phase.get("id", ""), f"{key}: not a key of a phase"
        for part in ("title", "why"):
            if missing := _missing_languages(phase.get(part)):
                yield phase.get("id", ""), f"{part}: expected {', '.join(missing)} too"
        for step in phase.get("step", []):
            name = str(step.get("id", ""))
            if not _ID.fullmatch(name) or name in seen:
                yield name, f"id: expected a name of its own in small letters, found {name!r}"
            seen.add(name)
            for told in _step_faults(step, catalogue, raw.get("params", {})):
                yield name, told


def _step_faults(
    step: dict[str, Any], catalogue: Catalogue, params: Mapping[str, str]
) -> Iterator[str]:
    for key in sorted(set(step) - _STEP_KEYS):
        yield f"{key}: not a key of a step"
    kinds = [key for key in ("do", "read", "ask") if key in step]
    if len(kinds) != 1:
        yield f"expected exactly one of do, read and ask, found {', '.join(kinds) or 'none'}"
        return
    if kinds == ["ask"]:
        if missing := _missing_languages(step["ask"]):
            yield f"ask: expected {', '.join(missing)} too"
        if step.get("who", ASKED[0]) not in ASKED:
            yield f"who: expected one of {', '.join(ASKED)}, found {step['who']!r}"
        return
    meaning = catalogue.get(step[kinds[0]])
    if meaning is None or meaning.is_action != (kinds == ["do"]):
        yield f"{kinds[0]}: {step[kinds[0]]!r} is not in the catalogue"
        return
    for key, allowed in (("who", WHO), ("on_fail", ON_FAIL), ("on_unknown", ("block", "continue"))):
        if step.get(key, allowed[0]) not in allowed:
            yield f"{key}: expected one of {', '.join(allowed)}, found {step[key]!r}"
    yield from _argument_faults(step, meaning, params)
    if meaning.risk == "destructive" and not step.get("typed"):
        yield "typed: expected, because the step is destructive"
    if meaning.risk != "read_only" and step.get("on_unknown") == "continue":
        yield "on_unknown: expected block, because the step changes something"


def _argument_faults(
    step: dict[str, Any], meaning: Meaning, params: Mapping[str, str]
) -> Iterator[str]:
    args = step.get("args", {})
    for key in sorted(set(args) ^ set(meaning.args)):
        yield f"args.{key}: {'not an argument' if key in args else 'expected'} of {meaning.name}"
    for text in [*args.values(), step.get("typed", "")]:
        for param in _PARAM.findall(text) if isinstance(text, str) else []:
            if param not in params:
                yield f"{{{param}}}: not declared in params"


def _order_faults(raw: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Evidence is frozen before anything is ended."""
    is_frozen = False
    for phase in raw.get("phase", []):
        for step in phase.get("step", []):
            is_frozen = is_frozen or step.get("do") == FREEZE
            if step.get("do") in STOPS and not is_frozen:
                yield str(step.get("id", "")), f"expected {FREEZE} before {step['do']}"


def _missing_languages(text: Any) -> list[str]:
    if not isinstance(text, dict):
        return list(LANGUAGES)
    return [name for name in LANGUAGES if not str(text.get(name, "")).strip()]


def _build(raw: dict[str, Any], catalogue: Catalogue) -> Book:
    return Book(
        id=raw["id"],
        version=raw["version"],
        title=raw["title"],
        summary=raw["summary"],
        sources=tuple(raw.get("sources", ())),
        signatures=tuple(raw.get("signatures", ())),
        rto_target_s=float(raw.get("rto_target_s", 0)),
        params=raw.get("params", {}),
        phases=tuple(_phase(phase, catalogue) for phase in raw["phase"]),
    )


def _phase(raw: dict[str, Any], catalogue: Catalogue) -> Phase:
    steps = tuple(_step(step, raw["id"], catalogue) for step in raw.get("step", []))
    return Phase(raw["id"], raw["title"], raw["why"], steps)


def _step(raw: dict[str, Any], phase: str, catalogue: Catalogue) -> Step:
    if "ask" in raw:
        meaning = Meaning("ask", False, raw["ask"], {}, who=ASKED[0])
        kind = "confirm"
    else:
        meaning = catalogue[raw.get("do") or raw["read"]]
        kind = "action" if "do" in raw else "check"
    return Step(
        id=raw["id"],
        phase=phase,
        kind=kind,
        meaning=meaning,
        args=raw.get("args", {}),
        who=raw.get("who", meaning.who),
        on_fail=raw.get("on_fail", "stop"),
        on_unknown=raw.get("on_unknown", "block"),
        typed=raw.get("typed", ""),
        timeout_s=float(raw.get("timeout_s", meaning.timeout_s)),
    )


def params_of(step: Step) -> tuple[str, ...]:
    """Return the parameters that a step names in its arguments and in what is typed, each once."""
    texts = [*step.args.values(), step.typed]
    found = [name for text in texts if isinstance(text, str) for name in _PARAM.findall(text)]
    return tuple(dict.fromkeys(found))


def fill(value: Any, params: Mapping[str, str]) -> Any:
    """Put parameters into a text or into every text of a list. Raises KeyError for one without a value."""
    if isinstance(value, list):
        return [fill(one, params) for one in value]
    if not isinstance(value, str):
        return value
    return _PARAM.sub(lambda match: params[match[1]], value)
