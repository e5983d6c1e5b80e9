"""One tick over the gateways: read back, compare with what is wanted, and order what is missing.

Level-triggered: nothing is remembered of how a difference came about, so that a foreign change, a restart and an
order that was lost are all the same. Safe to run twice or never. The units follow in transactions of their own,
because whoever moves a unit locks it before the gateway.
"""

from __future__ import annotations

import logging
from datetime import timedelta

from django.conf import settings
from django.db import transaction
from django.db.models import QuerySet

from fleet.doorbell import ring
from fleet.execution import states
from fleet.execution.clock import database_now
from fleet.execution.models import Command
from fleet.execution.output import command_sections
from fleet.models import Replica
from fleet.rules.message import said, say
from fleet.services.replicas import UnitMove, replicas_move
from fleet.services.trail import Actor, rule_actor, trail_add
from releases.gateways.haproxy import SHARE_MAP
from releases.models import Gateway, Launch
from releases.rules import gateway as rules
from releases.rules import launch as launch_rules
from releases.selectors.gateways import gateway_routes, is_fresh, reading_of
from releases.services import gateway_effects as effects
from releases.services.endpoints import SlotsTaken, endpoint_open
from releases.services.gateway_seen import read_back_newer, reading_store

log = logging.getLogger(__name__)

AGAIN_S = 5.0  # between a start or an order and the same once more
ACTOR = "gateway"
# What a unit can be while its launch is ready; the others are not the gateway's to change.
_FOLLOWS = frozenset({Replica.State.READY, Replica.State.SERVING, Replica.State.DRAINING})


def gateways_advance() -> int:
    """Advance every gateway and the units behind it by a step; return how many things changed."""
    changed = endpoints_open_missing()
    for pk in Gateway.objects.order_by("pk").values_list("pk", flat=True):
        changed += _alone(gateway_advance, pk)
    return changed + _units_follow_or_log()


def _units_follow_or_log() -> int:
    try:
        return units_follow()
    except Exception:
        log.exception("the units behind the gateways could not follow")  # the next tick tries again
        return 0


def _alone(part, pk: int) -> bool:
    try:
        return part(pk)
    except Exception:
        # One that cannot be advanced must not hold up the others; its own transaction is gone.
        log.exception("%s of %s failed", part.__name__, pk)
        return False


def endpoints_open_missing() -> int:
    """Put ready launches behind the gateway that are not: it came later than they, or their slot was taken."""
    if not Gateway.objects.exists():
        return 0
    waiting = Launch.objects.filter(state=launch_rules.READY, endpoint=None).order_by("ready_at")
    return sum(_alone(_open, pk) for pk in waiting.values_list("pk", flat=True))


@transaction.atomic
def _open(pk: int) -> bool:
    launch = (
        Launch.objects.select_for_update(of=("self",), skip_locked=True)
        .select_related("replica__pool", "release")
        .filter(pk=pk, state=launch_rules.READY)
        .first()
    )
    if launch is None:
        return False
    try:
        endpoint_open(launch=launch, actor=rule_actor(ACTOR))
    except SlotsTaken:
        return False
    return True


@transaction.atomic
def gateway_advance(pk: int) -> bool:
    """Take in the newest read-back of one gateway and order what it has otherwise than wanted."""
    gateway = (
        Gateway.objects.select_for_update(of=("self",), skip_locked=True)
        .select_related("host", "subject", "files", "start", "order")
        .filter(pk=pk)
        .first()
    )
    if gateway is None:
        return False
    before = (gateway.seen_at, gateway.differences, gateway.explanation)
    if read := read_back_newer(gateway):
        was_at_rest = _is_at_rest(gateway)
        reading_store(gateway, read)
        if was_at_rest:
            _tell_drift(gateway)
    _forget_ended(gateway)
    routes = gateway_routes(gateway)
    files = effects.files_of(gateway, routes)
    _settle_files(gateway)
    gateway.explanation = _act(gateway, routes, files)
    gateway.differences = _differences(gateway, routes, files)
    gateway.save()
    after = (gateway.seen_at, gateway.differences, gateway.explanation)
    if after != before:
        ring(gateway.topic)
    return after[1:] != before[1:]


