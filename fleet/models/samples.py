"""Readings of cards over time: a short history of each node, bounded by its number of probes."""

from django.db import models

from fleet.models.inventory import Node


class CardSample(models.Model):
    """Clock and temperature of all cards of a node at one probe, by card index; null means no reading, never 0."""

    node = models.ForeignKey(Node, on_delete=models.CASCADE, related_name="card_samples")
    at = models.DateTimeField()
    sm_clock_mhz = models.JSONField(default=list)
    temperature_c = models.JSONField(default=list)

    class Meta:
        ordering = ["node", "at"]
        constraints = [models.UniqueConstraint(fields=["node", "at"], name="card_sample_once")]
