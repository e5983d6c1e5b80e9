"""The steps of node acceptances on the nodes: ordered together for many nodes, and read together when they are over.

Every step is a dispatched command; what lasts runs under the shim and is followed by the watch. The number of queries
does not grow with the nodes. Not in charge of when (acceptances.py) nor of what it means (rules/acceptance*.py).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field

from fleet.execution import states
from fleet.execution.dispatch import (
    NewSubject,
    Order,
    commands_cancel,
    commands_dispatch,
    subjects_create,
)
from fleet.execution.message import said_within
from fleet.execution.models import Command, LogChunk
from fleet.execution.output import Section, command_sections
from fleet.execution.streams import chunk_lines
from fleet.models import Gpu, Member, NodeAcceptance
from fleet.readings.disk_read import parse_disk_read
from fleet.readings.nccl_tests import NcclTestsReader
from fleet.readings.told import sentence_of
from fleet.readings.verdicts.nccl_tests import report_tests
from fleet.rules import acceptance_steps as steps
from fleet.rules.acceptance import CardRead, Measured, Pins
from fleet.rules.acceptance_cards import is_busy
from fleet.rules.message import foreign, say
from fleet.selectors.serving import pins_of

_LINES_CAP = 4000  # a whole run prints about a hundred
_DOCKERS_OWN = (125, 126, 127)  # no container, or no such program in the image: nothing was tested


@dataclass
class Told:
    """What the steps of one node told, before it is judged. `outputs`: title -> text, frozen as evidence."""

    images: dict[str, str] = field(default_factory=dict)
    memlock: str | int | None = None
    allreduce: Measured = field(default_factory=lambda: Measured(None))
    disk_read: Measured = field(default_factory=lambda: Measured(None))
    outputs: dict[str, str] = field(default_factory=dict)


def steps_dispatch(rows: Sequence[NodeAcceptance]) -> None:
    """Order what follows the probe on each of these nodes. Repeating it adds nothing."""
    nodes = [row.node for row in rows]
    pins, cards = pins_of(nodes), cards_of(nodes)
    reserved = set(
        Member.objects.filter(node__in=nodes, is_reserved=True, released_at=None).values_list(
            "node_id", flat=True
        )
    )
    for row in rows:
        row.pins = [asdict(one) for one in pins[row.node_id]]
        row.skipped = _why_no_allreduce(row, cards[row.node_id], row.node_id in reserved)
    wanted = [new for row in rows for new in _subjects(row)]
    subjects = subjects_create(wanted)
    orders = [_look(row) for row in rows]
    starts = [_start(row, new, subjects[new.name]) for row in rows for new in _subjects(row)]
    commands = {one.purpose: one for one in commands_dispatch([*orders, *starts])}
    for row in rows:
        row.look = commands[_purpose(row, "look")]
        row.allreduce = commands.get(_purpose(row, "allreduce"))
        row.disk_read = commands.get(_purpose(row, "disk"))


def steps_cancel(rows: Sequence[NodeAcceptance]) -> None:
    """Take back what is not over on these nodes; a test that runs is stopped there."""
    commands_cancel(
        command
        for row in rows
        for command in (row.look, row.allreduce, row.disk_read)
        if command is not None and (not command.is_settled or _is_running(command))
    )


def cards_of(nodes: Iterable[object]) -> dict[int, list[CardRead]]:
    """Return the cards of each node by its key, as the last probe read them."""
    found: dict[int, list[CardRead]] = defaultdict(list)
    for gpu in Gpu.objects.filter(node__in=nodes).order_by("node", "index"):
        found[gpu.node_id].append(
            CardRead(
                index=gpu.index,
                name=gpu.name,
                health=gpu.health,
                explanation=gpu.explanation,
                memory_total_mib=gpu.memory_total_mib,
                memory_used_mib=gpu.memory_used_mib,
                ecc_uncorrected=gpu.ecc_uncorrected,
                throttle_reasons=gpu.throttle_reasons,
                command=gpu.source_id,
            )
        )
    return found


def steps_told(rows: Sequence[NodeAcceptance]) -> dict[int, Told]:
    """Return what the steps of each row told, by its key. Two queries."""
    subjects = {
        command.subject_id
        for row in rows
        for command in (row.allreduce, row.disk_read)
        if command is not None
    }
    texts = _outputs(subjects)
    return {row.pk: _told(row, texts) for row in rows}


def pins_seen(row: NodeAcceptance) -> list[Pins]:
    """Return the releases that a row is judged by, as they were when its steps were ordered."""
    return [Pins(**one) for one in row.pins]


def _purpose(row: NodeAcceptance, step: str) -> str:
    return f"acceptance:{row.run_id}/{row.node.name}/{step}"


def _why_no_allreduce(row: NodeAcceptance, cards: list[CardRead], is_reserved: bool) -> str:
    """Say why all_reduce is not run; empty when it is. Busy cards are not measured, never failed."""
    if is_reserved or is_busy(cards):
        return say("its cards are busy; accept it when its unit is stopped")
    if not row.pins:
        return say("no release is known whose image it could run in")
    if any(card.health == "failed" for card in cards) or len(cards) < row.node.gpu_count:
        return say("not run: a card is missing or failed")
    return ""


def _subjects(row: NodeAcceptance) -> list[NewSubject]:
    name = f"accept-{row.run_id}-{row.node.name.lower()}"[:70]
    found = [NewSubject(row.node.host, f"{name}-disk")]
    if not row.skipped:
        found.append(NewSubject(row.node.host, f"{name}-nccl", f"fc-{name}-nccl"))
    return found


def _look(row: NodeAcceptance) -> Order:
    return Order(
        purpose=_purpose(row, "look"),
        host=row.node.host,
        verb="probe",
        queue="probe",
        effect="probe",
        payload={"sections": steps.look_sections(steps.images_of(pins_seen(row)))},
        deadline_s=steps.LOOK_DEADLINE_S,
        topic=row.run.topic,
    )


def _start(row: NodeAcceptance, new: NewSubject, subject: object) -> Order:
    argv, step = steps.read_argv(row.node.model_root), "disk"
    if new.container:
        image = steps.images_of(pins_seen(row))[0]
        argv = steps.allreduce_argv(image, new.name, new.container, row.node.gpu_count)
        step = "allreduce"
    return Order(
        purpose=_purpose(row, step),
        host=row.node.host,
        verb="start",
        queue="start",
        effect="ensure",
        subject=subject,  # type: ignore[arg-type]
        payload={"argv": argv, "env": {"LC_ALL": "C"}, "epoch": 1},
        deadline_s=steps.START_DEADLINE_S,
        topic=row.run.topic,
    )


def _outputs(subject_ids: Iterable[int]) -> dict[int, str]:
    """Return what each subject printed, its first lines up to a cap."""
    lines: dict[int, list[str]] = defaultdict(list)
    chunks = LogChunk.objects.filter(stream__subject__in=list(subject_ids))
    for chunk in chunks.select_related("stream").order_by("stream", "first_line"):
        kept = lines[chunk.stream.subject_id]
        if len(kept) < _LINES_CAP:
            kept += [line.text for line in chunk_lines(chunk)]
    return {pk: "\n".join(kept[:_LINES_CAP]) + "\n" for pk, kept in lines.items()}


def _told(row: NodeAcceptance, texts: dict[int, str]) -> Told:
    sections: dict[str, Section] = {}
    if row.look is not None and row.look.state == states.SUCCEEDED:
        sections = command_sections(row.look)
    told = Told(
        images=steps.read_images(steps.images_of(pins_seen(row)), sections),
        memlock=steps.read_memlock(sections.get(steps.MEMLOCK)),
    )
    allreduce, disk = _text_of(row.allreduce, texts), _text_of(row.disk_read, texts)
    told.allreduce = _allreduce(row, allreduce)
    told.disk_read = _disk_read(row, disk)
    told.outputs = {
        title: text for title, text in (("allreduce", allreduce), ("disk_read", disk)) if text
    }
    return told


def _text_of(command: Command | None, texts: dict[int, str]) -> str:
    return texts.get(command.subject_id or 0, "") if command is not None else ""


def _is_running(command: Command) -> bool:
    return command.subject is not None and not command.subject.has_ended


def _why_no_result(command: Command | None, skipped: str) -> str:
    """Say why a test has no exit code to look at; empty when it has one."""
    if command is None:
        return skipped or say("it was not started")
    if command.state != states.SUCCEEDED:
        return say("it could not be started: %(why)s", why=command.explanation or command.state)
    subject = command.subject
    if subject is None or not subject.has_ended:
        return say("it had no result before the deadline")
    if subject.rc is None:
        return say("it was ended before its result: %(why)s", why=subject.explanation or "-")
    return ""


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return foreign(lines[-1])[:160] if lines else "-"


def _allreduce(row: NodeAcceptance, text: str) -> Measured:
    if why := _why_no_result(row.allreduce, row.skipped):
        return Measured(None, problem=why)
    rc = row.allreduce.subject.rc  # else there was no result
    if rc in _DOCKERS_OWN:
        why = say(
            "all_reduce_perf did not run, exit code %(rc)s: %(said)s", rc=rc, said=_last_line(text)
        )
        return Measured(None, problem=why)
    reader = NcclTestsReader()
    reader.feed([line.encode() for line in text.splitlines()])
    reader.finish()
    report = report_tests(reader)
    average = report.values.get("avg_busbw")
    if rc != 0 or report.verdict == "fail":
        why = say(
            "all_reduce_perf ended with %(rc)s: %(said)s",
            rc=rc,
            said=said_within(sentence_of(report.summary), 200),
        )
        return Measured(None, problem=why, is_bad=True)
    if not report.complete or not isinstance(average, int | float):
        why = say(
            "all_reduce_perf: no whole table: %(said)s",
            said=said_within(sentence_of(report.summary), 200),
        )
        return Measured(None, problem=why)
    return Measured(float(average))


def _disk_read(row: NodeAcceptance, text: str) -> Measured:
    if why := _why_no_result(row.disk_read, ""):
        return Measured(None, problem=why)
    rc = row.disk_read.subject.rc  # else there was no result
    found = parse_disk_read(text)
    if rc != 0 or found is None:
        why = say("the read test ended with %(rc)s: %(said)s", rc=rc, said=_last_line(text))
        return Measured(None, problem=why)
    if found.size_bytes < steps.READ_LEAST_BYTES:
        return Measured(None, problem=say("less than 1 GiB was read: too little to say anything"))
    return Measured(round(found.gbs, 3), found.tool)
