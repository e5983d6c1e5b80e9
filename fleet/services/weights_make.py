"""Reads the seed nodes of artefacts whose manifest is not known yet."""

from __future__ import annotations

from fleet.doorbell import ring
from fleet.execution import states
from fleet.execution.models import Command
from fleet.execution.output import command_sections
from fleet.models import Holding, WeightsArtefact
from fleet.rules import shards
from fleet.rules.message import say
from fleet.services import weights_effects as effects
from fleet.services.trail import rule_actor, trail_add
from fleet.services.weights import TOPIC, artefact_complete


def artefacts_read() -> int:
    """Carry every artefact that is being read one step on; return how many became known or failed."""
    rows = WeightsArtefact.objects.select_for_update(of=("self",), skip_locked=True)
    making = rows.filter(state=WeightsArtefact.State.MAKING).select_related(
        "seed_node__host", "subject__host"
    )
    return sum(_step(row) for row in making)


def _step(row: WeightsArtefact) -> bool:
    if row.subject is None:
        effects.start_make(row)
        row.explanation = say("The seed node reads its files.")
        row.save()
        return False
    commands = {
        command.purpose: command
        for command in Command.objects.filter(
            purpose__in=[effects.make_purpose(row, step) for step in ("start", "out")]
        ).select_related("output")
    }
    start = commands.get(effects.make_purpose(row, "start"))
    if start is not None and start.is_settled and start.state != states.SUCCEEDED:
        return _fail(row, start.explanation or start.state)
    if not row.subject.has_ended:
        return False
    if row.subject.state != states.SUBJECT_DONE or row.subject.rc != 0:
        why = say("the reading ended with %(rc)s", rc=row.subject.rc)
        if row.subject.rc == 3:
            why = say("no directory of this revision is on it")
        return _fail(row, why)
    out = commands.get(effects.make_purpose(row, "out"))
    if out is None:
        effects.read_output(row.subject, effects.make_purpose(row, "out"), row.topic)
        return False
    return out.is_settled and _judge(row, out)


def _judge(row: WeightsArtefact, out: Command) -> bool:
    section = command_sections(out).get("out")
    if out.state != states.SUCCEEDED or section is None or section.error or section.truncated:
        return _fail(row, out.explanation or (section.error if section else "") or out.state)
    wanted = shards.shards_of(row.manifest)
    found, problems = shards.made_from(shards.read_found(section.text), wanted)
    if problems:
        return _fail(row, problems[0])
    artefact_complete(row, found)
    row.save()
    Holding.objects.get_or_create(
        node=row.seed_node, artefact=row, defaults={"explanation": say("Waits to be checked.")}
    )
    _tell(row, "artefact.ready")
    return True


def _fail(row: WeightsArtefact, why: str) -> bool:
    node = row.seed_node.name if row.seed_node else "-"
    row.state = WeightsArtefact.State.FAILED
    row.explanation = say("%(node)s could not be read: %(why)s", node=node, why=why)
    row.save()
    _tell(row, "artefact.failed")
    return True


def _tell(row: WeightsArtefact, verb: str) -> None:
    trail_add(
        actor=rule_actor("weights"),
        verb=verb,
        object_kind="weights",
        object_id=row.public_id,
        after={"files": len(row.manifest), "manifest": row.manifest_sha256[:12]},
    )
    ring(TOPIC, row.topic)
