"""A run of a book: the book frozen at its start, its steps, and who has it in hand."""

from django.conf import settings
from django.db import models
from django.utils.translation import gettext_lazy as _

from fleet.models import Replica
from runbooks.models.incident import Incident
from runbooks.rules import run as rules


class Run(models.Model):
    class State(models.TextChoices):
        PROPOSED = rules.PROPOSED, _("Proposed")
        RUNNING = rules.RUNNING, _("Running")
        WAITING = rules.WAITING, _("Waits for a person")
        SUCCEEDED = rules.SUCCEEDED, _("Succeeded")
        FAILED = rules.FAILED, _("Failed")
        ABORTED = rules.ABORTED, _("Aborted")

    incident = models.ForeignKey(Incident, null=True, on_delete=models.PROTECT, related_name="runs")
    replica = models.ForeignKey(Replica, null=True, on_delete=models.PROTECT, related_name="runs")
    book_id = models.CharField(max_length=40)
    book_version = models.PositiveIntegerField()
    book_text = models.TextField(help_text="the book as it was when the run was made")
    book_sha256 = models.CharField(max_length=64)
    params = models.JSONField(default=dict)
    state = models.CharField(max_length=16, choices=State, default=State.PROPOSED)
    explanation = models.TextField(blank=True)
    holder = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        null=True,
        on_delete=models.SET_NULL,
        related_name="+",
        help_text="who has it in hand; anybody with the right may take it over",
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
                fields=["incident", "book_id"],
                condition=models.Q(state__in=["proposed", "running", "waiting_human"]),
                name="one_live_run",
            )
        ]

    def __str__(self) -> str:
        return self.public_id

    @property
    def public_id(self) -> str:
        return f"RUN-{self.pk:04d}"

    def part(self, step_id: str) -> "RunStep | None":
        """Return the step whose version a form about it carries: other steps move on under an open page."""
        return self.steps.select_related("run").filter(step_id=step_id).first()

    @property
    def topic(self) -> str:
        return f"run-{self.public_id}"


class RunStep(models.Model):
    class State(models.TextChoices):
        PENDING = rules.PENDING, _("Pending")
        ASKED = rules.ASKED, _("Waits for confirmation")
        AT_WORK = rules.AT_WORK, _("Running")
        PASSED = rules.PASSED, _("Passed")
        FAILED = rules.STEP_FAILED, _("Failed")
        UNKNOWN = rules.UNKNOWN, _("Unknown")
        SKIPPED = rules.SKIPPED, _("Skipped")
        CANCELLED = rules.CANCELLED, _("Cancelled")

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="steps")
    position = models.PositiveIntegerField()
    step_id = models.CharField(max_length=41)
    state = models.CharField(max_length=16, choices=State, default=State.PENDING)
    attempt = models.PositiveIntegerField(default=0)
    explanation = models.TextField(blank=True)
    # What the step found or made, for later steps and the page: {"node": "h100-033", ...}
    facts = models.JSONField(default=dict)
    evidence = models.JSONField(default=list, help_text="ids of fleet.Evidence rows")
    confirmed_by = models.CharField(max_length=120, blank=True)
    started_at = models.DateTimeField(null=True)
    deadline_at = models.DateTimeField(null=True)
    ended_at = models.DateTimeField(null=True)
    version = models.PositiveIntegerField(default=1)

    class Meta:
        ordering = ["run", "position"]
        constraints = [
            models.UniqueConstraint(fields=["run", "position"], name="run_position_once"),
            models.UniqueConstraint(fields=["run", "step_id"], name="run_step_once"),
        ]

    def __str__(self) -> str:
        return self.run.public_id

    @property
    def purpose(self) -> str:
        return f"run:{self.run_id}/{self.step_id}#{self.attempt}"
