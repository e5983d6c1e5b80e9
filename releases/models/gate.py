"""Gate runs: checks of one launch, their rows appended as they come, and the verdict."""

from django.conf import settings
from django.db import models
from django.utils.translation import gettext_lazy as _

from releases.models.launch import Launch
from releases.rules import gates as rules

TOPIC_HEAD = "gate-"


class GateRun(models.Model):
    class State(models.TextChoices):
        QUEUED = rules.QUEUED, _("Queued")
        RUNNING = rules.RUNNING, _("Running")
        PASSED = rules.PASSED, _("Passed")
        FAILED = rules.FAILED, _("Failed")
        INCONCLUSIVE = rules.INCONCLUSIVE, _("Inconclusive")
        ERRORED = rules.ERRORED, _("Errored")
        EXPIRED = rules.EXPIRED, _("Expired")
        CANCELLED = rules.CANCELLED, _("Cancelled")

    launch = models.ForeignKey(Launch, on_delete=models.PROTECT, related_name="gate_runs")
    purpose = models.CharField(max_length=120, unique=True)
    checks = models.JSONField(default=list, help_text="names of the checks it is made of")
    state = models.CharField(max_length=12, choices=State, default=State.QUEUED)
    explanation = models.TextField(blank=True)
    requested_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+"
    )
    created_at = models.DateTimeField(auto_now_add=True)
    state_at = models.DateTimeField(auto_now_add=True)
    deadline_at = models.DateTimeField(null=True)
    ended_at = models.DateTimeField(null=True)
    version = models.PositiveIntegerField(default=1)

    class Meta:
        ordering = ["-id"]
        constraints = [
            models.UniqueConstraint(
                fields=["launch"],
                condition=models.Q(state__in=["queued", "running"]),
                name="one_live_gate_run",
            )
        ]

    def __str__(self) -> str:
        return self.public_id

    @property
    def public_id(self) -> str:
        return f"GR-{self.pk:04d}"

    @property
    def topic(self) -> str:
        return f"{TOPIC_HEAD}{self.public_id}"


class GateRow(models.Model):
    """One result; never changed. A result that comes after the run's end is not added."""

    run = models.ForeignKey(GateRun, on_delete=models.CASCADE, related_name="rows")
    check_name = models.CharField(max_length=16)
    subject = models.CharField(max_length=80, help_text="the prompt, or the rank")
    verdict = models.CharField(max_length=12, help_text="passed, failed, inconclusive")
    expected = models.TextField(blank=True)
    found = models.TextField(blank=True)
    explanation = models.TextField(blank=True)
    latency_ms = models.FloatField(null=True)
    at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["id"]
        constraints = [
            models.UniqueConstraint(fields=["run", "check_name", "subject"], name="gate_row_once")
        ]
