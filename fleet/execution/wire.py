"""What goes over the wire to the shim: the one command line, and stdin with one argument a line.

Pure: no network here. Whatever a person or a node supplied travels in stdin, escaped; the command
line holds three validated words and constants of our own.
"""

import hashlib
import re
import shlex
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path

VERBS = frozenset({"probe", "start", "status", "logs", "stop", "collect", "list"})
SUBJECT_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,79}")
SECTION_NAME = re.compile(r"[A-Za-z0-9._][A-Za-z0-9._-]{0,63}")
ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
LARGEST_FENCE = 10**18 - 1
# The kernel refuses a longer argument (MAX_ARG_STRLEN, 128 KiB with its NUL).
LARGEST_ARGUMENT_BYTES = 131071

_SAFE = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._/=:,@+-")
_ESCAPES = [chr(byte) if byte in _SAFE else f"\\{byte:03o}" for byte in range(256)]
_OCTAL_DIGITS = frozenset(b"01234567")

# Checks the file by its hash in the same round trip as the verb; $1 $2 are ours, $3 $4 $5 validated.
_VERIFIED_CALL = (
    'PATH=${PATH:+$PATH:}/usr/local/bin:/usr/bin:/bin; f=$HOME/.flotilla/$1; s=$(sha256sum "$f" 2>/dev/null); '
    'case $s in "$2 "*) shift 2; exec /bin/sh "$f" "$@";; esac; '
    """printf '{"answer":"NOSHIM"}\\n'"""
)
_ARRIVAL = (
    "PATH=${PATH:+$PATH:}/usr/local/bin:/usr/bin:/bin; LC_ALL=C; export LC_ALL; umask 077; d=$HOME/.flotilla; "
    'if e=$({ mkdir -p "$d" && cat >"$d/$1.$$" && mv -f "$d/$1.$$" "$d/$1"; } 2>&1); '
    """then printf '{"answer":"ARRIVED"}\\n'; else rm -f "$d/$1.$$"; """
    """printf '{"answer":"ERROR","explanation":"%s"}\\n' "$(printf %s "$e" | tr -c 'A-Za-z0-9 ._:/-' ' ')"; fi"""
)


class WireError(ValueError):
    """What was asked cannot be said to a node: our own mistake or a hostile value, nothing was sent."""


@cache
def shim_text() -> bytes:
    """The shim as it is shipped with this version."""
    return Path(__file__).with_name("shim.sh").read_bytes()


@cache
def shim_sha256() -> str:
    """Return the hash of the shim, by which a node's copy is verified; 64 hex digits."""
    return hashlib.sha256(shim_text()).hexdigest()


def shim_file_name() -> str:
    """Return the name of the shim on a node, which changes with its text."""
    return f"shim-{shim_sha256()[:16]}.sh"


def check_words(verb: str, subject: str, fence: int) -> tuple[str, str, str]:
    """Return the three words of a call as text. Raises WireError for anything but the exact forms."""
    if verb not in VERBS:
        raise WireError(f"verb {verb!r}: expected one of {', '.join(sorted(VERBS))}")
    if not isinstance(subject, str) or not SUBJECT_NAME.fullmatch(subject):
        raise WireError(
            f"subject {subject!r}: expected 1 to 80 of a-z 0-9 . _ -, a letter or digit first"
        )
    if not isinstance(fence, int) or not 0 <= fence <= LARGEST_FENCE:
        raise WireError(f"fence {fence!r}: expected a whole number from 0 to {LARGEST_FENCE}")
    return verb, subject, str(fence)


def command_line(words: tuple[str, str, str] | None, *, forced: bool = False) -> str:
    """The only place where a remote command line is built; `None` asks the shim to arrive.

    `forced`: the node runs its own copy of the shim for whatever is sent (a forced command).
    """
    if words is None:
        return shlex.join(["/bin/sh", "-c", _ARRIVAL, "arrival", shim_file_name()])
    words = check_words(words[0], words[1], int(words[2]))
    if forced:
        return shlex.join(["shim", *words])
    return shlex.join(
        ["/bin/sh", "-c", _VERIFIED_CALL, "shim", shim_file_name(), shim_sha256(), *words]
    )


def encode_argument(argument: str | bytes) -> str:
    """Escape one argument for a line of stdin. Raises WireError for NUL and for what no kernel accepts."""
    raw = argument.encode("utf-8", "surrogateescape") if isinstance(argument, str) else argument
    if 0 in raw:
        raise WireError("an argument holds a NUL byte, which no program can receive")
    if len(raw) > LARGEST_ARGUMENT_BYTES:
        raise WireError(
            f"an argument of {len(raw)} bytes: a node accepts at most {LARGEST_ARGUMENT_BYTES}"
        )
    pieces, after_escape = [], False
    for byte in raw:
        # A digit after an escape is escaped too: it would look like a fourth octal digit to some shells.
        escape = byte not in _SAFE or (after_escape and byte in _OCTAL_DIGITS)
        pieces.append(f"\\{byte:03o}" if escape else _ESCAPES[byte])
        after_escape = escape
    return "".join(pieces)


def argument_lines(arguments: Iterable[str | bytes]) -> list[str]:
    """Encode arguments, each on the line that the shim reads it from."""
    return [encode_argument(argument) for argument in arguments]


def directive(name: str, value: str | int) -> str:
    """Build a line of the shim's input that is no argument but tells it how to run."""
    return f";{name} {value if isinstance(value, int) else encode_argument(value)}"


def env_lines(env: dict[str, str]) -> list[str]:
    """Lines that set the environment of a started command."""
    for name in env:
        if not ENV_NAME.fullmatch(name):
            raise WireError(f"{name!r} is not a name of an environment variable")
    return [f";env {encode_argument(f'{name}={value}')}" for name, value in sorted(env.items())]


def section_lines(name: str, timeout_s: float, argv: Sequence[str]) -> list[str]:
    """Lines of one probe section."""
    if not SECTION_NAME.fullmatch(name):
        raise WireError(f"section {name!r}: expected letters, digits, . _ -")
    if not argv or not 0 < timeout_s <= 3600:
        raise WireError(f"section {name}: expected a command and a timeout up to 3600 s")
    return [f";section {name} {timeout_s:.2f}", *argument_lines(argv)]
