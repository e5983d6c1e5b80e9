"""Imports of an inventory: the file, its dry run, who applied it, and which nodes it no longer names."""

from django.conf import settings
from django.db import models
from django.utils.translation import gettext_lazy as _

from fleet.models.inventory import Node


class InventoryImport(models.Model):
    """One file that was read. Its dry run is what a person saw; applying it repeats and compares."""

    class State(models.TextChoices):
        DRY = "dry", _("Dry run, nothing written")
        APPLIED = "applied", _("Applied")
        DISCARDED = "discarded", _("Discarded")

    file_name = models.CharField(max_length=120)
    text = models.TextField()
    text_sha256 = models.CharField(max_length=64)
    is_whole = models.BooleanField(
        default=True, help_text="nodes of the fleet that it leaves out are missing"
    )
    state = models.CharField(max_length=9, choices=State, default=State.DRY)
    changes = models.JSONField(default=list, help_text="what it would do, in the order of the file")
    missing = models.JSONField(default=list, help_text="nodes that it leaves out")
    fleet_digest = models.CharField(max_length=64, help_text="of the fleet that it was tried on")
    digest = models.CharField(max_length=64, help_text="of all that the dry run showed")
    read_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+"
    )
    read_at = models.DateTimeField(auto_now_add=True)
    ended_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+"
    )
    ended_at = models.DateTimeField(null=True)
    reason = models.TextField(blank=True)

    class Meta:
        ordering = ["-id"]

    def __str__(self) -> str:
        return self.public_id

    @property
    def public_id(self) -> str:
        return f"IMP-{self.pk:04d}"

    @property
    def topic(self) -> str:
        return f"import-{self.public_id}"


class NodeMiss(models.Model):
    """A node that the newest imports no longer name; gone as soon as one names it again."""

    node = models.OneToOneField(
        Node, primary_key=True, on_delete=models.CASCADE, related_name="miss"
    )
    count = models.PositiveIntegerField(default=1, help_text="applied imports, one after the other")
    first_import = models.ForeignKey(
        InventoryImport, on_delete=models.PROTECT, related_name="missed_first"
    )
    last_import = models.ForeignKey(
        InventoryImport, on_delete=models.PROTECT, related_name="missed_last"
    )
    first_at = models.DateTimeField(auto_now_add=True)
    last_at = models.DateTimeField(auto_now=True)

    class Meta:
        ordering = ["node"]
