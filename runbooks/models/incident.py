"""An incident: opened once for what a detector saw, moved on by people, with its timeline."""

from django.conf import settings
from django.db import models
from django.utils.translation import gettext_lazy as _

from fleet.models import Pool, Replica
from releases.models import Launch
from runbooks.rules import incident as rules


class Incident(models.Model):
    class State(models.TextChoices):
        OPEN = rules.OPEN, _("Open")
        ACKNOWLEDGED = rules.ACKNOWLEDGED, _("Acknowledged")
        MITIGATING = rules.MITIGATING, _("Being mitigated")
        MITIGATED = rules.MITIGATED, _("Mitigated")
        RESOLVED = rules.RESOLVED, _("Resolved")
        CLOSED = rules.CLOSED, _("Closed")

    signature = models.CharField(max_length=40, help_text="the detector's name: nccl-hang")
    pool = models.ForeignKey(
        Pool,
        null=True,
        on_delete=models.PROTECT,
        related_name="incidents",
        help_text="none for what concerns the whole fleet",
    )
    replica = models.ForeignKey(
        Replica, null=True, on_delete=models.PROTECT, related_name="incidents"
    )
    launch = models.ForeignKey(
        Launch, null=True, on_delete=models.PROTECT, related_name="incidents"
    )
    state = models.CharField(max_length=12, choices=State, default=State.OPEN)
    title = models.TextField()
    # [{"text": sentence, "source": where, "at": ISO time, "signature": of the detector}] of what was seen
    symptoms = models.JSONField(default=list)
    cause = models.TextField(blank=True)
    owner = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+"
    )
    opened_at = models.DateTimeField(auto_now_add=True)
    began_at = models.DateTimeField(help_text="when what it is about began, for the RTO")
    mitigated_at = models.DateTimeField(null=True)
    closed_at = models.DateTimeField(null=True)
    version = models.PositiveIntegerField(default=1)

    class Meta:
        ordering = ["-id"]
        constraints = [
            models.UniqueConstraint(
                fields=["signature", "pool", "replica"],
                condition=~models.Q(state__in=["resolved", "closed"]),
                name="one_open_incident",
                nulls_distinct=False,
            )
        ]

    def __str__(self) -> str:
        return self.public_id

    @property
    def public_id(self) -> str:
        return f"INC-{self.pk:04d}"

    @property
    def topic(self) -> str:
        return f"incident-{self.public_id}"


class IncidentNote(models.Model):
    """One line of the timeline; never changed."""

    incident = models.ForeignKey(Incident, on_delete=models.CASCADE, related_name="notes")
    text = models.TextField()
    actor = models.CharField(max_length=120)
    at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["-id"]
