"""Pools, and the service units (replicas) that serve in them."""

from django.db import models
from django.utils.translation import gettext_lazy as _

from fleet.models.inventory import Node


class Pool(models.Model):
    """The units of one model at one service level; the spare pool holds nodes and no units."""

    slug = models.SlugField(max_length=32, unique=True)
    name = models.CharField(max_length=64)
    tone = models.CharField(max_length=4, help_text="colour key of the pages: p51, p52, pds, psp")
    shape = models.CharField(max_length=40, blank=True, help_text="PP2 x TP8")
    unit_nodes = models.PositiveIntegerField(default=1)
    unit_gpus = models.PositiveIntegerField(default=8)
    is_spare = models.BooleanField(default=False)
    spare_floor = models.PositiveIntegerField(
        default=0, help_text="spare pool: nodes no rollout may take"
    )
    promised_units = models.PositiveIntegerField(default=0)
    approvals_needed = models.PositiveIntegerField(default=1)
    position = models.PositiveIntegerField(default=0)
    version = models.PositiveIntegerField(default=1)

    class Meta:
        ordering = ["position", "slug"]

    def __str__(self) -> str:
        return self.name


class Replica(models.Model):
    """A service unit: all ranks of one communicator set. Never a part of it is launched, stopped or
    replaced.
    """

    class State(models.TextChoices):
        PLANNED = "planned", _("Planned")
        RESERVED = "reserved", _("Reserved")
        LAUNCHING = "launching", _("Launching")
        WARMING = "warming", _("Warming up")
        READY = "ready", _("Ready")
        SERVING = "serving", _("Serving")
        DRAINING = "draining", _("Draining")
        STOPPING = "stopping", _("Stopping")
        STOPPED = "stopped", _("Stopped")
        FAILED = "failed", _("Failed")
        LOST = "lost", _("Lost")

    class Doubt(models.TextChoices):
        HELD = "held", _("Held by the brake")
        UNSEEN = "unseen", _("Unconfirmed")
        HUNG = "hung", _("Hung")

    pool = models.ForeignKey(Pool, on_delete=models.PROTECT, related_name="replicas")
    name = models.CharField(max_length=48, unique=True)
    state = models.CharField(max_length=10, choices=State, default=State.PLANNED)
    explanation = models.TextField(blank=True)
    generation = models.PositiveIntegerField(default=0, help_text="of its newest launch")
    is_canary = models.BooleanField(
        default=False, help_text="a rollout's own unit on spares; gone when the rollout is over"
    )
    state_at = models.DateTimeField(auto_now_add=True)
    doubt = models.CharField(
        max_length=6,
        choices=Doubt,
        blank=True,
        help_text="why it does not count as ready though nothing was done to it",
    )
    turned_at = models.DateTimeField(
        null=True, help_text="when it turned bad: its doubt began, or it failed"
    )
    is_reboot_proved = models.BooleanField(
        default=False, help_text="it failed by another boot of its node: no judgement of ours"
    )
    version = models.PositiveIntegerField(default=1)

    class Meta:
        ordering = ["pool", "name"]
        constraints = [
            models.CheckConstraint(
                condition=models.Q(doubt="") | models.Q(state__in=["ready", "serving", "draining"]),
                name="doubt_of_running_units",
            )
        ]

    def __str__(self) -> str:
        return self.name

    @property
    def shown_state(self) -> str:
        """What pages show and count: the doubt where there is one. In queries: selectors/units.py."""
        return self.doubt or self.state


class Member(models.Model):
    """A node of a unit, at its position (stage). One node belongs to one unit at a time."""

    replica = models.ForeignKey(Replica, on_delete=models.CASCADE, related_name="members")
    node = models.ForeignKey(Node, on_delete=models.PROTECT, related_name="memberships")
    position = models.PositiveIntegerField()
    is_reserved = models.BooleanField(default=False, help_text="its GPUs belong to a launch")
    created_at = models.DateTimeField(auto_now_add=True)
    released_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ["replica", "position"]
        constraints = [
            models.UniqueConstraint(
                fields=["node"], condition=models.Q(released_at=None), name="node_in_one_unit"
            ),
            models.UniqueConstraint(
                fields=["replica", "position"],
                condition=models.Q(released_at=None),
                name="position_once",
            ),
        ]
