"""What an answer of the shim means for a command and its subject. Pure: no network, no database.

An answer is checked before it is believed: for another subject, with a fence that nobody gave, or of the wrong
shape it decides nothing, and the command says so.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from fleet.execution import states
from fleet.execution.message import SentenceError, say
from fleet.execution.output import Section
from fleet.execution.shim_words import sentence_of
from fleet.execution.storable import storable_text

ANSWERS = {
    "probe": {"PROBE"},
    "collect": {"COLLECT"},
    "start": {"STARTED", "ADOPTED", "DONE", "LOST", "FENCED", "BUSY", "GONE", "NOSPACE"},
    "status": {"RUNNING", "DONE", "LOST", "ABSENT", "FENCED"},
    "stop": {"GONE", "ALIVE", "UNCONFIRMED", "ABSENT", "FENCED", "BUSY"},
}
# Other hands go on claiming while a batch is on its way.
FENCES_MEANWHILE = 10_000
_EVERYWHERE = {"ERROR", "REFUSED"}
_KEPT_CHARACTERS = 500
_BOOT_ID = re.compile(r"[0-9a-f-]{0,40}")


class AnswerLies(SentenceError):
    """The node's answer cannot be true; the message says what was expected and what was found."""


@dataclass(frozen=True)
class Seen:
    """What a subject turned out to be: a state, and what the node said of it."""

    state: str
    fence: int
    pid: int | None = None
    start_ticks: int | None = None
    boot_id: str = ""
    rc: int | None = None
    epoch: int = 0
    explanation: str = ""


@dataclass(frozen=True)
class Outcome:
    """How a command went. `state` None: not settled, try again later."""

    state: str | None
    explanation: str = ""
    answer: dict[str, Any] | None = None
    sections: Sequence[Section] = ()
    seen: Seen | None = None
    is_sure_not_run: bool = field(default=False)  # the node itself said that nothing happened


def check_answer(
    answer: dict[str, Any], *, verb: str, subject: str, fence: int, last_fence: int
) -> None:
    """Raise AnswerLies unless the answer can be one to this call."""
    word = answer["answer"]
    if word not in ANSWERS[verb] | _EVERYWHERE:
        raise AnswerLies(
            say(
                "answered %(word)s to %(verb)s, which is no answer to it",
                word=_short(word),
                verb=verb,
            )
        )
    if word in _EVERYWHERE:
        return
    if answer.get("subject") != subject:
        raise AnswerLies(
            say(
                "answered for %(found)s, asked was %(asked)s",
                found=_short(answer.get("subject")),
                asked=subject,
            )
        )
    found = _whole(answer, "fence", default=0)
    if found > last_fence + FENCES_MEANWHILE:
        raise AnswerLies(
            say(
                "shows fence %(found)s, but the last one given is %(last)s",
                found=found,
                last=last_fence,
            )
        )
    if verb in ("start", "stop") and word not in ("FENCED", "BUSY") and found != fence:
        raise AnswerLies(
            say("acted under fence %(found)s, asked was %(asked)s", found=found, asked=fence)
        )
    _check_facts(answer, word)


def _check_facts(answer: dict[str, Any], word: str) -> None:
    for name, high in (("pid", 2**31), ("start_ticks", 2**62), ("rc", 255), ("epoch", 2**31)):
        if _whole(answer, name, default=0) > high:
            raise AnswerLies(say("%(name)s is %(found)s", name=name, found=_short(answer[name])))
    boot_id = answer.get("boot_id") or ""
    if not isinstance(boot_id, str) or not _BOOT_ID.fullmatch(boot_id):
        raise AnswerLies(say("%(name)s is %(found)s", name="boot_id", found=_short(boot_id)))
    if word in ("STARTED", "ADOPTED", "RUNNING") and not answer.get("pid"):
        raise AnswerLies(say("answered %(word)s without a process", word=word))
    if word == "DONE" and answer.get("rc") is None:
        raise AnswerLies(say("answered DONE without an exit code"))


