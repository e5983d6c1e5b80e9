"""Short forms of orders for the kernel's tests."""

from typing import Any

from fleet.execution.dispatch import command_dispatch, subject_create
from fleet.execution.models import Command, Host, Subject

SECTIONS = {"sections": [{"name": "hello", "timeout_s": 5, "argv": ["echo", "hello"]}]}


def order_probe(host: Host, purpose: str = "probe", **changes: Any) -> Command:
    fields = {"verb": "probe", "queue": "probe", "effect": "probe", "payload": SECTIONS, **changes}
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
