"""Evidence: bytes frozen before anything is stopped or removed, with their SHA-256."""

from django.db import models


class Evidence(models.Model):
    object_kind = models.CharField(max_length=32, help_text="launch, node")
    object_id = models.CharField(max_length=120, help_text="LN-0007")
    title = models.CharField(max_length=200)
    origin = models.CharField(max_length=200, help_text="node and file, or stream and lines")
    body = models.BinaryField()
    size_bytes = models.BigIntegerField()
    sha256 = models.CharField(max_length=64)
    is_rehearsal = models.BooleanField(default=False)
    sealed_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["id"]
        indexes = [models.Index(fields=["object_kind", "object_id"])]
