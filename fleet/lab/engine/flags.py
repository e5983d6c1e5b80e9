"""vLLM's command line by the flag list of the image's version: what parses, and how it refuses.

A small parser of its own: 262 argparse actions would cost more memory and time than the engine.
"""

import json
import os

from .flaglist import BUILT_IN
from .plan import Refused

BOOLEAN = ("BooleanOptionalAction", "EnableDisableAction", "bool", "boolean")
SWITCH = ("_StoreTrueAction", "flag", "store_true")
JSON_TYPES = (
    "parse_dataclass", "loads", "union_dict_and_str", "_parse_type", "json",
)  # fmt: skip
USAGE = "usage: vllm serve [model_tag] [options]"
# Optional types hide what they hold; these are read as numbers or objects by the engine.
INTEGERS = {"distributed_timeout_seconds", "data_parallel_size_local", "node_rank", "nnodes"}
OBJECTS = {
    "speculative_config",
    "kv_transfer_config",
    "rope_scaling",
    "default_chat_template_kwargs",
}
LISTS = {"served_model_name", "lora_modules", "middleware", "allowed_media_domains"}
SUFFIXES = {"k": 10**3, "m": 10**6, "g": 10**9, "K": 2**10, "M": 2**20, "G": 2**30}


def load_flags(version: str, flags_file: str = "") -> dict[str, dict]:
    """Return alias -> flag row for a version; the built-in list when no file is found."""
    here = os.path.dirname(os.path.abspath(__file__))
    parent = os.path.dirname(here)
    # An absolute flags_file stays itself when joined.
    names = [flags_file] if flags_file else []
    names.append(f"{version}.json")
    folders = ("flags", "stubs/flags")
    places = [os.path.join(parent, folder, name) for name in names for folder in folders]
    rows = BUILT_IN
    for place in places:
        try:
            with open(place, encoding="utf-8") as file:
                rows = json.load(file)
            break
        except (OSError, ValueError):
            continue
    return by_alias(rows)


def by_alias(rows: dict[str, dict]) -> dict[str, dict]:
    """Return the flag list by every spelling of each flag."""
    found: dict[str, dict] = {}
    for name, row in rows.items():
        for alias in row.get("all") or [name]:
            found[alias] = row | {"name": name}
    return found


def refuse(text: str) -> Refused:
    """Build the refusal of a command line, with the usage that the engine prints; exit code 2."""
    return Refused(f"{USAGE}\nvllm: error: {text}", code=2, as_traceback=False)


