"""Rollouts: a pool taken to another release, unit by unit, each step behind its approval."""

from django.conf import settings
from django.db import models
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from fleet.models import Pool, Replica
from releases.models.release import Release
from releases.rules import rollout as rules
from releases.rules import waves as wave_rules


class Rollout(models.Model):
    class State(models.TextChoices):
        DRAFT = rules.DRAFT, _("Draft")
        SUBMITTED = rules.SUBMITTED, _("Waits for approval")
        APPROVED = rules.APPROVED, _("Approved")
        RUNNING = rules.RUNNING, _("Running")
        PAUSED = rules.PAUSED, _("Paused")
        ROLLING_BACK = rules.ROLLING_BACK, _("Rolling back")
        ROLLED_BACK = rules.ROLLED_BACK, _("Rolled back")
        ROLLBACK_FAILED = rules.ROLLBACK_FAILED, _("Rollback failed")
        SUCCEEDED = rules.SUCCEEDED, _("Succeeded")
        CANCELLED = rules.CANCELLED, _("Cancelled")

    LIVE = (rules.RUNNING, rules.PAUSED, rules.ROLLING_BACK, rules.ROLLBACK_FAILED)

    pool = models.ForeignKey(Pool, on_delete=models.PROTECT, related_name="rollouts")
    new_release = models.ForeignKey(Release, on_delete=models.PROTECT, related_name="rollouts")
    strategy = models.JSONField(help_text="as releases.rules.waves.Strategy reads it")
    reason = models.TextField()
    state = models.CharField(max_length=16, choices=State, default=State.DRAFT)
    explanation = models.TextField(blank=True)
    fired = models.TextField(blank=True, help_text="the trigger that halted it, until resumed")
    # [{"name", "state", "found", "limit"}] of the newest tick
    triggers = models.JSONField(default=list)
    # [{"at": ISO time, "counts": {launch id: [requests, errors]}}] of the error window, oldest first
    counted = models.JSONField(default=list)
    author = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+")
    last_editor = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        null=True,
        on_delete=models.PROTECT,
        related_name="+",
        help_text="who last had its units read into waves; none but its author did when empty",
    )
    created_at = models.DateTimeField(auto_now_add=True)
    state_at = models.DateTimeField(auto_now_add=True)
    started_at = models.DateTimeField(null=True)
    ended_at = models.DateTimeField(null=True)
    version = models.PositiveIntegerField(default=1)

    class Meta:
        ordering = ["-id"]
        constraints = [
            models.UniqueConstraint(
                fields=["pool"],
                condition=models.Q(
                    state__in=["running", "paused", "rolling_back", "rollback_failed"]
                ),
                name="one_live_rollout",
            )
        ]

    def __str__(self) -> str:
        return self.public_id

    @property
    def public_id(self) -> str:
        return f"RO-{self.pk:04d}"

    @property
    def topic(self) -> str:
        return f"rollout-{self.public_id}"


class Wave(models.Model):
    """One unit of a rollout. A canary is a unit of its own on spares, made when its wave begins."""

    class State(models.TextChoices):
        PENDING = wave_rules.PENDING, _("Pending")
        AWAITING = wave_rules.AWAITING, _("Waits for approval")
        DRAINING = wave_rules.DRAINING, _("Draining")
        REPLACING = wave_rules.REPLACING, _("Replacing")
        WARMING = wave_rules.WARMING, _("Warming up")
        SHIFTING = wave_rules.SHIFTING, _("Shifting traffic")
        OBSERVING = wave_rules.OBSERVING, _("Observing")
        PASSED = wave_rules.PASSED, _("Passed")
        FAILED = wave_rules.FAILED, _("Failed")
        UNDONE = wave_rules.UNDONE, _("Rolled back")
        SKIPPED = wave_rules.SKIPPED, _("Skipped")
        RETIRED = wave_rules.RETIRED, _("Retired")

    rollout = models.ForeignKey(Rollout, on_delete=models.CASCADE, related_name="waves")
    number = models.PositiveIntegerField(help_text="0 is the canary")
    replica = models.ForeignKey(Replica, null=True, on_delete=models.PROTECT, related_name="waves")
    is_canary = models.BooleanField(default=False)
    old_release = models.ForeignKey(Release, null=True, on_delete=models.PROTECT, related_name="+")
    state = models.CharField(max_length=20, choices=State, default=State.PENDING)
    step = models.PositiveSmallIntegerField(default=0, help_text="weights reached and observed")
    explanation = models.TextField(blank=True)
    state_at = models.DateTimeField(auto_now_add=True)
    observing_since = models.DateTimeField(null=True)
    requests_at_since = models.BigIntegerField(
        default=0, help_text="requests of the unit's endpoint when observing began"
    )

    class Meta:
        ordering = ["rollout", "number"]
        constraints = [
            models.UniqueConstraint(fields=["rollout", "number"], name="wave_number_once"),
            models.UniqueConstraint(fields=["rollout", "replica"], name="wave_unit_once"),
        ]

    @property
    def purpose(self) -> str:
        return f"rollout:{self.rollout_id}/wave:{self.number}"


class Approval(models.Model):
    """A request to sign what was shown, and the answer. Valid for exactly the facts of its digest."""

    class Kind(models.TextChoices):
        ROLLOUT = "rollout", _("Start of the rollout")
        WAVE = "wave", _("Wave")
        RESUME = "resume", _("Going on after a trigger")
        RELEASE = "release", _("Review of a release")

    class Decision(models.TextChoices):
        APPROVED = "approved", _("Approved")
        DENIED = "denied", _("Denied")
        WITHDRAWN = "withdrawn", _("Withdrawn")

    kind = models.CharField(max_length=8, choices=Kind)
    rollout = models.ForeignKey(
        Rollout, null=True, on_delete=models.CASCADE, related_name="approvals"
    )
    wave = models.ForeignKey(Wave, null=True, on_delete=models.CASCADE, related_name="approvals")
    release = models.ForeignKey(
        Release, null=True, on_delete=models.CASCADE, related_name="approvals"
    )
    facts = models.JSONField(help_text="what the card shows")
    facts_digest = models.CharField(max_length=64)
    asked_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+"
    )
    ask_reason = models.TextField(blank=True)
    needed = models.PositiveSmallIntegerField(
        default=1, help_text="signatures of other people; 0: nobody else is asked"
    )
    asked_at = models.DateTimeField(auto_now_add=True)
    expires_at = models.DateTimeField()
    decision = models.CharField(max_length=9, choices=Decision, blank=True)
    decided_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.PROTECT, related_name="+"
    )
    decided_at = models.DateTimeField(null=True)
    reason = models.TextField(blank=True)

    class Meta:
        ordering = ["-id"]
        constraints = [
            models.CheckConstraint(
                condition=models.Q(decision="withdrawn")
                | models.Q(decided_by=None)
                | ~models.Q(decided_by=models.F("asked_by")),
                name="approval_two_people",
            )
        ]

    def __str__(self) -> str:
        return self.public_id

    @property
    def public_id(self) -> str:
        return f"AP-{self.pk:04d}"

    @property
    def is_open(self) -> bool:
        """Whether it can still be answered: after its time nobody may, and it is asked anew."""
        return not self.decision and self.expires_at > timezone.now()


class Signature(models.Model):
    """One person's yes to an approval; never changed."""

    approval = models.ForeignKey(Approval, on_delete=models.CASCADE, related_name="signatures")
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+")
    reason = models.TextField(blank=True)
    at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["id"]
        constraints = [
            models.UniqueConstraint(fields=["approval", "user"], name="signed_once_by_each")
        ]
