"""Releases from draft to withdrawal: each write with its trail. What a state allows is rules/release.py, what may
be sealed rules/content.py; that sealed content never changes, the database itself sees to.
"""

from typing import Any

from django.db import transaction
from django.db.models import F
from django.db.models.functions import Now
from django.utils.translation import gettext as _

from fleet.doorbell import ring
from fleet.models import Pool, Replica
from fleet.rules.message import said, say
from fleet.rules.refusals import Conflict, NeedsReason, Refused
from fleet.selectors.units import shown_state
from fleet.services.trail import Actor, rule_actor, trail_add
from releases.models import Approval, Launch, Release, Rollout
from releases.rules import release as rules
from releases.rules.content import content_problems, content_sha256
from releases.services.approvals import approval_ask, approvals_withdraw, kind_add

TITLE_MAX = 120
REASON_MIN = 3
_SETTLES = rule_actor("release-settle")


class ReleaseRefused(Refused):
    """The release may not do this; `reasons` are sentences for the person who asked."""

    def __init__(self, reasons: list[str]) -> None:
        super().__init__(" ".join(said(reason, _) for reason in reasons))
        self.reasons = reasons


@transaction.atomic
def release_draft(
    *,
    pool: Pool,
    title: str,
    content: dict[str, Any],
    actor: Actor,
    user: Any,
    based_on: Release | None = None,
) -> Release:
    """Begin a draft in a pool, usually from another release's content. Nothing can run from it."""
    release = Release.objects.create(
        pool=pool,
        title=_title(title),
        content=content,
        content_sha256=content_sha256(content),
        is_rehearsal=bool(based_on and based_on.is_rehearsal),
        based_on=based_on,
        author=user,
    )
    after = {"based_on": based_on.public_id if based_on else None}
    _tell(release, "draft", actor, after={**after, "content_sha256": release.content_sha256})
    return release


@transaction.atomic
def release_edit(
    *, release: Release, title: str, content: dict[str, Any], actor: Actor, user: Any
) -> Release:
    """Change what a draft says; saving it unchanged writes nothing. Raises Conflict once it is sealed.

    Whoever changed it last never signs it.
    """
    release = _locked(release)
    if release.state != rules.DRAFT:
        raise Conflict(
            _("%(release)s is sealed: what it pins never changes. Draft a new one from it.")
            % {"release": release.public_id}
        )
    title, sha256 = _title(title), content_sha256(content)
    if (title, sha256) == (release.title, release.content_sha256):
        return release
    before = {"title": release.title, "content_sha256": release.content_sha256}
    Release.objects.filter(pk=release.pk).update(
        title=title,
        content=content,
        content_sha256=sha256,
        last_editor=user,
        version=F("version") + 1,
    )
    release.refresh_from_db()
    _tell(release, "edit", actor, before=before, after={"title": title, "content_sha256": sha256})
    return release


@transaction.atomic
def release_seal(*, release: Release, actor: Actor) -> Release:
    """Seal a draft: from here on it never changes. Raises ReleaseRefused naming all that is not pinned."""
    release = _locked(release)
    if release.state == rules.DRAFT and (reasons := seal_refusals(release)):
        raise ReleaseRefused(reasons)
    _move(release, rules.SEALED, actor, sealed_at=Now())
    return release


def seal_refusals(release: Release) -> list[str]:
    """Say everything that stands against sealing a draft; an empty list means that it can be sealed."""
    problems = [problem.sentence for problem in content_problems(release.content)]
    same = (
        Release.objects.filter(content_sha256=content_sha256(release.content))
        .exclude(state=rules.DRAFT)
        .first()
    )
    if same is None:
        return problems
    equal = say("%(release)s pins exactly the same: use it.", release=same.public_id)
    return [*problems, equal]


@transaction.atomic
def release_review_ask(*, release: Release, actor: Actor, user: Any, reason: str = "") -> Approval:
    """Ask two others to sign a sealed release: not who wrote it, edited it last or asks. Raises Conflict.

    A rehearsal's release needs one, since its lab has one approver; the trail carries the number.
    """
    release = _locked(release)
    if release.state != rules.SEALED:
        raise Conflict(
            _("%(release)s is %(found)s: only a sealed release that nobody reviewed is asked for.")
            % {"release": release.public_id, "found": release.get_state_display().lower()}
        )
    return approval_ask(
        kind=Approval.Kind.RELEASE,
        facts=review_facts(release),
        actor=actor,
        user=user,
        release=release,
        reason=reason,
        needed=signatures_needed(release),
    )


def signatures_needed(release: Release) -> int:
    """Return how many others must sign."""
    return rules.SIGNATURES_OF_REHEARSAL if release.is_rehearsal else rules.SIGNATURES_NEEDED


def review_facts(release: Release) -> dict[str, Any]:
    """Return what a reviewer signs: the hash binds everything else that the release says."""
    model, image = release.content["model"], release.content["image"]
    return {
        "release": release.public_id,
        "pool": release.pool.slug,
        "title": release.title,
        "state": release.state,
        "content_sha256": release.content_sha256,
        "model": f"{model['slug']}@{model['revision']}",
        "image": f"{image['name']}@{image['digest']}",
    }


