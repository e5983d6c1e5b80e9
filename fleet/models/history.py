"""What the fleet remembers: each card by its UUID, where it sat, and facts of nodes that changed."""

from django.db import models

from fleet.execution.models import Command
from fleet.models.inventory import Node


class GpuRecord(models.Model):
    """One card by its UUID; it keeps this record wherever it goes."""

    uuid = models.CharField(max_length=64, unique=True)
    name = models.CharField(max_length=80, blank=True)
    serial = models.CharField(max_length=32, blank=True)
    first_seen_at = models.DateTimeField()
    last_seen_at = models.DateTimeField()

    class Meta:
        ordering = ["uuid"]

    def __str__(self) -> str:
        return self.uuid


class GpuSeat(models.Model):
    """A card at an index of a node, from when it was found there until another place or card was found."""

    record = models.ForeignKey(GpuRecord, on_delete=models.CASCADE, related_name="seats")
    node = models.ForeignKey(Node, on_delete=models.CASCADE, related_name="seats")
    index = models.PositiveIntegerField()
    began_at = models.DateTimeField()
    ended_at = models.DateTimeField(null=True)
    source = models.ForeignKey(Command, null=True, on_delete=models.SET_NULL, related_name="+")

    class Meta:
        ordering = ["-began_at", "-id"]
        constraints = [
            models.UniqueConstraint(
                fields=["record"], condition=models.Q(ended_at=None), name="gpu_in_one_seat"
            ),
            models.UniqueConstraint(
                fields=["node", "index"], condition=models.Q(ended_at=None), name="seat_of_one_gpu"
            ),
        ]


class FactChange(models.Model):
    """A watched fact that a probe found otherwise than the last one that could read it."""

    node = models.ForeignKey(Node, on_delete=models.CASCADE, related_name="fact_changes")
    key = models.CharField(max_length=60)
    before = models.JSONField()
    after = models.JSONField()
    at = models.DateTimeField()
    source = models.ForeignKey(Command, null=True, on_delete=models.SET_NULL, related_name="+")
    section = models.CharField(max_length=40, blank=True)

    class Meta:
        ordering = ["-at", "-id"]
        indexes = [models.Index(fields=["node", "-at"], name="fact_change_of_node")]


class LastFact(models.Model):
    """The last value of a watched fact that could be read, also while the fact itself cannot be now."""

    node = models.ForeignKey(Node, on_delete=models.CASCADE, related_name="+")
    key = models.CharField(max_length=60)
    value = models.JSONField()
    at = models.DateTimeField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["node", "key"], name="last_fact_once")]
