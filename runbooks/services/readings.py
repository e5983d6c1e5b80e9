"""The readings of the catalogue: each looks at rows, or asks the nodes by probe Commands, and says what it found.

A node that does not answer makes a reading unknown, never passed.
"""

from datetime import datetime
from io import BytesIO

from fleet.execution import states
from fleet.execution.dispatch import command_dispatch
from fleet.execution.models import Command, Host
from fleet.execution.output import command_sections
from fleet.models import Node
from fleet.readings.kernel_log.stamps import lines_since
from fleet.readings.kinds import READERS
from fleet.readings.nccl_log import NcclReader
from fleet.readings.told import sentence_of
from fleet.rules.message import say
from fleet.services.trail import Actor
from releases.models import GateRun, Launch, LaunchPosition
from releases.rules import gates
from releases.rules.triggers import GOLDEN_MISSES
from releases.services.evidence import LOG_SPAN, last_lines
from releases.services.gates import GateRefused, gate_start
from runbooks.rules.lag import WatchdogSeen, judge_lag
from runbooks.services.effects import Effect, began_at, golden_row, live_launch, unit_of
from runbooks.services.outcome import Outcome, Work, failed, passed, unknown

KERNEL_LOG_S = 10.0
# With the offset: a time without one could be of any zone.
KERNEL_LOG_ARGV = ["dmesg", "--time-format", "iso"]
# A card says why before the unit is seen to hang, and a kernel's clock drifts; as long as the frozen log reaches back.
KERNEL_LOG_BEFORE = LOG_SPAN


def _nothing(work: Work) -> None:
    """A reading of rows asks nobody."""


def _alive_poll(work: Work) -> Outcome | None:
    launch = live_launch(work)
    if launch is None:
        return failed(say("Nothing of the unit runs any more."))
    places = launch.positions.select_related("node__host", "subject")
    silent = [place.node.name for place in places if place.node.host.reach != Host.Reach.OK]
    if silent:
        return unknown(say("%(nodes)s did not answer.", nodes=", ".join(silent)))
    gone = [
        place.node.name
        for place in places
        if place.subject is None or place.subject.state != states.SUBJECT_LIVE
    ]
    if gone:
        return failed(say("The process is gone on: %(nodes)s.", nodes=", ".join(gone)))
    return passed(say("Every node still holds its process."))


# -- kernel logs


def _xid_begin(work: Work) -> None:
    for node in _nodes_of(work):
        command_dispatch(
            purpose=f"{work.step.purpose}/{node.name}",
            host=node.host,
            verb="probe",
            queue="probe",
            effect="probe",
            payload={
                "sections": [{"name": "dmesg", "timeout_s": KERNEL_LOG_S, "argv": KERNEL_LOG_ARGV}]
            },
            deadline_s=3 * KERNEL_LOG_S,
            topic=work.step.run.topic,
        )


def _xid_poll(work: Work) -> Outcome | None:
    commands = Command.objects.filter(purpose__startswith=f"{work.step.purpose}/")
    commands = list(commands.select_related("host"))
    if not commands:
        return unknown(say("The unit has no nodes to ask."))
    if not all(command.is_settled for command in commands):
        return None
    since = began_at(work) - KERNEL_LOG_BEFORE
    found = [(command.host.name, *_kernel_log(command, since)) for command in commands]
    for state, make in ((gates.FAILED, failed), ("unknown", unknown)):
        if bad := [(name, text) for name, verdict, text in found if verdict == state]:
            name, text = bad[0]
            return make(say("%(node)s: %(why)s", node=name, why=text), nodes=[n for n, _ in bad])
    return passed(say("No Xid or SXid in %(count)s kernel logs.", count=len(found)))


