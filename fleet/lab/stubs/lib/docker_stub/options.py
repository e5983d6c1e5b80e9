"""Docker's command line flags: which take a value, and how they are written."""

from .node import Refusal

RUN_VALUES = {
    "add-host", "cap-add", "cap-drop", "cgroupns", "cpus", "cpuset-cpus", "cpuset-mems", "device",
    "entrypoint", "env", "env-file", "gpus", "hostname", "ipc", "label", "log-driver", "log-opt",
    "memory", "mount", "name", "network", "pid", "platform", "publish", "pull", "restart",
    "runtime", "security-opt", "shm-size", "stop-signal", "stop-timeout", "tmpfs", "ulimit",
    "user", "volume", "workdir",
}  # fmt: skip
RUN_SWITCHES = {"detach", "init", "interactive", "privileged", "read-only", "rm", "tty"}
RUN_SHORT = {
    "d": "detach", "e": "env", "h": "hostname", "i": "interactive", "l": "label", "m": "memory",
    "p": "publish", "t": "tty", "u": "user", "v": "volume", "w": "workdir",
}  # fmt: skip


class Flags:
    """Parsed flags: every value of each, and what came after them."""

    def __init__(self) -> None:
        self.values: dict[str, list[str]] = {}
        self.rest: list[str] = []

    def all(self, name: str) -> list[str]:
        return self.values.get(name, [])

    def last(self, name: str, default: str = "") -> str:
        return self.all(name)[-1] if self.all(name) else default

    def has(self, name: str) -> bool:
        return self.last(name, "false") != "false"


def parse(
    argv: list[str],
    verb: str,
    values: set[str],
    switches: set[str],
    short: dict[str, str],
    is_mixed: bool = False,
) -> Flags:
    """Parse `argv`; flags end at the first operand unless `is_mixed`. Raises Refusal, code 125."""
    flags = Flags()
    words = list(argv)
    while words:
        word = words.pop(0)
        if word == "--":
            flags.rest += words
            break
        if word == "-" or not word.startswith("-"):
            flags.rest.append(word)
            if is_mixed:
                continue
            flags.rest += words
            break
        _take(flags, word, words, verb, values, switches, short)
    return flags


def _take(flags, word, words, verb, values, switches, short) -> None:
    if not word.startswith("--"):
        _take_short(flags, word, words, verb, values, short)
        return
    name, equals, value = word[2:].partition("=")
    if name in switches:
        flags.values.setdefault(name, []).append(value if equals else "true")
    elif name in values:
        if not equals:
            if not words:
                raise _refuse(verb, f"flag needs an argument: --{name}")
            value = words.pop(0)
        flags.values.setdefault(name, []).append(value)
    else:
        raise _refuse(verb, f"unknown flag: --{name}")


def _take_short(flags, word, words, verb, values, short) -> None:
    letters = word[1:]
    while letters:
        letter, letters = letters[0], letters[1:]
        name = short.get(letter)
        if name is None:
            raise _refuse(verb, f"unknown shorthand flag: '{letter}' in {word}")
        if name not in values:
            flags.values.setdefault(name, []).append("true")
            continue
        value = letters.removeprefix("=") if letters else (words.pop(0) if words else None)
        if value is None:
            raise _refuse(verb, f"flag needs an argument: '{letter}' in {word}")
        flags.values.setdefault(name, []).append(value)
        return


def _refuse(verb: str, text: str) -> Refusal:
    return Refusal(f"{text}\nSee 'docker {verb} --help'.", code=125)