def _is_at_rest(gateway: Gateway) -> bool:
    """Tell whether the proxy agreed when last read, and nothing else was wanted or ordered since."""
    at = gateway.seen_at
    if at is None or gateway.differences:
        return False
    if gateway.order is not None and (gateway.order.settled_at or database_now()) > at:
        return False
    return not gateway.endpoints.filter(changed_at__gt=at).exists()


def _tell_drift(gateway: Gateway) -> None:
    """Note in the trail what somebody else changed: it is undone a moment later, and would be forgotten."""
    reading = reading_of(gateway)
    found = rules.differences(gateway_routes(gateway), reading) if reading else []
    if found:
        trail_add(
            actor=rule_actor(ACTOR),
            verb="gateway.drift",
            object_kind="gateway",
            object_id=gateway.name,
            after={"found": [said(one.explain()) for one in found]},
        )


def _forget_ended(gateway: Gateway) -> None:
    """A launch that ended leaves the proxy: its server is closed by now, and is deleted when nothing runs on it."""
    gateway.endpoints.filter(launch__state__in=launch_rules.ENDED).delete()


def _settle_files(gateway: Gateway) -> None:
    """Note what is on the host once its writing is proved; a writing that failed leaves it unknown."""
    command = gateway.files
    if command is None or not command.is_settled:
        return
    sections = command_sections(command).values()
    is_written = command.state == states.SUCCEEDED and all(one.rc == 0 for one in sections)
    gateway.files_sha256 = command.purpose.rpartition("/")[2] if is_written else ""


# -- one step


def _act(gateway: Gateway, routes: tuple[rules.Route, ...], files: effects.Files) -> str:
    """Give the next command that is needed; return a sentence on what is waited for, or nothing."""
    why = _write(gateway, files)
    if gateway.subject is None or gateway.subject.has_ended:
        return why or _start(gateway, files)
    if gateway.subject.state != states.SUBJECT_LIVE:
        return _why_not_live(gateway)
    if gateway.frame_sha256 != files.frame_sha256 and not gateway.endpoints.exists():
        return _stop(gateway)
    return _order(gateway, routes) or why


def _write(gateway: Gateway, files: effects.Files) -> str:
    if gateway.files_sha256 == files.sha256[:16]:
        return ""
    if not _is_due(gateway.files):
        return _waiting(gateway.files, say("Writing the configuration."))
    gateway.files = effects.dispatch_files(gateway, files)
    gateway.files_sha256 = ""
    return say("Writing the configuration.")


def _start(gateway: Gateway, files: effects.Files) -> str:
    ended = gateway.subject
    if not _is_due(gateway.start):
        return _waiting(gateway.start, say("Starting the proxy."))
    gateway.start = effects.dispatch_start(gateway)
    gateway.frame_sha256 = files.frame_sha256
    effects.watch_gateway(gateway)
    if ended is None:
        return say("Starting the proxy.")
    return say("The proxy ended (exit code %(rc)s); starting it again.", rc=ended.rc)


def _stop(gateway: Gateway) -> str:
    """Nothing is served through it, so that it may be started anew with the pools it does not know."""
    if _is_due(gateway.start):
        gateway.start = effects.dispatch_stop(gateway)
    return say("Pools or model names changed: the proxy is being started anew.")


def _why_not_live(gateway: Gateway) -> str:
    """A start that failed leaves a subject of which nothing is known; only a new order finds out."""
    start, subject = gateway.start, gateway.subject
    if start is not None and start.is_settled and start.state != states.SUCCEEDED:
        if _is_due(start):
            gateway.start = effects.dispatch_start(gateway)
        return start.explanation
    return subject.explanation or say("Waiting for the proxy to run.")


