"""What each verb sends to a node and how its answer is read. One call, one outcome; nothing is stored here."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from django.conf import settings

from fleet.execution import states, wire
from fleet.execution.exchanges import carry_out_exchange, check_exchange
from fleet.execution.faults import scaled
from fleet.execution.message import say
from fleet.execution.models import Command, Subject
from fleet.execution.one_time import one_time_secret
from fleet.execution.output import Section
from fleet.execution.remote import Body, Connection, PortFailed, ShimRefused
from fleet.execution.shim_words import sentence_of
from fleet.execution.storable import storable_text
from fleet.execution.verdicts import (
    AnswerLies,
    Outcome,
    check_answer,
    judge_forget,
    judge_start,
    judge_stop,
)

DO, FIND_OUT, UNDO = "do", "find out", "undo"
# Waiting for the subject's lock on the node (10 s) and the call itself.
CALL_S = 20.0
LONGEST_CALL_S = 300.0
GRACE_S, DOCKER_S = 20.0, 10.0
BOUND_EVERY_S = 10.0  # how often a node looks whether an output has outgrown its cap
SECTION_CAP_BYTES, FILE_CAP_BYTES = 256 * 1024, 8 * 1024 * 1024
METHODS = ("GET", "POST", "PUT", "DELETE", "HEAD")
PLACE = "node"  # the subject word of calls that have no subject


@dataclass(frozen=True)
class Call:
    """One command to be carried out under a fence. `last_fence`: the highest that was ever given."""

    command: Command
    fence: int
    last_fence: int
    mode: str = DO

    @property
    def place(self) -> str:
        return self.command.subject.name if self.command.subject else PLACE


def check_order(
    *, verb: str, queue: str, effect: str, payload: dict[str, Any], subject: Subject | None
) -> None:
    """Raise WireError unless this order can be said to a node."""
    for value, allowed, what in (
        (verb, states.VERBS, "verb"),
        (queue, states.QUEUES, "queue"),
        (effect, states.EFFECTS, "effect"),
    ):
        if value not in allowed:
            raise wire.WireError(f"{what} {value!r}: expected one of {', '.join(allowed)}")
    if verb in ("start", "stop", "forget") and subject is None:
        raise wire.WireError(f"{verb} needs a subject")
    if subject is not None:
        wire.check_words("status", subject.name, 0)
    if verb == "http":
        _http_request(payload)
    elif verb == "exchange":
        check_exchange(payload, effect)
    else:
        lines_of(verb, payload, subject)


def lines_of(verb: str, payload: dict[str, Any], subject: Subject | None) -> list[str]:
    """Return the lines of stdin for a call. Raises WireError."""
    match verb:
        case "probe":
            sections = payload["sections"]
            return [
                line
                for section in sections
                for line in wire.section_lines(
                    section["name"], float(section.get("timeout_s", 10.0)), section["argv"]
                )
            ]
        case "start":
            return _start_lines(payload, subject)
        case "stop" | "forget":
            return _stop_lines(payload, subject)
        case "collect":
            return wire.argument_lines(payload["files"])
    return []


def carry_out(connection: Connection, call: Call) -> Outcome:
    """Carry out one command over an open connection. Raises RemoteError, AnswerLies."""
    command = call.command
    if command.verb == "http":
        return _http(connection, command)
    if command.verb == "exchange":
        return carry_out_exchange(connection, command.payload)
    if command.verb == "start" and call.mode == FIND_OUT:
        return judge_start(_ask(connection, call, "status", []))
    if command.verb == "forget":
        lines = [*_stop_lines(command.payload, command.subject), wire.directive("forget", 1)]
        return judge_forget(_ask(connection, call, "stop", lines))
    if command.verb == "stop" or call.mode == UNDO:
        lines = _stop_lines(command.payload if command.verb == "stop" else {}, command.subject)
        return judge_stop(_ask(connection, call, "stop", lines), is_cancel=command.verb != "stop")
    lines = lines_of(command.verb, command.payload, command.subject)
    if command.verb == "start":
        return judge_start(_ask(connection, call, "start", lines))
    return _read_sections(connection, call, lines)


def _start_lines(payload: dict[str, Any], subject: Subject | None) -> list[str]:
    secrets = {name: one_time_secret(label) for name, label in _secret_labels(payload).items()}
    lines = wire.env_lines({**(payload.get("env") or {}), **secrets})
    if payload.get("epoch") is not None:
        lines.append(wire.directive("epoch", int(payload["epoch"])))
    if subject and subject.plan_sha:
        lines.append(wire.directive("plan_sha", subject.plan_sha))
    if subject and subject.container:
        lines.append(wire.directive("container", subject.container))
    lines.append(wire.directive("cap", settings.SUBJECT_OUTPUT_CAP_BYTES))
    lines.append(wire.directive("every", max(1, math.ceil(scaled(BOUND_EVERY_S)))))
    if payload.get("cwd"):
        lines.append(wire.directive("cwd", payload["cwd"]))
    argv = payload["argv"]
    if not argv or not argv[0] or argv[0].startswith("-"):
        raise wire.WireError(
            f"argv {argv!r:.80}: expected a command that does not begin with a dash"
        )
    return [*lines, *wire.argument_lines(argv)]


def _secret_labels(payload: dict[str, Any]) -> dict[str, str]:
    """Return the variables whose values are made now and stored nowhere: name -> label (one_time.py)."""
    found = payload.get("secret_env") or {}
    if not all(isinstance(label, str) and label for label in found.values()):
        raise wire.WireError("secret_env: expected a label for each variable")
    return found


def _stop_lines(payload: dict[str, Any], subject: Subject | None) -> list[str]:
    grace_s = scaled(float(payload.get("grace_s", GRACE_S)))
    lines = [
        wire.directive("grace", math.ceil(grace_s)),
        wire.directive("guard", max(2, math.ceil(scaled(DOCKER_S)))),
    ]
    container = payload.get("container") or (subject.container if subject else "")
    return [*lines, wire.directive("container", container)] if container else lines


def _ask(connection: Connection, call: Call, verb: str, lines: list[str]) -> dict[str, Any]:
    fence = 0 if verb == "status" else call.fence
    deadline = CALL_S
    if verb == "stop":
        # The grace and the killing, and at worst four calls of a docker that does not answer.
        grace_s, guard_s = (float(line.split()[1]) for line in lines[:2])
        deadline += 2 * grace_s + 4 * guard_s
    answer, body = connection.shim(verb, call.place, fence, lines, deadline=deadline)
    body.close()
    check_answer(answer, verb=verb, subject=call.place, fence=fence, last_fence=call.last_fence)
    return answer


def _read_sections(connection: Connection, call: Call, lines: list[str]) -> Outcome:
    command = call.command
    deadline = min(LONGEST_CALL_S, max(5.0, command.deadline_s))
    answer, body = connection.shim(command.verb, call.place, call.fence, lines, deadline=deadline)
    try:
        check_answer(
            answer, verb=command.verb, subject=call.place, fence=0, last_fence=call.last_fence
        )
        if answer["answer"] not in ("PROBE", "COLLECT"):
            why = sentence_of(storable_text(str(answer.get("explanation", "")), 500))
            return Outcome(states.FAILED, why, answer)
        read = _probe_sections if command.verb == "probe" else _collected_files
        sections = tuple(read(body, command.payload))
    finally:
        body.close()
    return Outcome(states.SUCCEEDED, "", answer, sections)


def _probe_sections(body: Body, payload: dict[str, Any]) -> Iterator[Section]:
    for wanted in payload["sections"]:
        head = _head(body, name=wanted["name"], key="section", cap=SECTION_CAP_BYTES)
        raw = body.read_exact(head["bytes"])
        rc, ms = _small(head.get("rc"), 255), _small(head.get("ms"), 10**8)
        yield Section(wanted["name"], rc, ms, bool(head.get("truncated")), _why_not(rc), raw)


def _small(value: Any, high: int) -> int | None:
    is_whole = isinstance(value, int) and not isinstance(value, bool)
    return value if is_whole and 0 <= value <= high else None


def _why_not(rc: int | None) -> str:
    reasons = {
        127: say("not found on this node"),
        124: say("took too long"),
        None: say("no exit code"),
    }
    return reasons.get(rc, "")


def _collected_files(body: Body, payload: dict[str, Any]) -> Iterator[Section]:
    for path in payload["files"]:
        head = _head(body, name=None, key="path", cap=FILE_CAP_BYTES)
        raw = body.read_exact(head["bytes"])
        digest, error = hashlib.sha256(raw).hexdigest(), str(head.get("error", ""))[:200]
        if not error and head.get("sha256") != digest:
            error = say("the bytes that came are not those that were sent (sha256)")
        is_cut = isinstance(head.get("of"), int) and head["of"] > len(raw)
        yield Section(path, truncated=is_cut, error=error, body=raw, sha256=digest)


def _head(body: Body, *, name: str | None, key: str, cap: int) -> dict[str, Any]:
    line = body.read_line()
    try:
        head = json.loads(line.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        head = None
    if not isinstance(head, dict) or not isinstance(head.get(key), str):
        raise ShimRefused(
            say("not a section of the shim: %(found)s", found=repr(line[:120])), may_have_run=True
        )
    if name is not None and head[key] != name:
        raise AnswerLies(
            say(
                "sent section %(found)s where %(asked)s was asked",
                found=repr(head[key][:80]),
                asked=repr(name),
            )
        )
    size = head.get("bytes")
    if not isinstance(size, int) or isinstance(size, bool) or not 0 <= size <= cap:
        raise AnswerLies(
            say("announced %(size)s bytes, allowed are %(cap)s", size=repr(size)[:40], cap=cap)
        )
    return head


def _http_request(payload: dict[str, Any]) -> dict[str, Any]:
    method, path, port = payload.get("method", "GET"), payload["path"], payload["port"]
    if method not in METHODS:
        raise wire.WireError(f"method {method!r}: expected one of {', '.join(METHODS)}")
    if not isinstance(path, str) or not path.startswith("/") or not path.isascii() or " " in path:
        raise wire.WireError(f"path {path!r:.80}: expected an ASCII path that begins with /")
    if not path.isprintable() or not isinstance(port, int):
        raise wire.WireError(
            f"path {path!r:.80} port {port!r:.20}: expected printable, and a number"
        )
    body, headers = payload.get("body"), dict(payload.get("headers") or {})
    raw = None if body is None else json.dumps(body).encode()
    if raw is not None:
        headers.setdefault("Content-Type", "application/json")
    return {
        "method": method,
        "path": path,
        "port": port,
        "address": payload.get("address") or "",
        "headers": headers,
        "body": raw,
    }


def _http(connection: Connection, command: Command) -> Outcome:
    timeout_s = min(LONGEST_CALL_S, float(command.payload.get("timeout_s", 30.0)))
    try:
        found = connection.http(**_http_request(command.payload), deadline=timeout_s)
    except PortFailed as error:
        answer: dict[str, Any] = {"status": None, "ms": None, "error": str(error)[:500]}
        return Outcome(states.FAILED, error.sentence, answer)
    answer = {"status": found.status, "ms": round(found.ms, 1), "error": None}
    section = Section("body", ms=int(found.ms), body=found.body)
    return Outcome(states.SUCCEEDED, "", answer, [section])