class Parser:
    """Parse one argument vector; `values` maps dest to value."""

    def __init__(self, flags: dict[str, dict], version: str) -> None:
        self.flags = flags
        self.version = version
        self.values: dict = {}
        self.positionals: list[str] = []
        self.unknown: list[str] = []

    def parse(self, argv: list[str]) -> dict:
        """Return dest -> value of what was given; raises Refused (exit code 2)."""
        rest = list(argv)
        while rest:
            word = rest.pop(0)
            if word.startswith("-") and len(word) > 1 and not _is_number(word):
                self._option(word, rest)
            else:
                self.positionals.append(word)
        # One positional is the model; a second one is what `vllm serve` twice ends in.
        unknown = self.positionals[1:] + self.unknown
        if unknown:
            raise refuse("unrecognized arguments: " + " ".join(unknown))
        if self.positionals:
            self.values["model_tag"] = self.positionals[0]
        return self.values

    def _option(self, word: str, rest: list[str]) -> None:
        name, equals, value = word.partition("=")
        plain, _, path = _normal(name).partition(".")
        row, negated = self._find(plain)
        if row is None:
            self.unknown.append(word)
            # argparse reports the value of an unknown flag as well.
            while not equals and rest and not rest[0].startswith("-"):
                self.unknown.append(rest.pop(0))
            return
        if row.get("type") == "_HelpAction":
            raise Refused(USAGE, code=0, as_traceback=False)
        if path:
            given = value if equals else (rest.pop(0) if rest else "")
            self._set_path(row, path, given)
        elif self._is_boolean(row):
            self.values[row["dest"]] = not negated
        elif equals:
            self._set(row, value)
        else:
            self._take(row, rest)

    def _find(self, name: str) -> tuple[dict | None, bool]:
        """Find a flag, also in its negated spellings."""
        row = self.flags.get(name)
        if row is not None:
            return row, self._is_boolean(row) and _turns_off(row["name"], name)
        if name.startswith("--no-"):
            row = self.flags.get("--" + name[5:])
            if row is not None and row.get("type") in BOOLEAN:
                return row, True
        return None, False

    def _is_boolean(self, row: dict) -> bool:
        return row.get("type") in BOOLEAN or row.get("type") in SWITCH or bool(row.get("boolean"))

    def _take(self, row: dict, rest: list[str]) -> None:
        if not rest or (rest[0].startswith("-") and not _is_number(rest[0])):
            raise refuse(f"argument {_label(row)}: expected one argument")
        if row["dest"] not in LISTS:
            self._set(row, rest.pop(0))
            return
        values = []
        while rest and not rest[0].startswith("-"):
            values.append(rest.pop(0))
        self.values[row["dest"]] = values

    def _set(self, row: dict, text: str) -> None:
        choices = row.get("choices")
        if choices and text not in choices:
            offered = ", ".join(repr(choice) for choice in choices)
            raise refuse(
                f"argument {_label(row)}: invalid choice: {text!r} (choose from {offered})"
            )
        kind, dest = row.get("type"), row["dest"]
        value: object = text
        if dest in LISTS:
            value = [text]
        elif kind == "int" or dest in INTEGERS:
            value = _number(row, text, int, "int")
        elif kind == "float":
            value = _number(row, text, float, "float")
        elif str(kind).startswith("human_readable_int"):
            value = -1 if text == "auto" else _human_int(row, text, str(kind))
        elif (kind in JSON_TYPES or dest in OBJECTS) and text.lstrip().startswith("{"):
            value = self._object(row, text)
        self.values[dest] = value

    def _object(self, row: dict, text: str) -> dict:
        try:
            value = json.loads(text)
        except ValueError as error:
            raise refuse(
                f"argument {_label(row)}: Value {text} cannot be converted to {row.get('type')}."
            ) from error
        self._check_keys(row, value)
        return value

    def _set_path(self, row: dict, path: str, text: str) -> None:
        """Set one key of an object given as `--json-arg.key.sub value`."""
        try:
            value = json.loads(text)
        except ValueError:
            value = {"True": True, "False": False, "None": None}.get(text, text)
        target = self.values.get(row["dest"])
        if not isinstance(target, dict):
            target = self.values[row["dest"]] = {}
        *parents, last = path.split(".")
        for parent in parents:
            target = target.setdefault(parent, {})
        target[last] = value
        self._check_keys(row, self.values[row["dest"]])

    def _check_keys(self, row: dict, value: dict) -> None:
        """Refuse the one key that came and one that went with 0.30 (the indexer's cache type)."""
        wrong = "indexer_kv_dtype" if self._before(0, 30) else "use_fp4_indexer_cache"
        if row["dest"] == "attention_config" and wrong in value:
            raise Refused(
                "pydantic_core._pydantic_core.ValidationError: 1 validation error for"
                f" AttentionConfig\n{wrong}\n  Unexpected keyword argument"
                f" [type=unexpected_keyword_argument, input_value={value[wrong]}]\n    For further"
                " information visit https://errors.pydantic.dev/2.14/v/unexpected_keyword_argument",
                code=2,
                as_traceback=False,
            )

    def _before(self, *wanted: int) -> bool:
        parts = tuple(int(part) for part in self.version.split(".")[:2] if part.isdigit())
        return parts < wanted


def parse_flags(argv: list[str], version: str, flags_file: str = "") -> dict:
    """Parse an engine's arguments by its version's flag list; raises Refused with exit code 2."""
    return Parser(load_flags(version, flags_file), version).parse(argv)


def _normal(name: str) -> str:
    """Take underscores for dashes in the flag part, not in a dotted key."""
    flag, dot, path = name.partition(".")
    return (flag.replace("_", "-") if flag.startswith("--") else flag) + dot + path


def _turns_off(name: str, alias: str) -> bool:
    """Tell whether an alias is the negated spelling of a boolean's own name."""
    if name.startswith("--disable-"):
        return alias.startswith("--enable-")
    return alias.startswith(("--no-", "--disable-"))


def _label(row: dict) -> str:
    return "/".join(row.get("all") or [row["name"]])


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True


def _number(row: dict, text: str, convert: type, kind: str) -> object:
    try:
        return convert(text)
    except ValueError as error:
        raise refuse(f"argument {_label(row)}: invalid {kind} value: {text!r}") from error


def _human_int(row: dict, text: str, kind: str) -> int:
    number, factor = (text[:-1], SUFFIXES[text[-1]]) if text[-1:] in SUFFIXES else (text, 1)
    try:
        return int(float(number) * factor)
    except ValueError as error:
        raise refuse(f"argument {_label(row)}: invalid {kind} value: {text!r}") from error
