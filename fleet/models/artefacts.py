"""Weights as the fleet knows them: a revision with its manifest, who holds it, and how it is spread."""

from django.conf import settings
from django.db import models
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from fleet.execution.models import Subject
from fleet.models.inventory import Node


class WeightsArtefact(models.Model):
    """A model revision with its shard manifest. The manifest of a ready artefact never changes."""

    class State(models.TextChoices):
        MAKING = "making", _("Being read")
        READY = "ready", _("Manifest known")
        FAILED = "failed", _("Not readable")

    model = models.CharField(max_length=80, help_text="directory below the model root")
    revision = models.CharField(max_length=40, help_text="40 hex digits")
    manifest = models.JSONField(
        default=list, help_text="[{name, size, sha256, nominal_size}], sizes in bytes"
    )
    manifest_sha256 = models.CharField(max_length=64, blank=True)
    total_bytes = models.BigIntegerField(default=0)
    tokenizer_sha256 = models.CharField(max_length=64, blank=True)
    template_sha256 = models.CharField(max_length=64, blank=True)
    generation_config_sha256 = models.CharField(max_length=64, blank=True)
    origin = models.CharField(max_length=200, help_text="where the manifest came from")
    store_address = models.CharField(
        max_length=64,
        blank=True,
        help_text="an rsync daemon that serves MODEL/REVISION below `models`",
    )
    store_port = models.PositiveIntegerField(default=8730)
    state = models.CharField(max_length=8, choices=State, default=State.MAKING)
    explanation = models.TextField(blank=True)
    seed_node = models.ForeignKey(Node, null=True, on_delete=models.PROTECT, related_name="+")
    subject = models.ForeignKey(
        Subject, null=True, on_delete=models.PROTECT, related_name="+", help_text="reads the seed"
    )
    attempt = models.PositiveIntegerField(default=0)
    requested_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+"
    )
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["-id"]
        constraints = [
            models.UniqueConstraint(fields=["model", "revision"], name="artefact_revision_once")
        ]

    def __str__(self) -> str:
        return self.public_id

    @property
    def public_id(self) -> str:
        return f"WA-{self.pk:04d}"

    @property
    def topic(self) -> str:
        return f"weights-{self.public_id}"


class Distribution(models.Model):
    """One order to bring a revision to nodes, with its limits."""

    class State(models.TextChoices):
        RUNNING = "running", _("Copying")
        PAUSED = "paused", _("Paused")
        DONE = "done", _("Verified everywhere")
        FAILED = "failed", _("Ended with failures")
        CANCELLED = "cancelled", _("Cancelled")

    artefact = models.ForeignKey(
        WeightsArtefact, on_delete=models.PROTECT, related_name="distributions"
    )
    state = models.CharField(max_length=9, choices=State, default=State.RUNNING)
    explanation = models.TextField(blank=True)
    limits = models.JSONField(default=dict, help_text="fields of rules/fanout.Limits")
    reason = models.TextField(blank=True)
    requested_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+"
    )
    created_at = models.DateTimeField(auto_now_add=True)
    ended_at = models.DateTimeField(null=True)
    version = models.PositiveIntegerField(default=1)

    class Meta:
        ordering = ["-id"]
        constraints = [
            models.UniqueConstraint(
                fields=["artefact"],
                condition=models.Q(state__in=["running", "paused"]),
                name="one_live_distribution",
            )
        ]

    def __str__(self) -> str:
        return self.public_id

    @property
    def public_id(self) -> str:
        return f"DIST-{self.pk:04d}"


class Holding(models.Model):
    """A revision on one node: what is known of it, and the copy or check that is under way."""

    class State(models.TextChoices):
        WANTED = "wanted", _("Waiting")
        VERIFYING = "verifying", _("Verifying")
        COPYING = "copying", _("Copying")
        PAUSED = "paused", _("Paused")
        READY = "ready", _("Ready")
        FAILED = "failed", _("Failed")
        CANCELLED = "cancelled", _("Cancelled")

    node = models.ForeignKey(Node, on_delete=models.CASCADE, related_name="holdings")
    artefact = models.ForeignKey(WeightsArtefact, on_delete=models.PROTECT, related_name="holdings")
    distribution = models.ForeignKey(
        Distribution, null=True, on_delete=models.SET_NULL, related_name="holdings"
    )
    state = models.CharField(max_length=9, choices=State, default=State.WANTED)
    explanation = models.TextField(blank=True)
    # null: never checked, so nothing is known; [] after a check: every file is as the manifest says
    needs = models.JSONField(null=True, help_text="names of files to be copied")
    findings = models.JSONField(default=list, help_text="[{name, kind, text}] of the last check")
    attempt = models.PositiveIntegerField(default=0, help_text="numbers its processes on the nodes")
    copies = models.PositiveIntegerField(default=0, help_text="since it was last asked for")
    readings = models.PositiveIntegerField(default=0, help_text="of its bytes, so far")
    is_check_only = models.BooleanField(
        default=False, help_text="a person asked for the check: what it finds is told, not healed"
    )
    parent = models.ForeignKey(Node, null=True, on_delete=models.PROTECT, related_name="+")
    port = models.PositiveIntegerField(null=True, help_text="of the parent's daemon")
    serve = models.ForeignKey(Subject, null=True, on_delete=models.PROTECT, related_name="+")
    pull = models.ForeignKey(Subject, null=True, on_delete=models.PROTECT, related_name="+")
    check_run = models.ForeignKey(Subject, null=True, on_delete=models.PROTECT, related_name="+")
    stop_for = models.CharField(
        max_length=9, blank=True, help_text="the state it goes to once its process is gone"
    )
    bytes_done = models.BigIntegerField(
        null=True, help_text="found on its disk by the last reading"
    )
    bytes_per_s = models.FloatField(null=True)
    file_now = models.CharField(
        max_length=300, blank=True, help_text="being written at the last reading"
    )
    read_at = models.DateTimeField(null=True)
    state_at = models.DateTimeField(default=timezone.now)
    verified_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ["node"]
        constraints = [
            models.UniqueConstraint(fields=["node", "artefact"], name="holding_once"),
        ]
        indexes = [
            models.Index(
                fields=["artefact"],
                name="holding_open",
                condition=models.Q(state__in=["wanted", "verifying", "copying", "paused"]),
            )
        ]

    def __str__(self) -> str:
        return f"{self.artefact_id}/{self.node_id}"
