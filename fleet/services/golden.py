"""Golden profiles: taken from a node, edited into the next version, made current. A version never changes.

Which readings may be gold and what a key may say is rules/golden_edit.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from django.db import connection, transaction
from django.db.models import Max
from django.utils.translation import gettext as _

from fleet.doorbell import ring
from fleet.models import Fact, GoldenKey, GoldenProfile, Node
from fleet.rules.golden import Wanted
from fleet.rules.golden_edit import BadKey, KeyEdit, edited, take_problems, wanted_of
from fleet.rules.message import said
from fleet.rules.refusals import Conflict, NeedsReason, NotAllowed, Refused
from fleet.selectors.golden import found_of
from fleet.services.permits import permit_demand
from fleet.services.trail import Actor, trail_add

NAME_MAX = 80
_LOCK_CLASS = 7407


@transaction.atomic
def profile_take(
    *,
    node: Node,
    reason: str,
    actor: Actor,
    user: Any = None,
    name: str = "",
    left_out: Iterable[str] = (),
) -> GoldenProfile:
    """Make the next version of the profile of a node's class from what was read of the node; it is not yet current.

    `left_out`: keys that a person leaves out knowingly. Raises Refused naming every reading that is missing, expired
    or cannot be gold, NeedsReason, NotAllowed, Conflict for a node in quarantine.
    """
    _permit(user, "golden-take")
    _demand_reason(reason)
    if node.state in (Node.State.QUARANTINED, Node.State.RETIRED):
        raise Conflict(
            _("%(node)s is %(state)s: a profile is taken from a node in good state.")
            % {"node": node.name, "state": node.get_state_display().lower()}
        )
    keys = frozenset(left_out)
    found = found_of([node.pk]).get(node.pk, {})
    if problems := take_problems(found, node.gpu_count, keys):
        raise Refused(
            _("%(node)s cannot be gold: %(why)s. Probe it again, or choose another node.")
            % {"node": node.name, "why": "; ".join(said(text, _) for text in problems)}
        )
    units = dict(Fact.objects.filter(node=node).values_list("key", "unit"))
    profile = _next_version(
        like=GoldenProfile(
            name=_name(name, node.node_class),
            node_class=node.node_class,
            origin=node.origin,
            taken_from=node,
        ),
        wanted=wanted_of(found, keys),
        units=units,
        note=reason,
        user=user,
    )
    left = sorted(keys & set(found))
    after = {"version": profile.version, "node": node.name, "left_out": left}
    _tell(profile, "golden.take", actor, reason, after=after)
    return profile


@transaction.atomic
def profile_edit(
    *,
    profile: GoldenProfile,
    edits: Mapping[str, KeyEdit],
    reason: str,
    actor: Actor,
    user: Any = None,
    name: str = "",
) -> GoldenProfile:
    """Make the next version from a profile with some keys changed; the old one stays as it is, and so does which
    one is current.

    Raises Refused for a key that is not in the profile, cannot be as typed, or when nothing would change.
    """
    _permit(user, "golden-edit")
    _demand_reason(reason)
    keys = list(profile.keys.order_by("key"))
    wanted = {key.key: key.wanted() for key in keys}
    if strange := sorted(set(edits) - set(wanted)):
        raise Refused(
            _("%(profile)s has no key %(keys)s. Take a new profile from a node that has it.")
            % {"profile": profile, "keys": ", ".join(strange)[:200]}
        )
    changed = _edited(wanted, edits)
    name = _name(name, profile.name)
    if not changed and name == profile.name:
        raise Refused(
            _("Nothing would change. Change a key, or leave %(profile)s.") % {"profile": profile}
        )
    version = _next_version(
        like=GoldenProfile(
            name=name,
            node_class=profile.node_class,
            kind=profile.kind,
            origin=profile.origin,
            taken_from_id=profile.taken_from_id,
        ),
        wanted=[changed.get(key, want) for key, want in wanted.items()],
        units={key.key: key.unit for key in keys},
        note=reason,
        user=user,
    )
    before = {key: _words(wanted[key]) for key in changed}
    after = {key: _words(want) for key, want in changed.items()}
    _tell(
        version,
        "golden.edit",
        actor,
        reason,
        before={"version": profile.version, **before},
        after={"version": version.version, **after},
    )
    return version


@transaction.atomic
def profile_make_current(
    *, profile: GoldenProfile, reason: str, actor: Actor, user: Any = None
) -> GoldenProfile:
    """Let a version judge the nodes of its class from now on, instead of the one that did.

    A second person does it, not who made the version. Raises NotAllowed, NeedsReason, Conflict.
    """
    _permit(user, "golden-current")
    _demand_reason(reason)
    _lock_line(profile)
    profile = GoldenProfile.objects.get(pk=profile.pk)
    if profile.is_current:
        raise Conflict(_("%(profile)s is current already.") % {"profile": profile})
    if user is not None and profile.created_by_id == user.pk:
        raise NotAllowed(
            _("You made %(profile)s: another approver makes it current.") % {"profile": profile}
        )
    line = _line(profile)
    before = line.filter(is_current=True).first()
    line.filter(is_current=True).update(is_current=False)
    GoldenProfile.objects.filter(pk=profile.pk).update(is_current=True)
    profile.refresh_from_db()
    _tell(
        profile,
        "golden.current",
        actor,
        reason,
        before={"version": before.version if before else None},
        after={"version": profile.version},
    )
    if before:
        ring(before.topic)
    return profile


def _next_version(
    *,
    like: GoldenProfile,
    wanted: Iterable[Wanted],
    units: Mapping[str, str],
    note: str,
    user: Any,
) -> GoldenProfile:
    _lock_line(like)
    newest = _line(like).aggregate(newest=Max("version"))["newest"] or 0
    like.version, like.note, like.created_by = newest + 1, note.strip(), user
    like.save(force_insert=True)
    GoldenKey.objects.bulk_create(
        GoldenKey(
            profile=like,
            key=want.key,
            value=want.value,
            unit=units.get(want.key, ""),
            tolerance=want.tolerance,
            ratio=want.ratio,
            low=want.low,
            high=want.high,
        )
        for want in wanted
    )
    return like


def _edited(wanted: Mapping[str, Wanted], edits: Mapping[str, KeyEdit]) -> dict[str, Wanted]:
    changed, problems = {}, []
    for key, edit in edits.items():
        try:
            want = edited(wanted[key], edit)
        except BadKey as error:
            problems.append(said(error.sentence, _))
            continue
        if want != wanted[key]:
            changed[key] = want
    if problems:
        raise Refused(" ".join(problems))
    return changed


def _line(profile: GoldenProfile) -> Any:
    return GoldenProfile.objects.filter(
        node_class=profile.node_class, kind=profile.kind, origin=profile.origin
    )


def _lock_line(profile: GoldenProfile) -> None:
    """Let writers of one class go one after the other; the first version has no row to lock."""
    line = f"{profile.node_class}/{profile.kind}/{profile.origin}"
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(%s, hashtext(%s))", [_LOCK_CLASS, line])


def _permit(user: Any, permission: str) -> None:
    if user is not None:
        permit_demand(user, permission)


def _demand_reason(reason: str) -> None:
    if not reason.strip():
        raise NeedsReason(_("A golden profile needs a reason. Write why, then send again."))


def _name(typed: str, default: str) -> str:
    name = typed.strip() or default
    if len(name) > NAME_MAX:
        raise Refused(
            _("A name has at most %(max)d characters, found %(found)d. Shorten it.")
            % {"max": NAME_MAX, "found": len(name)}
        )
    return name


def _words(want: Wanted) -> dict[str, Any]:
    """A key as the trail keeps it, without what it does not say."""
    words = {"tolerance": want.tolerance, "value": want.value if _is_short(want.value) else "…"}
    numbers = {"ratio": want.ratio, "low": want.low, "high": want.high}
    return words | {name: number for name, number in numbers.items() if number is not None}


def _is_short(value: Any) -> bool:
    return not isinstance(value, dict | list)


def _tell(
    profile: GoldenProfile,
    verb: str,
    actor: Actor,
    reason: str,
    *,
    before: Any = None,
    after: Any = None,
) -> None:
    trail_add(
        actor=actor,
        verb=verb,
        object_kind="golden",
        object_id=profile.public_id,
        reason=reason,
        before=before,
        after=after,
    )
    ring("golden", profile.topic)
