"""'Ready is evidence': what must be true before a unit is ready, what was found, and where the proof lies."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.urls import reverse
from django.utils.translation import gettext as _

from fleet.execution import states
from fleet.marks import CRIT, IDLE, OK, RUN, Mark
from releases.rules import launch as rules
from releases.rules.phases import GOLDEN
from releases.selectors.launch_page import LaunchSeen
from releases.views.grid import done_rows


@dataclass(frozen=True)
class Proof:
    condition: str
    mark: Mark
    found: str
    text: str = ""
    url: str = ""


def launch_proofs(seen: LaunchSeen) -> list[Proof]:
    """Return every condition in the order in which a launch meets it."""
    return [
        _preflight(seen),
        _started(seen),
        _plan(seen),
        _world(seen),
        _served(seen),
        _golden(seen),
    ]


def _mark(is_met: bool, *, is_failed: bool = False, is_open: bool = False) -> Mark:
    if is_met:
        return Mark(OK, "ok", _("Met"))
    if is_failed:
        return Mark(CRIT, "crit", _("Not met"))
    return Mark(RUN, "run", _("Being checked")) if is_open else Mark(IDLE, "idle", _("Not yet"))


def _count(seen: LaunchSeen, met: int) -> str:
    return _("%(met)d of %(all)d nodes") % {"met": met, "all": len(seen.places)}


def _preflight(seen: LaunchSeen) -> Proof:
    commands = seen.commands_of("preflight/")
    passed = (
        seen.launch.state not in {rules.CREATED, rules.PREFLIGHT}
        and seen.launch.start_deadline_at is not None
    )
    failed = seen.launch.state == rules.FAILED and not passed
    url = ""
    if commands and commands[0].is_settled:
        parts = commands[0].payload.get("sections", [])
        if parts:
            url = reverse(
                "probe-raw", args=[commands[0].host.name, commands[0].pk, parts[0]["name"]]
            )
    return Proof(
        _("Weights, image, GPUs and leftovers checked on every node"),
        _mark(passed, is_failed=failed, is_open=bool(commands)),
        _count(
            seen,
            len(seen.places) if passed else sum(1 for c in commands if c.state == states.SUCCEEDED),
        ),
        _("pre-flight output") if url else "",
        url,
    )


def _started(seen: LaunchSeen) -> Proof:
    met = sum(
        1
        for place in seen.places
        if place.place.start and place.place.start.state == states.SUCCEEDED
    )
    begun = any(place.place.start for place in seen.places)
    failed = begun and met < len(seen.places) and bool(seen.launch.cause)
    return Proof(
        _("All nodes started inside one window, or none"),
        _mark(met == len(seen.places) > 0, is_failed=failed, is_open=begun),
        _count(seen, met) if begun else _("after pre-flight"),
    )


def _plan(seen: LaunchSeen) -> Proof:
    sha = seen.launch.plan_sha256
    met = sum(1 for p in seen.places if p.place.subject and p.place.subject.plan_sha == sha)
    begun = any(place.place.subject for place in seen.places)
    return Proof(
        _("Every node carries plan %(sha)s") % {"sha": f"{sha[:4]}…{sha[-4:]}"},
        _mark(met == len(seen.places) > 0, is_open=begun),
        _count(seen, met) if begun else _("after pre-flight"),
        _("plan"),
        "#plan",
    )


def _world(seen: LaunchSeen) -> Proof:
    wanted = seen.launch.plan.get("world_size")
    found = [place.place.reader_state.get("world_size") for place in seen.places]
    known = [size for size in found if size is not None]
    wrong = [size for size in known if size != wanted]
    met = bool(known) and not wrong and _is_past(seen, "rendezvous")
    words = str(known[0]) if known else _("after rendezvous")
    return Proof(
        _("World size %(n)s at rendezvous") % {"n": wanted},
        _mark(met, is_failed=bool(wrong), is_open=bool(known)),
        str(wrong[0]) if wrong else words,
        _("log") if known else "",
        _log(seen) if known else "",
    )


def _served(seen: LaunchSeen) -> Proof:
    met = bool(seen.places) and "ready" in seen.places[0].phases
    return Proof(
        _("The engine serves its real endpoint"),
        _mark(met, is_failed=not met and seen.launch.state == rules.FAILED),
        _("application startup complete") if met else _("after capture"),
        _("log") if met else "",
        _log(seen) if met else "",
    )


def _golden(seen: LaunchSeen) -> Proof:
    prompts = seen.launch.release.content.get("golden", [])
    commands = seen.commands_of(f"{GOLDEN}/")
    met = seen.launch.ready_at is not None
    failed = bool(commands) and not met and seen.launch.ended_at is not None
    found = _("%(met)d of %(all)d answered right") % {
        "met": len(prompts) if met else 0,
        "all": len(prompts),
    }
    return Proof(
        _("%(n)d golden prompts answered right through that endpoint") % {"n": len(prompts)},
        _mark(met, is_failed=failed, is_open=bool(commands) and not failed),
        found if commands else _("after the engine serves"),
    )


def _is_past(seen: LaunchSeen, row: str) -> bool:
    return row in done_rows(seen) or seen.launch.ready_at is not None


def _log(seen: LaunchSeen) -> str:
    return reverse("log", args=[seen.launch.replica.name, seen.launch.generation])


def met_count(proofs: list[Proof]) -> dict[str, Any]:
    """Count the proofs that are met, of all."""
    return {"met": sum(1 for proof in proofs if proof.mark.tone == OK), "all": len(proofs)}
