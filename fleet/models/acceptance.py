"""Node acceptance: one request over many nodes, and for each node its checks, its verdict and how long that holds."""

from django.conf import settings
from django.db import models
from django.utils.translation import gettext_lazy as _

from fleet.execution.models import Command
from fleet.models.inventory import Node
from fleet.models.probes import NodeProbe
from fleet.rules import acceptance as rules

TOPIC_HEAD = "acceptance-"


class AcceptanceRun(models.Model):
    """A request to accept some or all nodes."""

    requested_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+"
    )
    scope = models.CharField(max_length=200, help_text="all, or the names of the nodes")
    created_at = models.DateTimeField(auto_now_add=True)
    deadline_at = models.DateTimeField(help_text="what is not measured by then stays unmeasured")
    ended_at = models.DateTimeField(null=True)
    cancelled_by = models.CharField(max_length=80, blank=True)
    cancel_reason = models.TextField(blank=True)

    class Meta:
        ordering = ["-id"]

    def __str__(self) -> str:
        return self.public_id

    @property
    def public_id(self) -> str:
        return f"AC-{self.pk:04d}"

    @property
    def topic(self) -> str:
        return f"{TOPIC_HEAD}{self.public_id}"


class NodeAcceptance(models.Model):
    """The acceptance of one node. Its steps are commands: a probe, a look at image and limits, and two that last."""

    class Verdict(models.TextChoices):
        ACCEPTED = rules.ACCEPTED, _("Accepted")
        MARGINAL = rules.MARGINAL, _("Marginal")
        REJECTED = rules.REJECTED, _("Rejected")
        NOT_MEASURED = rules.NOT_MEASURED, _("Not measured")

    run = models.ForeignKey(AcceptanceRun, on_delete=models.CASCADE, related_name="nodes")
    node = models.ForeignKey(Node, on_delete=models.CASCADE, related_name="acceptances")
    probe = models.ForeignKey(
        NodeProbe, null=True, on_delete=models.PROTECT, related_name="acceptances"
    )
    look = models.ForeignKey(Command, null=True, on_delete=models.PROTECT, related_name="+")
    allreduce = models.ForeignKey(Command, null=True, on_delete=models.PROTECT, related_name="+")
    disk_read = models.ForeignKey(Command, null=True, on_delete=models.PROTECT, related_name="+")
    pins = models.JSONField(default=list, help_text="releases whose matrix it must meet")
    skipped = models.TextField(blank=True, help_text="why all_reduce was not run")
    verdict = models.CharField(max_length=12, choices=Verdict, blank=True)
    summary = models.TextField(blank=True)
    checks = models.JSONField(default=list)
    profile = models.CharField(max_length=16, blank=True, help_text="golden profile, GP-0001")
    boot_id = models.CharField(max_length=40, blank=True)
    driver = models.CharField(max_length=40, blank=True)
    identity = models.JSONField(default=dict, help_text="what the node must stay to stay accepted")
    compared_at = models.DateTimeField(
        null=True, help_text="up to when its node's facts were compared with the identity"
    )
    valid_until = models.DateTimeField(null=True)
    voided_at = models.DateTimeField(null=True)
    voided_why = models.TextField(blank=True)
    is_standing = models.BooleanField(
        default=False, help_text="the newest that says what the node is; one a node"
    )
    settled_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ["-id"]
        constraints = [
            models.UniqueConstraint(fields=["run", "node"], name="acceptance_node_once"),
            models.UniqueConstraint(
                fields=["node"],
                condition=models.Q(settled_at=None),
                name="acceptance_one_open_a_node",
            ),
            models.UniqueConstraint(
                fields=["node"],
                condition=models.Q(is_standing=True),
                name="acceptance_one_standing_a_node",
            ),
            models.CheckConstraint(
                condition=models.Q(settled_at=None, verdict="")
                | (models.Q(settled_at__isnull=False) & ~models.Q(verdict="")),
                name="acceptance_settled_by_a_verdict",
            ),
        ]

    @property
    def is_valid(self) -> bool:
        """Whether the node counts as accepted by it now; the tick notes what ended it."""
        return self.is_standing and self.verdict == rules.ACCEPTED and self.voided_at is None
