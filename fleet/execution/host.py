"""Where commands go: an SSH address with a pinned key, and the leases of processes that must be
alone.
"""

from django.db import models


class Host(models.Model):
    """An SSH endpoint. Reachability is written by the watch; the key is pinned by a person."""

    class Key(models.TextChoices):
        UNSET = "unset"
        PINNED = "pinned"
        CHANGED = "changed"  # blocks every connection until re-pinned

    class Reach(models.TextChoices):
        UNKNOWN = "unknown"
        OK = "ok"
        SUSPECT = "suspect"  # 3 misses (15 s)
        UNREACHABLE = "unreachable"  # 60 s

    name = models.CharField(max_length=64, unique=True)
    address = models.CharField(max_length=64, help_text="IP address, resolved once at import")
    port = models.PositiveIntegerField(default=22)
    user = models.CharField(max_length=32)
    host_key = models.TextField(blank=True, help_text="pinned: 'type base64'")
    offered_key = models.TextField(blank=True, help_text="seen and not accepted yet")
    key_state = models.CharField(max_length=8, choices=Key, default=Key.UNSET)
    reach = models.CharField(max_length=12, choices=Reach, default=Reach.UNKNOWN)
    misses = models.PositiveIntegerField(default=0)
    seen_at = models.DateTimeField(null=True, help_text="last answer of the node")
    missed_since = models.DateTimeField(null=True)
    boot_id = models.CharField(max_length=40, blank=True)
    explanation = models.TextField(blank=True)

    class Meta:
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name


class Lease(models.Model):
    """One holder of a role that must be held once (the watch, beat). Times are the database's."""

    name = models.CharField(max_length=40, primary_key=True)
    owner = models.CharField(max_length=120)
    until = models.DateTimeField()
    fence = models.BigIntegerField()
    beaten_at = models.DateTimeField()
