"""Short forms of orders for the kernel's tests."""

from typing import Any

from fleet.execution.dispatch import command_dispatch, subject_create
from fleet.execution.models import Command, Host, Subject

# A loaded machine must not turn a test of something else into a test of deadlines.
PATIENT_S = 300.0
SECTIONS = {"sections": [{"name": "hello", "timeout_s": 5, "argv": ["echo", "hello"]}]}

# Children in sessions of their own, some of which ignore TERM: seven processes with the runner.
TREE = """
echo up
setsid sh -c 'while :; do sleep 100; done' &
sh -c 'trap "" TERM; while :; do sleep 100; done' &
setsid sh -c 'trap "" TERM; exec sleep 300' &
wait
"""


def order_probe(host: Host, purpose: str = "probe", **changes: Any) -> Command:
    fields = {"verb": "probe", "queue": "probe", "effect": "probe", "payload": SECTIONS}
    fields |= {"deadline_s": PATIENT_S, **changes}
    return command_dispatch(purpose=f"{purpose}/{host.name}", host=host, **fields)


def order_start(
    host: Host, argv: list[str], name: str = "s1", *, subject: Subject | None = None, **changes: Any
) -> Command:
    subject = subject or subject_create(host=host, name=name)
    payload = {"argv": argv, "env": {}, "epoch": 1, **changes.pop("payload", {})}
    return command_dispatch(
        purpose=changes.pop("purpose", f"start/{subject.name}"),
        host=host,
        verb="start",
        queue="start",
        payload=payload,
        subject=subject,
        deadline_s=changes.pop("deadline_s", PATIENT_S),
        **changes,
    )


def order_stop(subject: Subject, purpose: str = "", **payload: Any) -> Command:
    return command_dispatch(
        purpose=purpose or f"stop/{subject.name}",
        host=subject.host,
        verb="stop",
        queue="stop",
        payload=payload,
        subject=subject,
    )


def fresh(command: Command) -> Command:
    return Command.objects.select_related("subject", "host").get(pk=command.pk)
