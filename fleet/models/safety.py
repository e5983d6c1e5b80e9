"""What two people or one clear head must decide: a changed host key, and the brake on automatic
actions.
"""

from django.conf import settings
from django.db import models

from fleet.execution.models import Host


class KeyChange(models.Model):
    """A wish to pin another host key: asked by one admin, signed by a second person."""

    host = models.ForeignKey(Host, on_delete=models.CASCADE, related_name="key_changes")
    old_key = models.TextField()
    new_key = models.TextField()
    reason = models.TextField()
    requested_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+"
    )
    requested_at = models.DateTimeField(auto_now_add=True)
    signed_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.PROTECT, related_name="+"
    )
    closed_at = models.DateTimeField(null=True, help_text="signed, or withdrawn when nobody signed")

    class Meta:
        ordering = ["-id"]
        constraints = [
            models.UniqueConstraint(
                fields=["host"], condition=models.Q(closed_at=None), name="one_open_key_change"
            ),
            models.CheckConstraint(
                condition=models.Q(signed_by=None) | ~models.Q(signed_by=models.F("requested_by")),
                name="key_change_two_people",
            ),
        ]


class Brake(models.Model):
    """The mass-change brake: while one is live, no automatic action touches a unit or a node."""

    cause = models.TextField()
    pulled_at = models.DateTimeField(auto_now_add=True)
    cleared_at = models.DateTimeField(null=True)
    cleared_by = models.CharField(max_length=120, blank=True)
    clear_reason = models.TextField(blank=True)

    class Meta:
        ordering = ["-id"]
        constraints = [
            models.UniqueConstraint(
                models.Value(1), condition=models.Q(cleared_at=None), name="one_live_brake"
            )
        ]
