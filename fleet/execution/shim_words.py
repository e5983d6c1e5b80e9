"""What the shim says in its own words, as sentences that can be translated. Pure.

The shim prints plain English, because a node knows no languages. What is not one of its sentences passes through.
"""

from __future__ import annotations

import re
from functools import cache

from fleet.execution.message import foreign, say

# The variables of the shim stand as parameters; tests see that every sentence of the shim is here.
SENTENCES = (
    say("the disk that holds %(root)s is full"),
    say("cannot write below %(root)s: %(why)s"),
    say("its process %(pid)s is gone and no exit code was recorded"),
    say("the node was started again: boot id %(then)s then, %(now)s now"),
    say("flock is not on this node: install util-linux"),
    say("another verb has held this subject for 10 s: try again"),
    say("this subject is being forgotten: try again"),
    say("fence %(fence)s is older than %(stored)s, which the node has seen"),
    say("fence %(fence)s is older than %(stored)s"),
    say("an argument holds a byte that must come as an octal escape"),
    say("an argument holds a NUL byte, which no argument can"),
    say("an argument holds a broken octal escape"),
    say("docker is not on PATH"),
    say("docker did not answer within %(seconds)s s"),
    say("docker ps failed: is the daemon down?"),
    say("container %(id)s is %(state)s"),
    say("still there after TERM, %(grace)s s and KILL"),
    say("never started here; a later start of it is refused"),
    say("it lives, so it is not forgotten"),
    say("processes of it live on, so it is not forgotten"),
    say("docker does not say whether its container lives"),
    say("its container lives, so it is not forgotten"),
    say("forgotten"),
    say("start needs a command"),
    say("a command cannot be empty or begin with a dash"),
    say("the working directory does not exist"),
    say("this subject was started with plan %(plan)s: another plan needs another subject"),
    say("a stop came before this start, so it is not started"),
    say("processes of the former epoch live on: stop the subject first"),
    say("an earlier start came first"),
    say("no place for a temporary file in /dev/shm, /tmp or %(root)s"),
    say("no output of this subject is on the node"),
    say("expected: shim VERB SUBJECT FENCE"),
    say("expected a subject name of a-z 0-9 . _ -"),
    say("expected a subject name of at most 80 characters"),
    say("unknown verb"),
    say("HOME is not set, so there is no place to remember anything"),
    say("not a name of an environment variable"),
    say("the environment comes before the command"),
    say("plan_sha is not hexadecimal"),
    say("not a section"),
    say("expected a directive with a whole number"),
    say("unknown directive"),
    say("the input broke off, so nothing was done"),
)
_PARAMETER = re.compile(r"%\((\w+)\)s")


def sentence_of(words: str) -> str:
    """Return the shim's words as a stored sentence, or as they are when they are none of its sentences."""
    words = foreign(words)
    for pattern, form in _forms():
        if found := form.fullmatch(words):
            return say(pattern, **found.groupdict())
    return words


@cache
def _forms() -> list[tuple[str, re.Pattern[str]]]:
    return [(pattern, re.compile(_form(pattern))) for pattern in SENTENCES]


def _form(pattern: str) -> str:
    pieces = _PARAMETER.split(pattern)
    return "".join(
        f"(?P<{piece}>[^\n]{{0,300}}?)" if number % 2 else re.escape(piece)
        for number, piece in enumerate(pieces)
    )
