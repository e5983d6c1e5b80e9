"""Nodes, where they hang, what is known of them, and who holds them."""

from django.conf import settings
from django.db import models
from django.utils.translation import gettext_lazy as _

from fleet.execution.models import Command, Host


class Leaf(models.Model):
    """A leaf switch: a fault domain of its nodes."""

    number = models.PositiveIntegerField(unique=True)

    class Meta:
        ordering = ["number"]

    def __str__(self) -> str:
        return f"leaf {self.number}"


class Rack(models.Model):
    name = models.CharField(max_length=32, unique=True)
    leaf = models.ForeignKey(Leaf, on_delete=models.PROTECT, related_name="racks")

    class Meta:
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name


class NodeManager(models.Manager):
    def get_queryset(self) -> models.QuerySet:
        return super().get_queryset().select_related("host", "rack__leaf")


class Node(models.Model):
    """A machine with GPUs. Its name, address and key are its host's."""

    class State(models.TextChoices):
        REGISTERED = "registered", _("Registered")
        PROBING = "probing", _("Probing")
        ACCEPTANCE = "acceptance", _("In acceptance")
        READY = "ready", _("Ready")
        QUARANTINED = "quarantined", _("Quarantined")
        RETIRED = "retired", _("Retired")

    host = models.OneToOneField(
        Host, primary_key=True, on_delete=models.PROTECT, related_name="node"
    )
    rack = models.ForeignKey(Rack, on_delete=models.PROTECT, related_name="nodes")
    node_class = models.CharField(max_length=40)
    model_root = models.CharField(max_length=200, default="/models")
    gpu_count = models.PositiveIntegerField(default=8, help_text="what its class has")
    origin = models.CharField(
        max_length=8, default="real", choices=[("real", "real"), ("lab", "lab")]
    )
    state = models.CharField(max_length=12, choices=State, default=State.REGISTERED)
    explanation = models.TextField(blank=True)
    probed_at = models.DateTimeField(null=True)
    version = models.PositiveIntegerField(default=1)

    objects = NodeManager()

    class Meta:
        ordering = ["host__name"]

    def __str__(self) -> str:
        return self.host.name

    @property
    def name(self) -> str:
        return self.host.name


class Gpu(models.Model):
    """One card as the last probe found it; null means no reading, never 0."""

    node = models.ForeignKey(Node, on_delete=models.CASCADE, related_name="gpus")
    index = models.PositiveIntegerField()
    uuid = models.CharField(max_length=64, blank=True)
    name = models.CharField(max_length=80, blank=True)
    bus = models.CharField(max_length=24, blank=True)
    serial = models.CharField(max_length=32, blank=True)
    numa = models.IntegerField(null=True)
    nic = models.CharField(max_length=16, blank=True, help_text="NIC on the same PCIe switch")
    memory_total_mib = models.FloatField(null=True)
    memory_used_mib = models.FloatField(null=True)
    sm_clock_mhz = models.FloatField(null=True)
    temperature_c = models.FloatField(null=True)
    power_w = models.FloatField(null=True)
    pstate = models.CharField(max_length=8, blank=True)
    ecc_uncorrected = models.FloatField(null=True)
    utilization_pct = models.FloatField(null=True)
    throttle_reasons = models.CharField(max_length=24, blank=True)
    health = models.CharField(
        max_length=12, default="unknown", help_text="ok, attention, failed, unknown"
    )
    explanation = models.TextField(blank=True)
    observed_at = models.DateTimeField(null=True)
    source = models.ForeignKey(Command, null=True, on_delete=models.SET_NULL, related_name="+")

    class Meta:
        ordering = ["node", "index"]
        constraints = [models.UniqueConstraint(fields=["node", "index"], name="gpu_index_once")]


class Fact(models.Model):
    """A parsed fact with its source, its time and its expiry. An expired fact is shown as unknown
    with its age.
    """

    node = models.ForeignKey(Node, on_delete=models.CASCADE, related_name="facts")
    key = models.CharField(max_length=60, help_text="driver_version, shm_total, topo ...")
    value = models.JSONField(null=True)
    unit = models.CharField(max_length=16, blank=True)
    problem = models.TextField(blank=True, help_text="why there is no value")
    observed_at = models.DateTimeField()
    expires_at = models.DateTimeField()
    source = models.ForeignKey(Command, null=True, on_delete=models.SET_NULL, related_name="+")
    section = models.CharField(
        max_length=40, blank=True, help_text="section of the source's raw output"
    )

    class Meta:
        ordering = ["key"]
        constraints = [models.UniqueConstraint(fields=["node", "key"], name="fact_key_once")]


class Hold(models.Model):
    """A reason not to place anything on a node. A node is placeable only when no live hold is left."""

    class Kind(models.TextChoices):
        CORDON = "cordon", _("Cordon")
        DRAIN = "drain", _("Drain")
        MAINTENANCE = "maintenance", _("Maintenance")

    node = models.ForeignKey(Node, on_delete=models.CASCADE, related_name="holds")
    kind = models.CharField(max_length=12, choices=Kind)
    owner = models.CharField(max_length=80, help_text="user:ana, acceptance, host-key ...")
    reason = models.TextField()
    created_at = models.DateTimeField(auto_now_add=True)
    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+"
    )
    expires_at = models.DateTimeField(null=True)
    lifted_at = models.DateTimeField(null=True)
    lifted_by = models.CharField(max_length=80, blank=True)
    lift_reason = models.TextField(blank=True)

    class Meta:
        ordering = ["created_at"]
        indexes = [
            models.Index(fields=["node"], name="hold_live", condition=models.Q(lifted_at=None))
        ]
