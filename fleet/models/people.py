"""What people may do, and which of their requests were answered already."""

from django.conf import settings
from django.db import models

from fleet.models.pools import Pool


class RoleGrant(models.Model):
    """A role of a person, global (no pool) or for one pool. Roles are sets of permissions, not an
    order.
    """

    ROLES = [(role, role) for role in ("viewer", "operator", "approver", "admin")]

    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="role_grants"
    )
    role = models.CharField(max_length=10, choices=ROLES)
    pool = models.ForeignKey(Pool, null=True, on_delete=models.CASCADE, related_name="+")

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["user", "role", "pool"], name="grant_once", nulls_distinct=False
            )
        ]


class Answered(models.Model):
    """The answer to a POST by its idempotency key: a double click or a second browser gets the same
    one.
    """

    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    key = models.UUIDField()
    path = models.CharField(max_length=300)
    status = models.PositiveIntegerField(null=True, help_text="null while the first one runs")
    headers = models.JSONField(default=dict)
    body = models.BinaryField(default=b"")
    at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["user", "key"], name="answered_once")]
