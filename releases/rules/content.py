"""What a release must pin, and the patterns its values must match before they may reach a command line. Pure.

Everything here is an allow-list with fullmatch: a value that needs shell quoting to be safe is refused, not quoted.
What is missing is a problem like what is wrong: nothing unpinned is sealed.
Source: SECURITY.md S10; manual A 4.1 (five-piece set, REPLACE_WITH_* cannot be sealed, no main, no :latest) and its
go-live list (tokenizer, template and parsers belong to the model revision).
"""

import hashlib
import json
import re
from collections import Counter
from dataclasses import dataclass
from typing import Any

from fleet.rules.message import said, say
from fleet.rules.netscripts import MATRIX_NAMES

HEX40 = re.compile(r"[0-9a-f]{40}")
SHA256 = re.compile(r"[0-9a-f]{64}")
DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
SLUG = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,79}")
IMAGE = re.compile(r"[a-z0-9][a-z0-9._/-]{0,120}(:\d{1,5}/[a-z0-9._/-]+)?")
VERSION = re.compile(r"\d{1,4}(\.[0-9A-Za-z]{1,12}){1,5}([.+-][0-9A-Za-z.+-]{1,40})?")
FLAG = re.compile(r"--[a-z0-9][a-z0-9._-]{0,80}")
FLAG_VALUE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/:,=+{}\"\[\]-]{0,400}|")
ENV_NAME = re.compile(r"[A-Z][A-Z0-9_]{0,60}")
ENV_VALUE = re.compile(r"[A-Za-z0-9._/:,=+@^~-]{0,1024}")
MOVING_WORDS = frozenset({"latest", "main", "master", "nightly", "head"})
PLACEHOLDER_MARKS = ("REPLACE_WITH", "TODO")

LAUNCHERS = ("docker_mp", "single")
SIZES = ("nodes", "tp", "pp", "dp", "gpus_per_node")
PINS = (
    ("model.slug", SLUG, say("a name without blanks")),
    ("model.served_name", SLUG, say("a name without blanks")),
    ("model.revision", HEX40, say("a 40-digit commit hash, not a branch")),
    ("model.manifest_sha256", SHA256, say("the SHA-256 of the shard manifest")),
    ("image.name", IMAGE, say("an image name without tag")),
    ("image.digest", DIGEST, say("a digest: sha256: and 64 hex digits, not a tag")),
    ("image.vllm_version", VERSION, say("the engine's version")),
    ("platform.driver", VERSION, say("the GPU driver's version")),
    ("platform.vbios", VERSION, say("the GPU firmware's version")),
    ("tokenizer.tokenizer", SHA256, say("the SHA-256 of the tokenizer")),
    ("tokenizer.template", SHA256, say("the SHA-256 of the chat template")),
    ("tokenizer.generation_config", SHA256, say("the SHA-256 of the generation config")),
)
# What the plan itself says of every rank; a second voice in the arguments would contradict it unseen.
PLANNED_FLAGS = frozenset(
    {
        "--model",
        "--served-model-name",
        "--host",
        "--port",
        "--tensor-parallel-size",
        "--pipeline-parallel-size",
        "--data-parallel-size",
        "--enable-expert-parallel",
        "--nnodes",
        "--node-rank",
        "--master-addr",
        "--master-port",
        "--headless",
        "--distributed-executor-backend",
    }
)
REVISION_FLAGS = frozenset({"--revision", "--tokenizer-revision", "--code-revision"})
# A flag that brings a file of its own, and the hash that must then stand among the tokenizer's.
FILE_FLAGS = {
    "--chat-template": "chat_template_file",
    "--tool-parser-plugin": "tool_parser_plugin",
    "--reasoning-parser-plugin": "reasoning_parser_plugin",
}


@dataclass(frozen=True)
class Problem:
    """One reason not to seal: where it stands, what was expected (a sentence) and what was found."""

    where: str
    expected: str
    found: str

    @property
    def sentence(self) -> str:
        """The problem as a sentence that is read in the language of whoever looks."""
        return say(
            "%(where)s: expected %(expected)s, found %(found)s.",
            where=self.where,
            expected=self.expected,
            found=self.found[:120] or say("nothing"),
        )

    def __str__(self) -> str:
        return said(self.sentence)


def content_sha256(content: dict[str, Any]) -> str:
    """Hash a release's content in its one canonical form (sorted keys, no blanks, UTF-8)."""
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()


def content_problems(content: dict[str, Any]) -> list[Problem]:
    """Name everything that keeps this content from being sealed; an empty list means sealable."""
    return [
        *_pin_problems(content),
        *_shape_problems(content),
        *_flag_problems(content),
        *_parser_problems(content),
        *_env_problems(content),
        *_golden_problems(content),
    ]


def is_unpinned(value: str) -> bool:
    """Tell whether a value is a placeholder or a name whose meaning moves by itself."""
    words = re.split("[:@]", value)
    return any(mark in value for mark in PLACEHOLDER_MARKS) or bool(MOVING_WORDS & set(words))


def _pin_problems(content: dict[str, Any]) -> list[Problem]:
    problems = []
    for where, pattern, expected in PINS:
        found = _at(content, where)
        if not isinstance(found, str) or not pattern.fullmatch(found) or is_unpinned(found):
            problems.append(Problem(where, expected, _shown(found)))
    known = {where for where, _pattern, _expected in PINS}
    tokenizer = content.get("tokenizer")
    for name, found in tokenizer.items() if isinstance(tokenizer, dict) else ():
        where = f"tokenizer.{name}"
        if where not in known and not SHA256.fullmatch(str(found)):
            problems.append(Problem(where, say("a SHA-256"), _shown(found)))
    return problems


