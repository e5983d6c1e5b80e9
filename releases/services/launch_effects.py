"""What each state of a launch does on the nodes: every effect is a dispatched command with a unique purpose."""

from collections.abc import Collection
from datetime import datetime
from typing import Any

from fleet.execution import states
from fleet.execution.dispatch import command_cancel, command_dispatch, subject_create
from fleet.execution.models import Command, Scrape
from releases.launchers.docker_mp import argv_of
from releases.models import Launch, LaunchPosition
from releases.rules.identity import identity_sections
from releases.rules.preflight import preflight_sections

GRACE_S = 20
GOLDEN_EVERY_S, METRICS_EVERY_S = 20.0, 5.0
METRIC_FAMILIES = [
    "vllm:num_requests_running",
    "vllm:num_requests_waiting",
    "vllm:kv_cache_usage_perc",
    "vllm:generation_tokens_total",
    "vllm:prompt_tokens_total",
]
_EVIDENCE_ARGVS = {
    "nvidia-smi-L": ["nvidia-smi", "-L"],
    "compute-apps": [
        "nvidia-smi",
        "--query-compute-apps=gpu_uuid,pid,process_name,used_memory",
        "--format=csv",
    ],
    "docker-ps": ["docker", "ps", "-a", "--no-trunc", "--format", "json"],
}


def purpose_of(launch: Launch, step: str) -> str:
    """Return the purpose of a step's commands, which makes each of them happen once."""
    return f"launch:{launch.public_id}/{step}"


def dispatch_preflight(launch: Launch) -> None:
    """Ask every node for what must be true before a start; repeating it adds nothing."""
    for place in _places(launch):
        command_dispatch(
            purpose=purpose_of(launch, f"preflight/{place.position}"),
            host=place.node.host,
            verb="probe",
            queue="start",
            effect="probe",
            payload={
                "sections": preflight_sections(
                    _planned(launch, place), launch.release.content, launch.replica.name
                )
            },
            deadline_s=30.0,
            topic=launch.topic,
        )


def dispatch_starts(launch: Launch) -> None:
    """Start every rank at once: all start commands are committed together, or none is."""
    for place in _places(launch):
        planned = _planned(launch, place)
        place.subject = subject_create(
            host=place.node.host,
            name=planned["subject"],
            container=planned["container"],
            plan_sha=launch.plan_sha256,
            layout=planned["layout"],
        )
        place.start = command_dispatch(
            purpose=purpose_of(launch, f"start/{place.position}"),
            host=place.node.host,
            verb="start",
            queue="start",
            effect="ensure",
            subject=place.subject,
            payload={"argv": argv_of(planned, launch.plan_sha256), "env": {}, "epoch": 1},
            deadline_s=60.0,
            topic=launch.topic,
        )
        place.save(update_fields=["subject", "start"])


def dispatch_identity(launch: Launch, positions: Collection[int]) -> None:
    """Ask the nodes of these positions, once more, what runs there under the name of the launch."""
    for place in _places(launch):
        if place.position not in positions:
            continue
        step = identity_step(place)
        command_dispatch(
            purpose=purpose_of(launch, f"{step}{len(commands_of(launch, step)) + 1}"),
            host=place.node.host,
            verb="probe",
            queue="start",
            effect="probe",
            payload={"sections": identity_sections(_planned(launch, place))},
            deadline_s=30.0,
            topic=launch.topic,
        )


def identity_step(place: LaunchPosition) -> str:
    """Return the step of the questions about a container since it is followed as it is now: each epoch asks anew."""
    epoch = place.subject.epoch if place.subject else 1
    return f"identity/{place.position}/{epoch}#"


def dispatch_golden(launch: Launch, attempt: int) -> None:
    """Ask every golden prompt of the release through the unit's real endpoint (law 3)."""
    head = _places(launch)[0]
    for prompt in launch.release.content["golden"]:
        command_dispatch(
            purpose=purpose_of(launch, f"golden/{prompt['id']}#{attempt}"),
            host=head.node.host,
            verb="http",
            queue="gate",
            effect="probe",
            payload=chat_payload(launch, golden_body(launch, prompt), timeout_s=30),
            deadline_s=40.0,
            topic=launch.topic,
        )


def chat_payload(launch: Launch, body: dict[str, Any], *, timeout_s: float) -> dict[str, Any]:
    """Return the payload of one question to the unit's endpoint (verb http); `timeout_s` of its answer."""
    http = launch.plan["http"]
    return {
        "method": "POST",
        "address": http["address"],
        "port": http["port"],
        "path": "/v1/chat/completions",
        "headers": {},
        "body": body,
        "timeout_s": timeout_s,
    }


