"""Gathers what is known of a launch into the snapshot that the rule decides on. Reads only."""

import json
from datetime import datetime, timedelta

from django.conf import settings

from fleet.execution import states
from fleet.execution.clock import database_now
from fleet.execution.models import Command, Host, Scrape
from fleet.execution.output import command_sections
from fleet.rules.message import say
from fleet.selectors.brake import is_braked
from releases.models import Launch, LaunchPosition
from releases.rules import launch as rules
from releases.rules.identity import (
    FAILED,
    OK,
    OPEN,
    SECTION,
    UNASKED,
    Identity,
    judge_again,
    judge_identity,
)
from releases.rules.preflight import Answer, judge_preflight
from releases.services.drains import is_out_of_traffic
from releases.services.endpoints import endpoint_of
from releases.services.launch_effects import commands_of, identity_step, purpose_of
from releases.services.launch_limits import limits

AGAIN_S = 10.0  # between a question about a container and the same once more


def launch_seen(launch: Launch) -> rules.Snapshot:
    """Build the snapshot of one launch. Queries: a constant number, fewest for a ready unit."""
    warm_up, warm_up_explanation = _warm_up(launch)
    return rules.Snapshot(
        state=launch.state,
        now=database_now(),
        state_at=launch.state_at,
        start_deadline_at=launch.start_deadline_at,
        world_size=launch.plan["world_size"],
        cause=launch.cause,
        positions=tuple(_positions(launch)),
        warm_up=warm_up,
        warm_up_explanation=warm_up_explanation,
        golden=_golden(launch),
        traffic=_traffic(launch),
        doubt=launch.replica.doubt,
        explanation=launch.explanation,
        is_braked=is_braked(),
        limits=limits(),
    )


def _positions(launch: Launch) -> list[rules.PositionSeen]:
    preflight = _by_position(launch, "preflight/") if launch.state == rules.PREFLIGHT else {}
    evidence = _by_position(launch, "evidence/") if launch.state == rules.FREEZING else {}
    places = list(launch.positions.select_related("node__host", "subject", "start", "stop"))
    shown = _identities(launch, places)
    return [
        _position(launch, place, preflight, shown.get(place.position, Identity()), evidence)
        for place in places
    ]


def _position(
    launch: Launch, place: LaunchPosition, preflight, shown: Identity, evidence
) -> rules.PositionSeen:
    facts, subject, host = place.reader_state, place.subject, place.node.host
    state, explanation = _preflight(launch, preflight.get(place.position, []))
    return rules.PositionSeen(
        position=place.position,
        node=place.node.name,
        preflight=state,
        preflight_explanation=explanation,
        start=place.start.state if place.start else "",
        start_explanation=place.start.explanation if place.start else "",
        subject=subject.state if subject else "",
        rc=subject.rc if subject else None,
        phase=place.phase,
        failure=facts.get("fatal", {}).get("text", ""),
        failure_kind=facts.get("fatal", {}).get("kind", ""),
        log_cause=facts.get("cause", {}).get("text", ""),
        log_cause_kind=facts.get("cause", {}).get("kind", ""),
        world_size=facts.get("world_size"),
        identity=shown.state,
        identity_explanation=shown.explanation,
        evidence=_evidence(place, evidence.get(place.position, [])),
        stop=_stop_state(place),
        stop_explanation=place.stop.explanation if place.stop else "",
        # Of a node whose host key changed nothing is read any more, whatever was known of it before.
        is_reachable=host.reach != Host.Reach.UNREACHABLE and host.key_state == Host.Key.PINNED,
        boot_changed=bool(
            subject and subject.boot_id and host.boot_id and subject.boot_id != host.boot_id
        ),
    )


def _by_position(launch: Launch, step: str) -> dict[int, list[Command]]:
    found: dict[int, list[Command]] = {}
    for command in commands_of(launch, step):
        position = command.purpose.removeprefix(purpose_of(launch, step)).partition("/")[0]
        found.setdefault(int(position), []).append(command)
    return found


def _preflight(launch: Launch, commands: list[Command]) -> tuple[str, str]:
    if not commands:
        return "", ""
    command = commands[0]
    if not command.is_settled:
        return "open", command.explanation
    if command.state != states.SUCCEEDED:
        return "bad", command.explanation or command.state
    problems = judge_preflight(launch.release.content, _answers(command))
    if not problems:
        return "ok", ""
    return "bad", say("%(problems)s", problems=_joined(problems))


def _answers(command: Command) -> dict[str, Answer]:
    """What ended; a check that did not proves nothing, and must say so."""
    return {
        name: Answer(section.rc, section.body.decode(errors="replace"))
        for name, section in command_sections(command).items()
        if section.rc is not None
    }


def _identities(launch: Launch, places: list[LaunchPosition]) -> dict[int, Identity]:
    """What the containers are that have to prove it: all while they load, later those that are followed anew.

    A container that was started again is found and followed by its node like one whose client died.
    """
    is_loading = launch.state == rules.LOADING
    asked = [p for p in places if p.subject and (is_loading or p.subject.epoch > 1)]
    if launch.state not in rules.RUNNING_STATES or not asked:
        return {}
    found = _by_position(launch, "identity/")
    return {
        place.position: _identity(launch, place, found.get(place.position, [])) for place in asked
    }


