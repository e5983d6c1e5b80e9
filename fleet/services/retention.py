"""Forgets what probes printed long ago: their commands, outputs and rows, in small batches.

Nothing that something points to is removed: each relation of a command counts, and the models of upper apps too.
The newest probe of each node stays for ever. Not in charge of the trail, which keeps every row, nor of commands
that may change a node: their purposes must stay, so that nothing is done twice.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models import (
    BooleanField,
    Exists,
    F,
    Func,
    Model,
    OuterRef,
    QuerySet,
    TextField,
    Value,
)
from django.db.models.functions import Cast, Concat, JSONObject, Now

from fleet.execution import states
from fleet.execution.models import Command, CommandOutput
from fleet.models import Evidence, Holding, NodeAcceptance, NodeProbe, ProbeRun

BATCH = 500
# Of a copy of weights: how many bytes lie on the disk, asked every few seconds (weights_effects.py).
_READING = r"^weights:[0-9]+/[0-9]+/bytes#[0-9]+$"


@transaction.atomic
def probes_forget(limit: int = BATCH) -> int:
    """Remove probes that were settled before the days that are kept, with what they printed; return how many.

    A fixed number of queries. A row that somebody holds is left for the next time.
    """
    rows = list(
        _old_probes()
        .select_for_update(of=("self", "command"), skip_locked=True)
        .select_related("command")
        .only("run", "command__id")
        .order_by("id")[:limit]
    )
    if not rows:
        return 0
    _delete(NodeProbe.objects.filter(pk__in=[row.pk for row in rows]))
    _delete_commands(row.command_id for row in rows)
    empty = ProbeRun.objects.filter(pk__in={row.run_id for row in rows}, ended_at__isnull=False)
    _delete(_unreferenced(empty, "pk", ProbeRun))
    return len(rows)


@transaction.atomic
def readings_forget(limit: int = BATCH) -> int:
    """Remove old readings of the progress of copies, never the last one of a copy; return how many.

    A fixed number of queries.
    """
    last = Holding.objects.annotate(
        reading=Concat(
            Value("weights:"), Cast("pk", TextField()), Value("/"), Cast("attempt", TextField()),
            Value("/bytes#"), Cast("readings", TextField()), output_field=TextField(),
        )
    )  # fmt: skip
    rows = Command.objects.filter(
        purpose__startswith="weights:",
        purpose__regex=_READING,
        verb="probe",
        effect="probe",
        state__in=sorted(states.TERMINAL),
        settled_at__lt=_kept_since(),
    ).exclude(purpose__in=last.values("reading"))
    rows = _unreferenced(rows, "pk", Command, CommandOutput)
    found = rows.exclude(_is_evidence("purpose")).select_for_update(of=("self",), skip_locked=True)
    keys = list(found.order_by("id").values_list("id", flat=True)[:limit])
    _delete_commands(keys)
    return len(keys)


def _old_probes() -> QuerySet[NodeProbe]:
    newer = NodeProbe.objects.filter(
        node=OuterRef("node"), settled_at__isnull=False, pk__gt=OuterRef("pk")
    )
    rows = NodeProbe.objects.filter(
        Exists(newer),
        settled_at__lt=_kept_since(),
        command__state__in=sorted(states.TERMINAL),
    )
    rows = _unreferenced(rows, "pk", NodeProbe)
    rows = _unreferenced(rows, "command_id", Command, CommandOutput, NodeProbe)
    return rows.exclude(_is_judged()).exclude(_is_evidence("command__purpose"))


def _kept_since() -> Any:
    return Now() - timedelta(days=settings.PROBES_KEPT_DAYS)


def _unreferenced(
    rows: QuerySet[Any], key: str, target: type[Model], *own: type[Model]
) -> QuerySet[Any]:
    """Leave out rows whose `key` (of a `target`) a foreign key of any model holds, those of `own` apart.

    Read from the models, so that a relation that is added later counts at once.
    """
    for relation in target._meta.get_fields(include_hidden=True):
        is_reference = relation.auto_created and (relation.one_to_many or relation.one_to_one)
        if is_reference and not relation.concrete and relation.related_model not in own:
            name = relation.field.attname
            there = relation.related_model._base_manager.filter(**{name: OuterRef(key)})
            rows = rows.exclude(Exists(there))
    return rows


def _is_judged() -> Exists:
    """Tell whether a check of an acceptance names the command of a probe as the source of what it judged."""
    named = Func(
        F("checks"),
        JSONObject(id=OuterRef("command_id")),
        function="jsonb_path_exists",
        template="%(function)s(%(expressions)s)",
        arg_joiner=", '$.** ? (@.command == $id)', ",
        output_field=BooleanField(),
    )
    return Exists(NodeAcceptance.objects.filter(named, node=OuterRef("node")))


def _is_evidence(purpose: str) -> Exists:
    """Tell whether the origin of frozen evidence names the command of this purpose."""
    return Exists(Evidence.objects.filter(origin__contains=OuterRef(purpose)))


def _delete_commands(keys: Iterable[int]) -> None:
    wanted = list(keys)
    _delete(CommandOutput.objects.filter(command__in=wanted))
    _delete(Command.objects.filter(pk__in=wanted))


def _delete(rows: QuerySet[Any]) -> None:
    """Delete without looking for relations once more: the rows were chosen as free of them.

    A reference that came in between fails the commit by its foreign key, and the batch stays.
    """
    rows._raw_delete(rows.db)
