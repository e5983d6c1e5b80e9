"""A launch: one generation of a unit, from an immutable plan to its proved end."""

from django.conf import settings
from django.db import models
from django.utils.translation import gettext_lazy as _

from fleet.execution.models import Command, Subject
from fleet.models import Node, Replica
from releases.models.release import Release
from releases.rules.launch import ENDED, LAUNCH_MOVES


class Launch(models.Model):
    class State(models.TextChoices):
        CREATED = "created", _("Created")
        PREFLIGHT = "preflight", _("Pre-flight")
        STARTING = "starting", _("Starting")
        LOADING = "loading", _("Loading")
        WARMING = "warming", _("Golden warm-up")
        READY = "ready", _("Ready")
        FREEZING = "freezing", _("Freezing evidence")
        STOPPING = "stopping", _("Stopping all ranks")
        FAILED = "failed", _("Failed")
        STOPPED = "stopped", _("Stopped")

    replica = models.ForeignKey(Replica, on_delete=models.PROTECT, related_name="launches")
    release = models.ForeignKey(Release, on_delete=models.PROTECT, related_name="launches")
    generation = models.PositiveIntegerField()
    # {"positions": [{"position", "node", "argv": [...], "env": {...}, "container", "subject"}],
    #  "master": {"address", "port"}, "http": {"port"}, "world_size", "layout": {...}}
    plan = models.JSONField()
    plan_sha256 = models.CharField(max_length=64)
    state = models.CharField(max_length=10, choices=State, default=State.CREATED)
    explanation = models.TextField(blank=True)
    cause = models.TextField(
        blank=True, help_text="why it is being taken down; empty for a wanted stop"
    )
    first_weight = models.PositiveSmallIntegerField(
        null=True, help_text="traffic once ready, in percent; null: not given yet, its gate says so"
    )
    stop_reason = models.TextField(
        blank=True, help_text="why a person wants it stopped as soon as it is out of traffic"
    )
    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+"
    )
    created_at = models.DateTimeField(auto_now_add=True)
    start_deadline_at = models.DateTimeField(
        null=True, help_text="all ranks started by then, or none"
    )
    ready_at = models.DateTimeField(null=True)
    ended_at = models.DateTimeField(null=True)
    state_at = models.DateTimeField(auto_now_add=True)
    version = models.PositiveIntegerField(default=1)

    LIVE = tuple(state for state in LAUNCH_MOVES if state not in ENDED)

    class Meta:
        ordering = ["-id"]
        constraints = [
            models.UniqueConstraint(
                fields=["replica"],
                condition=~models.Q(state__in=["failed", "stopped"]),
                name="one_live_launch",
            ),
            models.UniqueConstraint(fields=["replica", "generation"], name="generation_once"),
        ]

    def __str__(self) -> str:
        return self.public_id

    @property
    def public_id(self) -> str:
        return f"LN-{self.pk:04d}"

    @property
    def topic(self) -> str:
        return f"launch-{self.public_id}"


class LaunchPosition(models.Model):
    """One node of a launch: its subject on the node and the phase it reached."""

    launch = models.ForeignKey(Launch, on_delete=models.CASCADE, related_name="positions")
    position = models.PositiveIntegerField()
    node = models.ForeignKey(Node, on_delete=models.PROTECT, related_name="+")
    subject = models.OneToOneField(
        Subject, null=True, on_delete=models.PROTECT, related_name="launch_position"
    )
    start = models.OneToOneField(Command, null=True, on_delete=models.PROTECT, related_name="+")
    stop = models.OneToOneField(Command, null=True, on_delete=models.PROTECT, related_name="+")
    phase = models.CharField(max_length=16, blank=True)
    read_to_line = models.BigIntegerField(default=0, help_text="lines the phase reader has seen")
    reader_state = models.JSONField(default=dict, help_text="facts the phase reader found so far")

    class Meta:
        ordering = ["launch", "position"]
        constraints = [
            models.UniqueConstraint(fields=["launch", "position"], name="launch_position_once")
        ]


class LaunchPhase(models.Model):
    """When a position entered and left a phase; the ranks of a node move through it together."""

    position = models.ForeignKey(LaunchPosition, on_delete=models.CASCADE, related_name="phases")
    name = models.CharField(max_length=16)
    started_at = models.DateTimeField()
    ended_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ["started_at", "id"]
        constraints = [models.UniqueConstraint(fields=["position", "name"], name="phase_once")]