def _identity(launch: Launch, place: LaunchPosition, commands: list[Command]) -> Identity:
    step = purpose_of(launch, identity_step(place))
    own = [command for command in commands if command.purpose.startswith(step)]
    if not own:
        return Identity(UNASKED)
    now = _container(launch, own[-1])
    if now.state == FAILED and _is_to_ask_again(own[-1]):
        return Identity(UNASKED)
    proved = (one for one in (_container(launch, c) for c in commands) if one.state == OK)
    return judge_again(next(proved, now), now)


def _is_to_ask_again(command: Command) -> bool:
    """Not at once: a node that cannot tell would be asked at every tick, for as long as the unit loads or serves."""
    return database_now() - command.created_at > timedelta(seconds=AGAIN_S / settings.TIME_SCALE)


def _container(launch: Launch, command: Command) -> Identity:
    if not command.is_settled:
        return Identity(OPEN, command.explanation)
    if command.state != states.SUCCEEDED:
        return Identity(FAILED, command.explanation or command.state)
    answer = _answers(command).get(SECTION)
    return judge_identity(launch.release.content, launch.plan_sha256, answer)


def _joined(problems: list[str]) -> str:
    """Fold several sentences into one; each keeps its own translation."""
    text = problems[0]
    for problem in problems[1:]:
        text = say("%(first)s %(then)s", first=text, then=problem)
    return text


def _evidence(place: LaunchPosition, commands: list[Command]) -> str:
    if place.subject is None:
        return "done"
    if not commands:
        return ""
    return "done" if all(command.is_settled for command in commands) else "open"


def _stop_state(place: LaunchPosition) -> str:
    if place.subject is None:
        return states.SUCCEEDED  # never started here: there is nothing to prove
    return place.stop.state if place.stop else ""


def _warm_up(launch: Launch) -> tuple[str, str]:
    if launch.state != rules.WARMING:
        return "", ""
    commands = commands_of(launch, "golden/")
    if not commands:
        return "", ""
    attempt = max(_attempt(command) for command in commands)
    newest = [command for command in commands if _attempt(command) == attempt]
    if not all(command.is_settled for command in newest):
        return "open", say("Golden prompts asked, attempt %(attempt)s.", attempt=attempt)
    return _judge_golden(launch, newest)


def _judge_golden(launch: Launch, commands: list[Command]) -> tuple[str, str]:
    expected = {prompt["id"]: prompt["expect"] for prompt in launch.release.content["golden"]}
    for command in commands:
        prompt = command.purpose.rpartition("/")[2].partition("#")[0]
        if command.state != states.SUCCEEDED:
            return "failed", command.explanation or command.state
        status = (command.answer or {}).get("status")
        if status != 200:
            return "failed", say("%(prompt)s: HTTP %(status)s", prompt=prompt, status=status)
        found = answer_text(command)
        if found != expected[prompt]:
            return "wrong", say(
                "%(prompt)s: expected “%(expected)s”, found “%(found)s”",
                prompt=prompt,
                expected=expected[prompt][:200],
                found=(found or "")[:200],
            )
    return "right", ""


def answer_text(command: Command) -> str | None:
    """Return the text of a chat completion, None when the body is none."""
    section = command_sections(command).get("body")
    if section is None:
        return None
    try:
        text = json.loads(section.body)["choices"][0]["message"]["content"]
    except (ValueError, KeyError, IndexError, TypeError, RecursionError):
        return None
    return text if isinstance(text, str) else None


def golden_attempt(launch: Launch) -> int:
    """Return the number of the newest try of the warm-up prompts; 0 before the first."""
    return max((_attempt(command) for command in commands_of(launch, "golden/")), default=0)


def _attempt(command: Command) -> int:
    return int(command.purpose.rpartition("#")[2])


def _golden(launch: Launch) -> rules.GoldenSeen:
    if launch.state != rules.READY:
        return rules.GoldenSeen()
    rows = {row.kind: row for row in Scrape.objects.filter(key__startswith=purpose_of(launch, ""))}
    golden, metrics = rows.get("golden"), rows.get("metrics")
    if golden is None:
        return rules.GoldenSeen()
    return rules.GoldenSeen(
        tried_at=golden.tried_at,
        ok_at=_later(golden.ok_at, launch.ready_at),
        misses=golden.misses,
        error=golden.error,
        is_wrong_answer=bool(golden.misses and golden.status == 200 and golden.found),
        running=metrics.values.get("vllm:num_requests_running") if metrics else None,
        progress_at=metrics.progress_at if metrics else None,
        metrics_at=metrics.ok_at if metrics else None,
    )


def _traffic(launch: Launch) -> rules.TrafficSeen | None:
    if launch.state != rules.READY or endpoint_of(launch) is None:
        return None
    if not launch.stop_reason:
        return rules.TrafficSeen()
    drain = launch.drains.order_by("-pk").first()
    return rules.TrafficSeen(
        stop_reason=launch.stop_reason,
        drain_explanation=drain.explanation if drain else "",
        is_out=is_out_of_traffic(launch),
    )


def _later(first: datetime | None, second: datetime | None) -> datetime | None:
    return max((at for at in (first, second) if at), default=None)