def _order(gateway: Gateway, routes: tuple[rules.Route, ...]) -> str:
    reading, order = reading_of(gateway), gateway.order
    if reading is None or not is_fresh(gateway.seen_at):
        return say("Waiting for the proxy to be read back.")
    if order is not None and not order.is_settled:
        return order.explanation
    lines = rules.order_lines(routes, reading, SHARE_MAP)
    if not lines:
        return ""
    is_same = order is not None and order.payload["text"] == effects.order_text(lines)
    if is_same and not _is_due(order):
        return _refusals(order)
    gateway.order = effects.dispatch_order(gateway, lines)
    return ""


def _refusals(order: Command) -> str:
    if order.state != states.SUCCEEDED:
        return order.explanation
    return say("The same order was given a moment ago; it is given again.")


def _is_due(command: Command | None) -> bool:
    """One command of a kind at a time, and the next after a moment: what fails at once must not storm."""
    if command is None:
        return True
    again = timedelta(seconds=AGAIN_S / settings.TIME_SCALE)
    return command.is_settled and database_now() - command.created_at >= again


def _waiting(command: Command | None, otherwise: str) -> str:
    return command.explanation if command and command.explanation else otherwise


def _differences(
    gateway: Gateway, routes: tuple[rules.Route, ...], files: effects.Files
) -> list[str]:
    """Return what the proxy does otherwise than wanted, as sentences."""
    reading = reading_of(gateway)
    if reading is None:
        return [say("The proxy was never read back.")]
    told = [one.explain() for one in rules.differences(routes, reading)]
    if gateway.frame_sha256 != files.frame_sha256:
        told.insert(0, say("Pools or model names changed: the proxy must be started anew."))
    return told


# -- units and people


@transaction.atomic
def units_follow() -> int:
    """Move ready units to serving, draining or back, by what was read back after it was wanted; return how many.

    One query when none has to, and a number that does not grow with the units when many have to.
    """
    seen = [launch for launch, _ in _units_to_follow(Launch.objects.all())]
    if not seen:
        return 0
    # Read anew under the lock: what was seen before it may be of a launch that somebody moved meanwhile.
    held = Launch.objects.filter(pk__in=seen).select_for_update(of=("self",), skip_locked=True)
    moves = [move for _, move in _units_to_follow(held)]
    return replicas_move(moves, actor=rule_actor(ACTOR), among=_FOLLOWS)


def _units_to_follow(launches: QuerySet[Launch]) -> list[tuple[int, UnitMove]]:
    """Return (launch id, move) of units of ready launches that are not what was read back of them."""
    rows = launches.filter(
        state=launch_rules.READY, endpoint__seen_weight__isnull=False, replica__state__in=_FOLLOWS
    ).order_by("pk")
    seen = rows.values_list(
        "pk", "replica_id", "replica__state", "endpoint__seen_weight", "endpoint__seen_mode"
    )
    return [
        (launch, UnitMove(unit, to, _unit_words(to, weight)))
        for launch, unit, state, weight, mode in seen
        if (to := rules.unit_state(weight, mode, state)) != state
    ]


def _unit_words(state: str, weight: int) -> str:
    if state == Replica.State.SERVING:
        return say("Read back from the proxy: it serves with weight %(weight)s.", weight=weight)
    if state == Replica.State.DRAINING:
        return say("Read back from the proxy: it gets no new session.")
    return say("Ready, without traffic.")


@transaction.atomic
def gateway_restart(*, gateway: Gateway, reason: str, actor: Actor) -> bool:
    """Start the proxy anew, which cuts what runs through it; False when it is not running."""
    row = Gateway.objects.select_for_update(of=("self",)).get(pk=gateway.pk)
    if row.subject is None or row.subject.state != states.SUBJECT_LIVE:
        return False
    trail_add(
        actor=actor,
        verb="gateway.restart",
        object_kind="gateway",
        object_id=row.name,
        reason=reason,
    )
    row.start = effects.dispatch_stop(row)
    row.save(update_fields=["serial", "start"])
    ring(row.topic)
    return True
