"""Golden profiles: what a node of a class, or a pair of them, should be like. An edit makes the next version."""

from django.conf import settings
from django.db import models
from django.utils.translation import gettext_lazy as _

from fleet.models.inventory import Node
from fleet.rules import golden as rules

TOPIC_HEAD = "golden-"


class GoldenProfile(models.Model):
    """One version of the profile of a node class. Never edited in place; at most one is current.

    A rehearsal's profiles (origin lab) are a line of their own: they never judge real nodes, nor real ones the lab.
    """

    class Kind(models.TextChoices):
        NODE = "node", _("Node")
        PAIR = "pair", _("Pair")

    name = models.CharField(max_length=80)
    node_class = models.CharField(max_length=40)
    kind = models.CharField(max_length=4, choices=Kind, default=Kind.NODE)
    version = models.PositiveIntegerField(default=1)
    is_current = models.BooleanField(default=False)
    taken_from = models.ForeignKey(Node, null=True, on_delete=models.SET_NULL, related_name="+")
    origin = models.CharField(
        max_length=8, default="real", choices=[("real", "real"), ("lab", "lab")]
    )
    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+"
    )
    created_at = models.DateTimeField(auto_now_add=True)
    note = models.TextField(blank=True, help_text="why this version was made")

    class Meta:
        ordering = ["node_class", "kind", "origin", "-version"]
        constraints = [
            models.UniqueConstraint(
                fields=["node_class", "kind", "origin", "version"], name="golden_version_once"
            ),
            models.UniqueConstraint(
                fields=["node_class", "kind", "origin"],
                condition=models.Q(is_current=True),
                name="golden_one_current",
            ),
        ]

    def __str__(self) -> str:
        return self.public_id

    @property
    def public_id(self) -> str:
        return f"GP-{self.pk:04d}"

    @property
    def topic(self) -> str:
        return f"{TOPIC_HEAD}{self.public_id}"


class GoldenKey(models.Model):
    """One fact of a profile and how a node's reading of it is compared."""

    class Tolerance(models.TextChoices):
        EQUAL = rules.EQUAL, _("Equal")
        RATIO = rules.RATIO, _("At least a ratio")
        RANGE = rules.RANGE, _("Within a range")
        IGNORE = rules.IGNORE, _("Ignored")

    profile = models.ForeignKey(GoldenProfile, on_delete=models.CASCADE, related_name="keys")
    key = models.CharField(max_length=60)
    value = models.JSONField()
    unit = models.CharField(max_length=16, blank=True)
    tolerance = models.CharField(max_length=6, choices=Tolerance)
    ratio = models.FloatField(null=True)
    low = models.FloatField(null=True)
    high = models.FloatField(null=True)

    class Meta:
        ordering = ["profile", "key"]
        constraints = [
            models.UniqueConstraint(fields=["profile", "key"], name="golden_key_once"),
            models.CheckConstraint(
                condition=~models.Q(tolerance="ratio")
                | models.Q(ratio__isnull=False, ratio__gt=0, ratio__lte=1),
                name="golden_ratio_named",
            ),
            models.CheckConstraint(
                condition=~models.Q(tolerance="range")
                | models.Q(low__isnull=False)
                | models.Q(high__isnull=False),
                name="golden_range_named",
            ),
        ]

    def __str__(self) -> str:
        return self.key

    def wanted(self) -> rules.Wanted:
        """Return the key as the comparison takes it."""
        return rules.Wanted(self.key, self.value, self.tolerance, self.ratio, self.low, self.high)
