"""What lives on a node and is owned by no row: recorded, shown, and stopped only when somebody decides."""

from django.db import models

from fleet.execution.host import Host


class Orphan(models.Model):
    """A living subject or container that the database does not own. Open until the node shows it no more."""

    class Kind(models.TextChoices):
        SUBJECT = "subject"
        CONTAINER = "container"

    host = models.ForeignKey(Host, on_delete=models.CASCADE, related_name="orphans")
    kind = models.CharField(max_length=10, choices=Kind)
    name = models.CharField(max_length=120, help_text="subject name, or container id")
    labels = models.JSONField(default=dict, help_text="what the node said of it, capped")
    explanation = models.TextField()
    first_seen = models.DateTimeField(auto_now_add=True)
    seen_at = models.DateTimeField()
    resolved_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["host", "kind", "name"],
                condition=models.Q(resolved_at=None),
                name="orphan_open_once",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"
