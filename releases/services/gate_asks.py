"""What a gate run asks the unit's endpoint, one command a question, and what each answer is worth."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from django.conf import settings

from fleet.execution import states
from fleet.execution.dispatch import Order, command_cancel, commands_dispatch
from fleet.execution.models import Command
from fleet.execution.output import command_sections
from fleet.execution.storable import storable_text
from fleet.models import Evidence
from fleet.readings.sse import StreamedAnswer, parse_chat_stream
from fleet.rules.message import say
from releases.models import GateRun
from releases.rules import gates as rules
from releases.services.launch_effects import chat_payload, golden_body
from releases.services.launch_seen import answer_text

ASK_S = 30.0  # one answer of a warm engine takes a few seconds
WAIT_S = 300.0  # in the queue behind the other questions


def ask_purpose(run: GateRun, kind: str, prompt: str) -> str:
    """Return the purpose of one question; `kind` is golden (asked whole) or stream."""
    return f"gate:{run.public_id}/{kind}/{prompt}"


def dispatch_asks(run: GateRun) -> None:
    """Ask every golden prompt whole and, for the stream check, streamed too; asking again adds nothing."""
    commands_dispatch(
        [
            _order(run, kind, prompt)
            for prompt in run.launch.release.content["golden"]
            for kind in _kinds(run)
        ]
    )


def cancel_asks(run: GateRun) -> None:
    """Take back the questions that were not sent yet; an answer that is on its way is not waited for."""
    for command in _commands(run).filter(state=states.QUEUED):
        command_cancel(command=command)


def freeze_answers(run: GateRun) -> None:
    """Keep every answer of a run as it came, as evidence of its verdict."""
    for command in _commands(run).filter(state=states.SUCCEEDED):
        _, kind, prompt = command.purpose.split("/", 2)
        for section in command_sections(command).values():
            Evidence.objects.create(
                object_kind="gate",
                object_id=run.public_id,
                title=say("%(check)s, %(prompt)s", check=kind, prompt=prompt),
                origin=command.purpose,
                body=section.body,
                size_bytes=len(section.body),
                sha256=hashlib.sha256(section.body).hexdigest(),
                is_rehearsal=run.launch.release.is_rehearsal,
            )


def answer_rows(run: GateRun) -> Iterator[tuple[rules.Row, float | None]]:
    """Judge every question whose answers are in: (row, milliseconds of its own answer)."""
    settled = {
        command.purpose: command
        for command in _commands(run).filter(state__in=sorted(states.TERMINAL))
    }
    for prompt in run.launch.release.content["golden"]:
        name = prompt["id"]
        whole = settled.get(ask_purpose(run, rules.GOLDEN, name))
        streamed = settled.get(ask_purpose(run, rules.STREAM, name))
        if whole and rules.GOLDEN in run.checks:
            yield rules.judge_golden(name, prompt["expect"], _whole(whole)), _ms(whole)
        if whole and streamed and rules.STREAM in run.checks:
            answer, problem = _streamed(streamed)
            yield rules.judge_stream(name, _whole(whole), answer, problem), _ms(streamed)


def _kinds(run: GateRun) -> list[str]:
    # The stream check compares with the whole answer, so that one is asked for it as well.
    if rules.STREAM in run.checks:
        return [rules.GOLDEN, rules.STREAM]
    return [rules.GOLDEN] if rules.GOLDEN in run.checks else []


def _order(run: GateRun, kind: str, prompt: dict[str, Any]) -> Order:
    launch = run.launch
    body = golden_body(launch, prompt)
    if kind == rules.STREAM:
        body |= {"stream": True}
    return Order(
        purpose=ask_purpose(run, kind, prompt["id"]),
        host=launch.positions.select_related("node__host").get(position=0).node.host,
        verb="http",
        queue="gate",
        effect="probe",
        payload=chat_payload(launch, body, timeout_s=max(3.0, ASK_S / settings.TIME_SCALE)),
        deadline_s=max(30.0, WAIT_S / settings.TIME_SCALE),
        topic=run.topic,
    )


def _commands(run: GateRun):
    return Command.objects.filter(purpose__startswith=f"gate:{run.public_id}/").select_related(
        "output"
    )


def _whole(command: Command) -> rules.Answer:
    if problem := _problem(command):
        return rules.Answer(None, problem)
    text = answer_text(command)
    if not isinstance(text, str):
        return rules.Answer(None, say("the answer holds no text"))
    return rules.Answer(storable_text(text))


def _streamed(command: Command) -> tuple[StreamedAnswer | None, str]:
    if problem := _problem(command):
        return None, problem
    section = command_sections(command).get("body")
    if section is None:
        return None, say("the answer holds no text")
    found = parse_chat_stream(section.body)
    return replace(found, text=storable_text(found.text), error=storable_text(found.error)), ""


def _problem(command: Command) -> str:
    """Say why a command brought no answer, or nothing."""
    if command.state != states.SUCCEEDED:
        return command.explanation or command.state
    status = (command.answer or {}).get("status")
    return "" if status == 200 else say("HTTP %(status)s", status=status)


def _ms(command: Command) -> float | None:
    return (command.answer or {}).get("ms")