def _shape_problems(content: dict[str, Any]) -> list[Problem]:
    problems = []
    if content.get("launcher") not in LAUNCHERS:
        one_of = say("one of %(names)s", names=", ".join(LAUNCHERS))
        problems.append(Problem("launcher", one_of, _shown(content.get("launcher"))))
    sizes = {name: _at(content, f"shape.{name}") for name in SIZES}
    wrong = [name for name, size in sizes.items() if type(size) is not int or not 1 <= size <= 64]
    problems += [
        Problem(f"shape.{name}", say("a whole number from 1 to 64"), _shown(sizes[name]))
        for name in wrong
    ]
    if wrong:
        return problems
    problems += _card_problems(content, sizes)
    ranks, cards = sizes["tp"] * sizes["pp"] * sizes["dp"], sizes["nodes"] * sizes["gpus_per_node"]
    if ranks != cards:
        expected = say("as many ranks (TP x PP x DP) as GPUs, %(cards)s", cards=cards)
        problems.append(Problem("shape", expected, str(ranks)))
    return problems


def _card_problems(content: dict[str, Any], sizes: dict[str, int]) -> list[Problem]:
    """The launcher of some cards needs to know which; every other takes all cards of its nodes."""
    gpus = _at(content, "shape.gpus")
    if content.get("launcher") != "single":
        nothing = say("nothing: only the launcher single takes some cards of a node")
        return [] if gpus is None else [Problem("shape.gpus", nothing, _shown(gpus))]
    is_set = isinstance(gpus, list) and all(type(n) is int and 0 <= n < 8 for n in gpus)
    if sizes["nodes"] == 1 and is_set and len(set(gpus)) == len(gpus) == sizes["gpus_per_node"]:
        return []
    expected = say("%(n)s different cards of one node, 0 to 7", n=sizes["gpus_per_node"])
    return [Problem("shape.gpus", expected, _shown(gpus))]


def _flag_problems(content: dict[str, Any]) -> list[Problem]:
    problems = []
    for flag, value in _pairs(content):
        if not FLAG.fullmatch(flag):
            problems.append(Problem("args", say("a flag such as --max-model-len"), flag))
        elif flag in PLANNED_FLAGS:
            problems.append(
                Problem(f"args {flag}", say("nothing: the plan sets this flag itself"), flag)
            )
        elif flag in REVISION_FLAGS and not HEX40.fullmatch(value or ""):
            expected = say("a 40-digit commit hash, not a branch")
            problems.append(Problem(f"args {flag}", expected, value or ""))
        elif value is not None and (not FLAG_VALUE.fullmatch(value) or is_unpinned(value)):
            problems.append(Problem(f"args {flag}", say("a plain, pinned value"), value))
    for flag, count in Counter(flag for flag, _value in _pairs(content)).items():
        if count > 1:
            problems.append(Problem(f"args {flag}", say("the flag once"), str(count)))
    return problems


def _parser_problems(content: dict[str, Any]) -> list[Problem]:
    """A parser is pinned by its name within the pinned image, or by the hash of the file it comes in."""
    flags = dict(_pairs(content))
    problems = []
    if "--enable-auto-tool-choice" in flags and not flags.get("--tool-call-parser"):
        problems.append(Problem("args --tool-call-parser", say("the name of the parser"), ""))
    for flag, name in FILE_FLAGS.items():
        found = _at(content, f"tokenizer.{name}")
        if flag in flags and found is None:
            expected = say("the SHA-256 of the file behind %(flag)s", flag=flag)
            problems.append(Problem(f"tokenizer.{name}", expected, ""))
    return problems


def _env_problems(content: dict[str, Any]) -> list[Problem]:
    problems = []
    for name, value in content.get("env", {}).items():
        if not ENV_NAME.fullmatch(name):
            problems.append(Problem("env", say("an upper-case name"), str(name)))
        elif name in MATRIX_NAMES:
            expected = say("nothing: the signed network matrix fills it in; write it there")
            problems.append(Problem(f"env {name}", expected, str(value)))
        elif not ENV_VALUE.fullmatch(str(value)) or is_unpinned(str(value)):
            expected = say("a plain, pinned value of at most 1 KiB")
            problems.append(Problem(f"env {name}", expected, str(value)))
    return problems


def _golden_problems(content: dict[str, Any]) -> list[Problem]:
    """Ready is evidence: without a golden prompt and its answer, no launch could ever prove itself (law 3)."""
    prompts = content.get("golden") or []
    whole = [row for row in prompts if row.get("id") and row.get("messages") and row.get("expect")]
    if not (whole and len(whole) == len(prompts) == len({row["id"] for row in prompts})):
        expected = say("at least one prompt, each with its own id, messages and answer")
        return [Problem("golden", expected, str(len(whole)))]
    # The id is part of the purpose of each question and of its row: both have an end.
    expected = say("ids of at most 80 characters without blanks")
    strange = [str(row["id"]) for row in prompts if not SLUG.fullmatch(str(row["id"]))]
    return [Problem("golden", expected, strange[0])] if strange else []


def _pairs(content: dict[str, Any]) -> list[tuple[str, str | None]]:
    return [
        (str(flag), None if value is None else str(value))
        for flag, value in content.get("args", [])
    ]


def _at(content: dict[str, Any], dotted: str) -> Any:
    found: Any = content
    for key in dotted.split("."):
        found = found.get(key) if isinstance(found, dict) else None
    return found


def _shown(found: Any) -> str:
    return "" if found is None else str(found)
