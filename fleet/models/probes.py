"""A probe: one request over one, some or all nodes, and its row for each node."""

from django.conf import settings
from django.db import models

from fleet.execution.models import Command
from fleet.models.inventory import Node


class ProbeRun(models.Model):
    requested_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+"
    )
    scope = models.CharField(max_length=200, help_text="all, or the names of the nodes")
    created_at = models.DateTimeField(auto_now_add=True)
    ended_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ["-id"]


class NodeProbe(models.Model):
    """Verdict of the probe of one node: compared with its class's counts only; acceptance proper
    comes later.
    """

    run = models.ForeignKey(ProbeRun, on_delete=models.CASCADE, related_name="nodes")
    node = models.ForeignKey(Node, on_delete=models.CASCADE, related_name="probes")
    command = models.OneToOneField(Command, on_delete=models.PROTECT, related_name="node_probe")
    verdict = models.CharField(max_length=8, blank=True, help_text="pass, fail, unknown")
    summary = models.TextField(blank=True)
    findings = models.JSONField(default=list)
    settled_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ["-id"]
        constraints = [models.UniqueConstraint(fields=["run", "node"], name="probe_node_once")]