def _kernel_log(command: Command, since: datetime) -> tuple[str, str]:
    """Judge what a kernel log says since then; one that can be read and says nothing since passes."""
    section = command_sections(command).get("dmesg")
    if command.state != states.SUCCEEDED or section is None or section.rc != 0:
        return "unknown", command.explanation or say("the kernel log could not be read")
    read = READERS["kernel-log"]
    report, late = read(BytesIO(section.body)), list(lines_since(section.body.splitlines(), since))
    if report.complete and not late:
        return gates.PASSED, ""
    if report.complete:
        report = read(BytesIO(b"".join(line + b"\n" for line in late)))
    verdict = {"pass": gates.PASSED, "fail": gates.FAILED}.get(report.verdict, "unknown")
    return verdict, sentence_of(report.summary)


# -- the lagging rank


def _lag_poll(work: Work) -> Outcome | None:
    launch = live_launch(work) or unit_of(work).launches.order_by("-id").first()
    if launch is None:
        return unknown(say("The unit has no log."))
    places = list(launch.positions.select_related("node__host", "subject"))
    lag = judge_lag(_watchdogs(places), launch.plan["world_size"])
    facts = {}
    if lag.rank is not None:
        per_node = launch.plan["positions"][0]["layout"]["gpus_per_node"]
        facts = {"rank": lag.rank, "node": places[lag.rank // per_node].node.name}
    return Outcome(lag.state, lag.explanation, facts)


def _watchdogs(places: list[LaunchPosition]) -> WatchdogSeen:
    """Read the end of every node's stored log: a watchdog speaks last."""
    timed_out: set[int] = set()
    behind: set[int] = set()
    for place in places:
        reader = NcclReader()
        reader.feed(line.text.encode() for line in last_lines(place))
        reader.finish()
        timed_out |= {one.rank for one in reader.watchdog.timeouts.values() if one.rank is not None}
        for ranks in reader.watchdog.behind().values():
            behind |= set(ranks)
    return WatchdogSeen(frozenset(timed_out), frozenset(behind))


# -- the new generation


def _transport_begin(work: Work) -> None:
    """A whole gate, not the transport alone: the weight that a later step gives back takes one (law 2)."""
    launch = live_launch(work)
    if launch is None:
        return
    try:
        gate_start(
            launch=launch,
            purpose=work.step.purpose,
            actor=Actor(name=work.actor_name, source="rule"),
        )
    except GateRefused:
        return  # another gate runs, or it is not ready: the poll says so


def _transport_poll(work: Work) -> Outcome | None:
    run = GateRun.objects.filter(purpose=work.step.purpose).first()
    if run is None:
        _transport_begin(work)
        return None
    if run.state not in gates.ENDED:
        return None
    if run.state == gates.PASSED:
        return passed(run.explanation, gate=run.public_id)
    make = failed if run.state == gates.FAILED else unknown
    return make(run.explanation, gate=run.public_id)


def _golden_poll(work: Work) -> Outcome | None:
    """Only an answer that was asked for after the step began counts."""
    launch, since = live_launch(work), work.step.started_at
    row = golden_row(launch) if launch and launch.state == Launch.State.READY else None
    if row is None or since is None or row.tried_at is None or row.tried_at < since:
        return None
    if row.ok_at and row.ok_at >= since and not row.misses:
        return passed(say("The golden prompt was answered exactly."))
    if row.misses < GOLDEN_MISSES:
        return None
    return failed(row.error or say("The golden prompt was not answered."))


READINGS: dict[str, Effect] = {
    "rank_alive_all": Effect(_nothing, _alive_poll),
    "gpu_xid_new": Effect(_xid_begin, _xid_poll),
    "first_lagging_rank": Effect(_nothing, _lag_poll),
    "nccl_transport": Effect(_transport_begin, _transport_poll),
    "golden_probe_ok": Effect(_nothing, _golden_poll),
}


def _nodes_of(work: Work) -> list[Node]:
    members = unit_of(work).members.filter(released_at=None).select_related("node__host")
    return [member.node for member in members.order_by("position")]