def judge_start(answer: dict[str, Any]) -> Outcome:
    """Judge the answer to `start`, or to `status` when it is too late to start."""
    word, why = answer["answer"], _why(answer)
    match word:
        case "STARTED" | "ADOPTED" | "RUNNING":
            return Outcome(states.SUCCEEDED, why, answer, seen=_seen(states.SUBJECT_LIVE, answer))
        case "DONE":
            return Outcome(states.SUCCEEDED, why, answer, seen=_seen(states.SUBJECT_DONE, answer))
        case "LOST":
            seen = _seen(states.SUBJECT_LOST, answer)
            lost = say("started, then lost: %(why)s", why=why)
            return Outcome(states.FAILED, lost, answer, seen=seen)
        case "GONE":
            return Outcome(states.FAILED, why, answer, seen=_seen(states.SUBJECT_GONE, answer))
        case "ABSENT":
            why = say("the node was not reached in time, and it never started there")
            seen = _seen(states.SUBJECT_GONE, answer, why)
            return Outcome(states.FAILED, why, answer, seen=seen)
        case "BUSY" | "FENCED":
            return Outcome(None, _word_and(word, why), answer, is_sure_not_run=True)
    refused = say("the node refused to start it: %(why)s", why=why)
    return Outcome(states.FAILED, refused, answer)


def judge_stop(answer: dict[str, Any], *, is_cancel: bool = False) -> Outcome:
    """Judge the answer to `stop`; `is_cancel` when a start is being undone."""
    word, why = answer["answer"], _why(answer)
    match word:
        case "GONE" | "ABSENT":
            seen = _seen(states.SUBJECT_GONE, answer)
            state = states.CANCELLED if is_cancel else states.SUCCEEDED
            return Outcome(state, why, answer, seen=seen)
        case "ALIVE":
            alive = say("not gone: %(alive)s: %(why)s", alive=_short(answer.get("alive")), why=why)
            return Outcome(states.UNKNOWN, alive, answer)
        case "UNCONFIRMED":
            doubt = say("cannot be confirmed gone: %(why)s", why=why)
            return Outcome(states.UNKNOWN, doubt, answer)
    return Outcome(states.UNKNOWN, _word_and(word, why), answer)


def judge_forget(answer: dict[str, Any]) -> Outcome:
    """Judge the answer to a stop that was to forget an ended subject; a node that has doubts keeps it."""
    word, why = answer["answer"], _why(answer)
    if word in ("GONE", "ABSENT"):
        return Outcome(states.SUCCEEDED, why, answer)
    if word in ("BUSY", "FENCED"):
        return Outcome(None, _word_and(word, why), answer, is_sure_not_run=True)
    return Outcome(states.FAILED, _word_and(word, why), answer)


def seen_in(row: dict[str, Any]) -> Seen:
    """Return what a line of a listing says of its subject. Raises AnswerLies."""
    state = {
        "RUNNING": states.SUBJECT_LIVE,
        "DONE": states.SUBJECT_DONE,
        "LOST": states.SUBJECT_LOST,
    }.get(str(row.get("answer")))
    if state is None:
        raise AnswerLies(say("answered %(word)s in a listing", word=_short(row.get("answer"))))
    _check_facts(row, str(row["answer"]))
    return _seen(state, row)


def _seen(state: str, answer: dict[str, Any], explanation: str = "") -> Seen:
    return Seen(
        state=state,
        fence=_whole(answer, "fence", default=0),
        pid=answer.get("pid"),
        start_ticks=answer.get("start_ticks"),
        boot_id=answer.get("boot_id") or "",
        rc=answer.get("rc"),
        epoch=_whole(answer, "epoch", default=0),
        explanation=explanation or _why(answer),
    )


def _why(answer: dict[str, Any]) -> str:
    return sentence_of(storable_text(str(answer.get("explanation") or ""), _KEPT_CHARACTERS))


def _word_and(word: str, why: str) -> str:
    return say("%(word)s: %(why)s", word=word, why=why)


def _whole(answer: dict[str, Any], name: str, *, default: int) -> int:
    value = answer.get(name)
    if value is None:
        return default
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise AnswerLies(
            say("%(name)s is %(found)s, expected a whole number", name=name, found=_short(value))
        )
    return value


def _short(value: Any) -> str:
    return repr(value)[:120]
