"""What a copy and a check do on the nodes: every effect is a dispatched command with a unique purpose.

Not in charge of when (services/weights_tick.py) nor of what an end means (rules/copier.py, rules/shards.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fleet.execution.dispatch import command_dispatch, subject_create
from fleet.execution.models import Command, Subject
from fleet.models import Holding, Node, WeightsArtefact
from fleet.rules import copier, shards
from fleet.rules.fanout import Limits

START_S, READ_S = 60.0, 30.0
STOP_GRACE_S = 5.0


def step_purpose(holding: Holding, step: str) -> str:
    """Return the purpose of a step of this attempt, which makes it happen once."""
    return f"weights:{holding.pk}/{holding.attempt}/{step}"


def directory_on(node: Node, artefact: WeightsArtefact) -> str:
    """Return where the revision lies on a node."""
    return copier.directory_of(node.model_root, artefact.model, artefact.revision)


def start_check(holding: Holding) -> None:
    """Let the node compare its own disk with the manifest; only what was copied is read again after a copy."""
    artefact, node = holding.artefact, holding.node
    wanted = shards.shards_of(artefact.manifest)
    names = {one.name for one in wanted} if holding.needs is None else set(holding.needs)
    record = shards.ready_record(artefact.model, artefact.revision, wanted)
    argv = copier.check_argv(directory_on(node, artefact), record, wanted, names)
    holding.check_run = _start(holding, node, "check", {"argv": argv})


def start_serve(holding: Holding) -> None:
    """Let the parent serve the revision to this one child; the child's node is the only one that may ask."""
    parent = holding.parent
    assert parent is not None
    name = _subject_name(holding, "serve")
    argv = copier.serve_argv(
        directory_on(parent, holding.artefact),
        parent.host.address,
        holding.port or copier.FIRST_PORT,
        holding.node.host.address,
        name,
    )
    secret = {copier.SECRET_ENV: _secret_label(holding)}
    holding.serve = _start(holding, parent, "serve", {"argv": argv, "secret_env": secret})


def start_pull(holding: Holding, limits: Limits) -> None:
    """Let the child pull what it needs, at the rate that no link and no leaf can be exceeded by."""
    artefact, node, parent = holding.artefact, holding.node, holding.parent
    payload: dict[str, Any] = {}
    if parent is None:
        path = f"{copier.STORE_MODULE}/{artefact.model}/{artefact.revision}"
        source = (artefact.store_address, artefact.store_port, path)
    else:
        source = (parent.host.address, holding.port or copier.FIRST_PORT, copier.MODULE)
        payload["secret_env"] = {copier.PASSWORD_ENV: _secret_label(holding)}
    payload["argv"] = copier.pull_argv(
        directory_on(node, artefact),
        source,
        limits.copy_kibps,
        node.host.address,
        list(holding.needs or []),
        again=_looks_whole(holding),
    )
    holding.pull = _start(holding, node, "pull", payload)


def start_make(artefact: WeightsArtefact) -> None:
    """Let the seed node read every file of the revision that lies there."""
    node = artefact.seed_node
    assert node is not None
    artefact.subject = subject_create(
        host=node.host, name=f"a{artefact.pk}-{artefact.attempt}-make"
    )
    command_dispatch(
        purpose=make_purpose(artefact, "start"),
        host=node.host,
        verb="start",
        queue="start",
        subject=artefact.subject,
        payload={"argv": copier.make_argv(directory_on(node, artefact)), "epoch": 1},
        deadline_s=START_S,
        topic=artefact.topic,
    )


def make_purpose(artefact: WeightsArtefact, step: str) -> str:
    """Return the purpose of a step of reading the seed node."""
    return f"artefact:{artefact.pk}/{artefact.attempt}/{step}"


def read_output(subject: Subject, purpose: str, topic: str) -> Command:
    """Ask for what an ended process printed; asking again adds nothing."""
    return command_dispatch(
        purpose=purpose,
        host=subject.host,
        verb="collect",
        queue="probe",
        effect="probe",
        subject=subject,
        payload={"files": ["out"]},
        deadline_s=READ_S,
        topic=topic,
    )


def read_progress(holding: Holding) -> None:
    """Ask how many bytes lie on the child's disk by now."""
    holding.readings += 1
    directory = directory_on(holding.node, holding.artefact)
    command_dispatch(
        purpose=step_purpose(holding, f"bytes#{holding.readings}"),
        host=holding.node.host,
        verb="probe",
        queue="probe",
        effect="probe",
        payload={"sections": copier.progress_sections(directory)},
        deadline_s=READ_S,
        topic=holding.artefact.topic,
    )


def stop_subject(subject: Subject, topic: str) -> None:
    """End a process on its node, with proof; asking again adds nothing."""
    command_dispatch(
        purpose=f"weights:stop/{subject.name}",
        host=subject.host,
        verb="stop",
        queue="stop",
        subject=subject,
        payload={"grace_s": STOP_GRACE_S},
        deadline_s=START_S,
        topic=topic,
    )


def steps_of(holdings: Sequence[Holding]) -> dict[str, Command]:
    """Return the commands of the current attempts by purpose, with one query."""
    steps = ("check", "serve", "pull", "out")
    wanted = [step_purpose(holding, step) for holding in holdings for step in steps]
    wanted += [step_purpose(holding, f"bytes#{holding.readings}") for holding in holdings]
    rows = Command.objects.filter(purpose__in=wanted).select_related("output")
    return {row.purpose: row for row in rows}


def _start(holding: Holding, node: Node, step: str, payload: dict[str, Any]) -> Subject:
    subject = subject_create(host=node.host, name=_subject_name(holding, step))
    command_dispatch(
        purpose=step_purpose(holding, step),
        host=node.host,
        verb="start",
        queue="start",
        subject=subject,
        payload={**payload, "epoch": 1},
        deadline_s=START_S,
        topic=holding.artefact.topic,
    )
    return subject


def _subject_name(holding: Holding, step: str) -> str:
    return f"w{holding.pk}-{holding.attempt}-{step}"


def _secret_label(holding: Holding) -> str:
    """One secret a copy: the next attempt, and every other child, has another one."""
    return step_purpose(holding, "secret")


def _looks_whole(holding: Holding) -> bool:
    """An altered file may have the right size and time, and rsync would leave it as it is."""
    kinds = {one.get("kind") for one in holding.findings}
    return bool(kinds & {shards.ALTERED, shards.UNREAD})