def cancel_questions(launch: Launch) -> None:
    """Take back what the nodes were asked and were not sent yet: nobody waits for the answers any more."""
    for step in ("preflight/", "identity/", "golden/"):
        for command in commands_of(launch, step):
            if command.state == states.QUEUED:
                command_cancel(command=command)


def golden_body(launch: Launch, prompt: dict[str, Any]) -> dict[str, Any]:
    """Build the chat request of a warm-up prompt; temperature 0, so that its answer is one."""
    return {
        "model": launch.release.content["model"]["served_name"],
        "messages": prompt["messages"],
        "temperature": 0,
        "max_tokens": 256,
    }


def watch_endpoint(launch: Launch) -> None:
    """Let the watch ask the golden prompt and read /metrics of the unit, recurring."""
    head, http = _places(launch)[0], launch.plan["http"]
    prompt = launch.release.content["golden"][0]
    common = {"host": head.node.host, "port": http["port"]}
    Scrape.objects.update_or_create(
        key=purpose_of(launch, "golden"),
        defaults={
            **common,
            "kind": "golden",
            "method": "POST",
            "path": "/v1/chat/completions",
            "body": golden_body(launch, prompt),
            "expect": prompt["expect"],
            "every_s": GOLDEN_EVERY_S,
            "timeout_s": 15.0,
        },
    )
    Scrape.objects.update_or_create(
        key=purpose_of(launch, "metrics"),
        defaults={
            **common,
            "kind": "metrics",
            "path": "/metrics",
            "keep": METRIC_FAMILIES,
            "every_s": METRICS_EVERY_S,
            "timeout_s": 5.0,
        },
    )


def unwatch_endpoint(launch: Launch) -> None:
    """Let the watch scrape and ask the endpoint of a launch no more."""
    Scrape.objects.filter(key__startswith=purpose_of(launch, "")).delete()


def dispatch_evidence(launch: Launch, *, since: datetime) -> None:
    """Read what a stop would destroy: the node's own log file, cards, processes, containers.

    `since`: when the loss began that this is about. What was asked of it already and did not fail is not asked
    again, so that a retry doubles nothing; what was read before it says nothing of it.
    """
    asked = commands_of(launch, "evidence/")
    for place in _places(launch):
        if place.subject is None:
            continue
        for kind, order in _evidence_orders(launch, place).items():
            head = purpose_of(launch, f"evidence/{place.position}/{kind}")
            own = [command for command in asked if _head(command) == head]
            if own and own[-1].created_at >= since and not _has_failed(own[-1]):
                continue
            command_dispatch(
                purpose=f"{head}#{len(own) + 1}",
                host=place.node.host,
                queue="stop",
                effect="probe",
                deadline_s=15.0,
                topic=launch.topic,
                **order,
            )


def evidence_asked(launch: Launch, *, since: datetime) -> list[Command]:
    """Return the newest command of each node and kind of evidence that was asked since then."""
    asked = commands_of(launch, "evidence/")
    return list({_head(one): one for one in asked if one.created_at >= since}.values())


def _evidence_orders(launch: Launch, place: LaunchPosition) -> dict[str, dict[str, Any]]:
    container = _planned(launch, place)["container"]
    argvs = {**_EVIDENCE_ARGVS, "docker-inspect": ["docker", "inspect", container]}
    sections = [{"name": name, "timeout_s": 5, "argv": argv} for name, argv in argvs.items()]
    return {
        "log": {"verb": "collect", "subject": place.subject, "payload": {"files": ["out"]}},
        "state": {"verb": "probe", "payload": {"sections": sections}},
    }


def _head(command: Command) -> str:
    return command.purpose.partition("#")[0]


def _has_failed(command: Command) -> bool:
    return command.is_settled and command.state != states.SUCCEEDED


def dispatch_stops(launch: Launch, attempt: int) -> None:
    """Stop every rank of the unit, also those of which nothing is known: never a part of it."""
    for place in _places(launch):
        if place.subject is None or (place.stop and place.stop.state == "succeeded"):
            continue
        place.stop = command_dispatch(
            purpose=purpose_of(launch, f"stop/{place.position}#{attempt}"),
            host=place.node.host,
            verb="stop",
            queue="stop",
            effect="ensure",
            subject=place.subject,
            payload={"grace_s": GRACE_S, "container": _planned(launch, place)["container"]},
            deadline_s=60.0,
            topic=launch.topic,
        )
        place.save(update_fields=["stop"])


def commands_of(launch: Launch, step: str) -> list[Command]:
    """Return the commands of a step of a launch, oldest first."""
    return list(Command.objects.filter(purpose__startswith=purpose_of(launch, step)).order_by("id"))


def _places(launch: Launch) -> list[LaunchPosition]:
    return list(launch.positions.select_related("node__host", "subject", "start", "stop"))


def _planned(launch: Launch, place: LaunchPosition) -> dict[str, Any]:
    return launch.plan["positions"][place.position]
