"""How often the fleet is probed by itself. One row; without it the default of the rules holds."""

from django.conf import settings
from django.db import models


class ProbeSchedule(models.Model):
    """`every_s` 0 means never. The row has the key 1, so that there is one."""

    every_s = models.PositiveIntegerField()
    changed_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+"
    )
    changed_at = models.DateTimeField(auto_now=True)
    version = models.PositiveIntegerField(default=1)

    class Meta:
        constraints = [models.CheckConstraint(condition=models.Q(pk=1), name="one_probe_schedule")]

    def __str__(self) -> str:
        return "probe schedule"
