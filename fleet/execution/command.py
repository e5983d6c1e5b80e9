"""The rows that stand before every effect on a node: the command, its output, and the subject it
acts on.

Not in charge of who may ask (services) nor of what an answer means (their owners read it at their
tick).
"""

from django.db import models

from fleet.execution import states
from fleet.execution.host import Host


def _choices(words: tuple[str, ...]) -> list[tuple[str, str]]:
    return [(word, word) for word in words]


class Subject(models.Model):
    """A thing that lasts on a node, under the shim: it is started once, followed by the watch, and
    stopped with proof.
    """

    host = models.ForeignKey(Host, on_delete=models.PROTECT, related_name="subjects")
    name = models.CharField(max_length=80, unique=True)
    state = models.CharField(max_length=8, default=states.SUBJECT_NEW)
    explanation = models.TextField(blank=True)
    container = models.CharField(
        max_length=120, blank=True, help_text="docker name, when it runs in one"
    )
    plan_sha = models.CharField(max_length=64, blank=True)
    epoch = models.PositiveIntegerField(default=0)
    fence = models.BigIntegerField(default=0)
    pid = models.BigIntegerField(null=True)
    start_ticks = models.BigIntegerField(null=True)
    boot_id = models.CharField(max_length=40, blank=True)
    rc = models.IntegerField(null=True)
    started_at = models.DateTimeField(null=True)
    ended_at = models.DateTimeField(null=True)
    observed_at = models.DateTimeField(null=True, help_text="last time the node itself said so")
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        indexes = [models.Index(fields=["host", "state"])]

    def __str__(self) -> str:
        return self.name

    @property
    def has_ended(self) -> bool:
        return self.state in states.SUBJECT_ENDED


class Command(models.Model):
    """One effect on one node, done once. `purpose` is unique: asking twice is harmless."""

    purpose = models.CharField(max_length=200, unique=True)
    host = models.ForeignKey(Host, on_delete=models.PROTECT, related_name="commands")
    subject = models.ForeignKey(
        Subject, null=True, on_delete=models.PROTECT, related_name="commands"
    )
    verb = models.CharField(max_length=8, choices=_choices(states.VERBS))
    queue = models.CharField(max_length=8, choices=_choices(states.QUEUES))
    effect = models.CharField(max_length=8, choices=_choices(states.EFFECTS))
    payload = models.JSONField(default=dict)
    deadline_s = models.FloatField(default=30.0)
    topic = models.CharField(max_length=80, blank=True, help_text="doorbell rung when it settles")
    schema_version = models.PositiveIntegerField(default=1)

    state = models.CharField(max_length=10, default=states.QUEUED)
    explanation = models.TextField(blank=True)
    answer = models.JSONField(null=True, help_text="first line of the shim, or the HTTP status")
    attempt = models.PositiveIntegerField(default=0)
    fence = models.BigIntegerField(null=True)
    lease_owner = models.CharField(max_length=120, blank=True)
    lease_until = models.DateTimeField(null=True)
    heartbeat_at = models.DateTimeField(null=True)
    cancel_requested_at = models.DateTimeField(null=True)
    due_at = models.DateTimeField(help_text="not before; the database's clock")
    expires_at = models.DateTimeField(
        null=True, help_text="not begun after it; null: never given up (a stop)"
    )
    enqueued_at = models.DateTimeField(null=True)
    sent_at = models.DateTimeField(
        null=True, help_text="since when its effect may have happened on the node"
    )
    created_at = models.DateTimeField(auto_now_add=True)
    claimed_at = models.DateTimeField(null=True)
    settled_at = models.DateTimeField(null=True)

    class Meta:
        indexes = [
            models.Index(
                fields=["queue", "due_at"],
                name="command_open",
                condition=~models.Q(state__in=sorted(states.TERMINAL)),
            ),
        ]

    def __str__(self) -> str:
        return self.purpose

    @property
    def is_settled(self) -> bool:
        return self.state in states.TERMINAL


class CommandOutput(models.Model):
    """What the node printed, compressed, apart from the row that is polled."""

    command = models.OneToOneField(
        Command, primary_key=True, on_delete=models.CASCADE, related_name="output"
    )
    # [{"section"|"path", "rc", "ms", "bytes", "sha256", "error", "truncated"}], cut from body in
    # this order
    sections = models.JSONField(default=list)
    body = models.BinaryField(help_text="zstd of the sections' bytes, one after the other")
    stored_at = models.DateTimeField(auto_now_add=True)
