"""The docker command line: verbs to functions, refusals to stderr and exit codes."""

import sys

from .node import Refusal, note_unknown


def main(argv: list[str]) -> int:
    """Run one docker command; return its exit code."""
    try:
        return _dispatch(argv)
    except Refusal as refusal:
        sys.stdout.write(refusal.stdout)
        sys.stdout.flush()
        sys.stderr.write(refusal.text + "\n")
        return refusal.code
    except BrokenPipeError:
        return 141


def _dispatch(argv: list[str]) -> int:
    words = list(argv)
    noun = words.pop(0) if words[:1] in (["container"], ["image"]) else ""
    verb = words.pop(0) if words else ""
    if verb == "run":
        from . import run

        return run.run(words)
    if verb == "pull":
        from . import pull

        return pull.pull(words)
    if verb in ("inspect", "images") or (noun == "image" and verb == "ls"):
        from . import describe

        if verb == "inspect":
            return describe.inspect(words, noun)
        return describe.list_images(words)
    from . import verbs

    table = {
        "stop": verbs.stop,
        "kill": verbs.kill,
        "rm": verbs.rm,
        "wait": verbs.wait,
        "logs": verbs.logs,
        "top": verbs.top,
        "exec": verbs.exec_in,
    }
    if verb in table and noun != "image":
        return table[verb](words)
    note_unknown(argv)
    raise Refusal(f"docker: '{' '.join(argv[:1])}' is not a docker command.\nSee 'docker --help'")
