"""The trail: who did what, when, why. Append-only; a database trigger forbids update and delete."""

from django.db import models


class TrailEntry(models.Model):
    at = models.DateTimeField(auto_now_add=True)
    actor = models.CharField(max_length=120, help_text="ana, or rule:lost-rank")
    verb = models.CharField(max_length=60, help_text="replica.launch, hold.add ...")
    object_kind = models.CharField(max_length=32)
    object_id = models.CharField(max_length=120)
    reason = models.TextField(blank=True)
    before = models.JSONField(null=True)
    after = models.JSONField(null=True)
    source = models.CharField(max_length=16, help_text="web, rule, command, api")
    address = models.CharField(max_length=64, blank=True)
    request_id = models.CharField(max_length=40, blank=True)
    outcome = models.CharField(max_length=8, default="done", help_text="done, refused")

    class Meta:
        ordering = ["-id"]
        indexes = [
            models.Index(fields=["object_kind", "object_id"]),
            models.Index(fields=["actor"]),
        ]


class TrailSeal(models.Model):
    """HMAC chain over committed entries, written in batches by a tick, never in the writer's
    transaction.
    """

    entry = models.OneToOneField(
        TrailEntry, primary_key=True, on_delete=models.PROTECT, related_name="seal"
    )
    position = models.BigIntegerField(unique=True, help_text="1, 2, 3 ... in the chain")
    mac = models.CharField(max_length=64)
    sealed_at = models.DateTimeField(auto_now_add=True)


class Tick(models.Model):
    """When each conductor tick last ran; the 'conductor stalled' banner reads it."""

    # Due every few seconds. Sealing is not among them: once an hour it looks at the whole trail.
    OFTEN = (
        "sweep", "probes", "schedule", "holds", "reach", "launches", "gates", "drains", "gateways", "rollouts",
    )  # fmt: skip

    name = models.CharField(max_length=40, primary_key=True)
    at = models.DateTimeField()
