"""Traffic: the proxy in front of the pools, what each unit shall get of it, and drains. Desired state lives here."""

from django.db import models
from django.utils.translation import gettext_lazy as _

from fleet.execution.models import Command, Host, Subject
from releases.models.launch import Launch
from releases.rules import gateway as rules

TOPIC_HEAD = "gateway-"


class Gateway(models.Model):
    """A proxy that the console renders, starts and drives. `seen` is its newest whole read-back."""

    name = models.SlugField(max_length=32, unique=True)
    host = models.OneToOneField(Host, on_delete=models.PROTECT, related_name="gateway")
    port = models.PositiveIntegerField(help_text="where clients ask")
    admin_port = models.PositiveIntegerField(help_text="its runtime API, on the host's loopback")
    directory = models.CharField(max_length=200, help_text="of its configuration, relative to home")
    subject = models.OneToOneField(
        Subject, null=True, on_delete=models.PROTECT, related_name="gateway"
    )
    # {"servers": [...], "counts": [...], "shares": {...}} as fleet.readings.haproxy has them, and
    # {"window": [...]}: samples of its endpoints' counts (rules/window.py)
    seen = models.JSONField(default=dict)
    seen_at = models.DateTimeField(null=True)
    differences = models.JSONField(default=list, help_text="sentences; empty when it agrees")
    explanation = models.TextField(blank=True)
    version = models.PositiveIntegerField(default=1)
    serial = models.PositiveIntegerField(default=0, help_text="counts its commands")
    # The newest command of each kind: one of a kind is open at a time.
    files = models.ForeignKey(Command, null=True, on_delete=models.PROTECT, related_name="+")
    start = models.ForeignKey(Command, null=True, on_delete=models.PROTECT, related_name="+")
    order = models.ForeignKey(Command, null=True, on_delete=models.PROTECT, related_name="+")
    files_sha256 = models.CharField(
        max_length=64, blank=True, help_text="of the files on the host, proved; empty: not known"
    )
    frame_sha256 = models.CharField(
        max_length=64, blank=True, help_text="of what only a start changes, as it was last started"
    )

    class Meta:
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name

    @property
    def topic(self) -> str:
        return f"{TOPIC_HEAD}{self.name}"


class Endpoint(models.Model):
    """Rank 0 of a live launch behind a gateway: what it shall get, and what was read back of it."""

    class Mode(models.TextChoices):
        READY = rules.READY, _("Ready")
        DRAIN = rules.DRAIN, _("Draining")
        MAINT = rules.MAINT, _("Closed")

    gateway = models.ForeignKey(Gateway, on_delete=models.PROTECT, related_name="endpoints")
    launch = models.OneToOneField(Launch, on_delete=models.CASCADE, related_name="endpoint")
    slot = models.CharField(max_length=1, help_text="the revision's place in the pool: a or b")
    weight = models.PositiveSmallIntegerField(default=0, help_text="percent of a full unit")
    mode = models.CharField(max_length=5, choices=Mode, default=Mode.READY)
    explanation = models.TextField(blank=True, help_text="why it waits for its first weight")
    changed_at = models.DateTimeField(auto_now_add=True)
    # Read back after `changed_at`; null: not read back since.
    seen_weight = models.PositiveSmallIntegerField(null=True)
    seen_mode = models.CharField(max_length=5, blank=True)
    seen_running = models.PositiveIntegerField(null=True, help_text="requests at work or queued")
    seen_at = models.DateTimeField(null=True)
    # Since the launch was first behind the gateway; kept over restarts of the proxy.
    requests = models.BigIntegerField(default=0)
    errors = models.BigIntegerField(default=0)
    # {"sessions": n, "errors": n} as the running proxy last counted, to add differences from
    counted = models.JSONField(default=dict)

    class Meta:
        ordering = ["launch__replica__name"]


class Drain(models.Model):
    """A unit taken out of traffic with proof, or cut at its deadline with what was cut."""

    class State(models.TextChoices):
        DRAINING = rules.DRAINING, _("Draining")
        CLOSING = rules.CLOSING, _("Closing")
        DRAINED = rules.DRAINED, _("Drained")
        CUT = rules.CUT, _("Cut")
        CANCELLED = rules.CANCELLED, _("Back in traffic")

    launch = models.ForeignKey(Launch, on_delete=models.CASCADE, related_name="drains")
    purpose = models.CharField(max_length=120, unique=True)
    state = models.CharField(max_length=9, choices=State, default=State.DRAINING)
    reason = models.TextField(blank=True)
    explanation = models.TextField(blank=True)
    started_at = models.DateTimeField(auto_now_add=True)
    state_at = models.DateTimeField(auto_now_add=True)
    deadline_at = models.DateTimeField()
    ended_at = models.DateTimeField(null=True)
    cut = models.PositiveIntegerField(
        null=True, help_text="requests that still ran; null: nothing was cut, or not known"
    )
    # {"proxy": n, "engine": n, "at": ISO time} of the read-back that proved it empty
    proof = models.JSONField(default=dict)

    class Meta:
        ordering = ["-id"]
        constraints = [
            models.UniqueConstraint(
                fields=["launch"], condition=models.Q(ended_at=None), name="one_open_drain"
            )
        ]
