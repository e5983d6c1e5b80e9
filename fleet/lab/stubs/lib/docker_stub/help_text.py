"""`vllm` of an image asked for its version or its flags: argparse's layout from a flag list."""

import os
import sys

from .node import LAB, Refusal, note_unknown, read_json, say

WIDTH = 24
SWITCHES = ("_StoreTrueAction", "BooleanOptionalAction", "EnableDisableAction", "_HelpAction")


def run_vllm(args: list[str], image: dict, argv: list[str]) -> int:
    """Run `vllm ARGS` of an image, as far as it only prints."""
    if args in (["--version"], ["-v"]):
        say(image["vllm_version"])
        return 0
    if args == ["serve", "--help=all"] or args == ["serve", "--help", "all"]:
        sys.stdout.write(all_flags(image))
        return 0
    if args in (["serve", "--help"], ["serve", "-h"]):
        sys.stdout.write(
            "usage: vllm serve [model_tag] [options]\n\nLaunch a local OpenAI-compatible API "
            "server.\n\nFor all options, use `vllm serve --help=all`.\n"
        )
        return 0
    note_unknown(["run", *argv])
    raise Refusal(
        f"usage: vllm [-h] [-v] {{serve,bench}} ...\nvllm: error: not rehearsed: {args}", 2
    )


def all_flags(image: dict) -> str:
    """Return the whole help text of an image's `vllm serve`."""
    rows = read_json(os.path.join(LAB, "lib", "flags", image["flags_file"]), {})
    lines = [
        "usage: vllm serve [model_tag] [options]",
        "",
        "Launch a local OpenAI-compatible API server to serve LLM completions via HTTP.",
        "",
        "positional arguments:",
        "  model_tag             The model tag to serve (optional if specified in config)",
        "",
        "options:",
    ]
    lines += [_flag_line(row) for row in rows.values()]
    return "\n".join(lines) + "\n"


def _flag_line(row: dict) -> str:
    value = "" if row["type"] in SWITCHES else " " + _placeholder(row)
    names = ", ".join(f"{name}{value}" for name in row["all"])
    about = "show this help message and exit" if row["type"] == "_HelpAction" else ""
    return f"  {names:<{WIDTH - 2}}{about}".rstrip() if about else f"  {names}"


def _placeholder(row: dict) -> str:
    if row.get("choices"):
        return "{" + ",".join(map(str, row["choices"])) + "}"
    return row["dest"].upper()