@transaction.atomic
def release_withdraw(*, release: Release, reason: str, actor: Actor, user: Any) -> Release:
    """Take a release out of use for good: it is launched no more. Units that run it go on until they are replaced.

    Raises NeedsReason, and Conflict for a draft, one that is withdrawn already, or one that a live rollout would
    be taken back to.
    """
    if len(reason.strip()) < REASON_MIN:
        raise NeedsReason(_("Withdrawing a release needs a reason. Write why, then send again."))
    release = _locked(release)
    rollouts = Rollout.objects.filter(state__in=Rollout.LIVE, waves__old_release=release)
    if rollout := rollouts.first():
        raise Conflict(
            _("%(rollout)s may have to go back to %(release)s: end it first.")
            % {"rollout": rollout, "release": release.public_id}
        )
    _move(release, rules.WITHDRAWN, actor, reason=reason)
    approvals_withdraw(release=release, user=user)
    return release


@transaction.atomic
def release_in_service(*, release: Release, actor: Actor) -> Release:
    """Note that a unit serves this release. Repeating it changes nothing, and neither does a release that
    nobody reviewed: it may run, but it is not the pool's.
    """
    release = _locked(release)
    if rules.IN_SERVICE in rules.RELEASE_MOVES[release.state]:
        _move(release, rules.IN_SERVICE, actor)
    return release


def releases_settle() -> int:
    """Put every reviewed release in service of which a unit serves, and take every one out of which no unit is left
    where another one serves; return how many moved.
    """
    newly = [release_in_service(release=one, actor=_SETTLES) for one in _newly_serving()]
    return len(newly) + sum(_supersede(pk) for pk in _left_behind().values_list("pk", flat=True))


def _newly_serving() -> list[Release]:
    """Releases that a unit serves and that are not in service; while a rollout is at work its waves say so.

    Source: RELIABILITY.md section 4 (Release: in service with its first unit serving).
    """
    able = [state for state, onward in rules.RELEASE_MOVES.items() if rules.IN_SERVICE in onward]
    serving = Launch.objects.annotate(shown=shown_state("replica__")).filter(
        state=Launch.State.READY, shown=Replica.State.SERVING, replica__is_canary=False
    )
    rows = Release.objects.defer("content").filter(state__in=able, pk__in=serving.values("release"))
    at_work = Rollout.objects.filter(state__in=Rollout.LIVE)
    return list(rows.exclude(pool__in=at_work.values("pool")).order_by("pk"))


def _left_behind() -> Any:
    live = Launch.objects.filter(state__in=Launch.LIVE)
    in_service = Release.objects.filter(state=rules.IN_SERVICE)
    with_units = in_service.filter(pk__in=live.values("release"))
    return in_service.filter(pool__in=with_units.values("pool")).exclude(
        pk__in=live.values("release")
    )


@transaction.atomic
def _supersede(pk: int) -> bool:
    release = _locked(Release(pk=pk))
    if not _left_behind().filter(pk=pk).exists():
        return False
    _move(release, rules.SUPERSEDED, _SETTLES, reason=say("no unit of it is left"))
    return True


def _locked(release: Release) -> Release:
    rows = Release.objects.select_for_update(of=("self",)).select_related("pool")
    return rows.get(pk=release.pk)


def _title(title: str) -> str:
    title = " ".join(title.split())
    if 1 <= len(title) <= TITLE_MAX:
        return title
    raise Refused(
        _("A release needs a title of 1 to %(max)s characters, found %(found)s.")
        % {"max": TITLE_MAX, "found": len(title)}
    )


def _move(release: Release, to: str, actor: Actor, *, reason: str = "", **changes: Any) -> None:
    """Move a locked release along its table, with the trail and the doorbell. Raises Conflict."""
    before = release.state
    if to not in rules.RELEASE_MOVES[before]:
        raise Conflict(
            _("%(release)s is %(found)s and cannot become %(to)s. Reload the page.")
            % {
                "release": release.public_id,
                "found": said(say(before), _),
                "to": said(say(to), _),
            }
        )
    changes = {"state": to, **changes}
    Release.objects.filter(pk=release.pk).update(**changes, version=F("version") + 1)
    release.refresh_from_db()
    after = {"state": to, "content_sha256": release.content_sha256}
    _tell(release, to, actor, reason=reason, before={"state": before}, after=after)


def _tell(release: Release, verb: str, actor: Actor, **trail: Any) -> None:
    trail_add(
        actor=actor,
        verb=f"release.{verb}",
        object_kind="release",
        object_id=release.public_id,
        **trail,
    )
    ring(release.topic, f"pool-{release.pool.slug}", "fleet")


def _facts_of(approval: Approval) -> dict[str, Any]:
    return review_facts(approval.release)


def _decided(approval: Approval, actor: Actor) -> None:
    if approval.decision == Approval.Decision.APPROVED:
        # The signature itself is told as the person's; what follows from the last one is the rule's.
        rule = rule_actor("release-review")
        _move(_locked(approval.release), rules.REVIEWED, rule, reviewed_at=Now())


kind_add(str(Approval.Kind.RELEASE), _facts_of, _decided)
