"""What the watch writes: log streams with their chunks, and scrapes of engine endpoints."""

from django.contrib.postgres.fields import ArrayField
from django.db import models

from fleet.execution.command import Subject
from fleet.execution.host import Host


class LogStream(models.Model):
    """The output of one subject. A position in it is (stream, epoch, byte offset); lines are
    numbered from 1 once.
    """

    subject = models.OneToOneField(Subject, on_delete=models.CASCADE, related_name="stream")
    # what a line's rank is computed from: {"position", "gpus_per_node", "tp", "pp", "dp"}
    layout = models.JSONField(default=dict)
    epoch = models.PositiveIntegerField(default=0)
    node_epoch = models.PositiveIntegerField(
        default=0,
        help_text="the shim's epoch that `epoch` reads; a file that shrank gives a new one",
    )
    end_offset = models.BigIntegerField(default=0, help_text="bytes of this epoch that are stored")
    line_count = models.BigIntegerField(default=0)
    warn_count = models.BigIntegerField(default=0)
    error_count = models.BigIntegerField(default=0)
    first_error_line = models.BigIntegerField(null=True)
    last_line_at = models.DateTimeField(null=True)
    captured_at = models.DateTimeField(null=True, help_text="heartbeat of the capture")
    is_complete = models.BooleanField(
        default=False, help_text="the subject ended and all is stored"
    )


class LogChunk(models.Model):
    """Up to 64 KiB of whole lines, zstd. The last chunk of a stream grows until it is full."""

    stream = models.ForeignKey(LogStream, on_delete=models.CASCADE, related_name="chunks")
    epoch = models.PositiveIntegerField()
    offset = models.BigIntegerField(help_text="of its first byte in the node's file")
    end_offset = models.BigIntegerField()
    first_line = models.BigIntegerField()
    line_count = models.PositiveIntegerField()
    started_at = models.DateTimeField()
    ended_at = models.DateTimeField()
    warn_count = models.PositiveIntegerField(default=0)
    error_count = models.PositiveIntegerField(default=0)
    ranks = ArrayField(models.IntegerField(), default=list)
    rank_counts = models.JSONField(default=dict, help_text="rank or - to [lines, warnings, errors]")
    # zstd of lines `<ms since started_at> TAB <rank or -> TAB <D|I|W|E> TAB <subsystem> TAB <text>
    # LF`
    body = models.BinaryField()

    class Meta:
        ordering = ["stream", "first_line"]
        constraints = [
            models.UniqueConstraint(fields=["stream", "first_line"], name="chunk_line_once"),
            models.UniqueConstraint(fields=["stream", "epoch", "offset"], name="chunk_offset_once"),
        ]
        indexes = [models.Index(fields=["stream", "ended_at"])]


class Scrape(models.Model):
    """A recurring reading through the node's SSH connection, done by the watch: HTTP of an engine, or what a
    port answers to a text (kind exchange: `body` is {"text"} and perhaps {"address"}, as of the verb).
    """

    class Kind(models.TextChoices):
        GOLDEN = "golden", "golden"
        METRICS = "metrics", "metrics"
        EXCHANGE = "exchange", "exchange"

    key = models.CharField(max_length=120, unique=True, help_text="launch:LN-0001/golden")
    host = models.ForeignKey(Host, on_delete=models.CASCADE, related_name="scrapes")
    kind = models.CharField(max_length=8, choices=Kind)
    port = models.PositiveIntegerField()
    method = models.CharField(max_length=4, default="GET")
    path = models.CharField(max_length=120)
    body = models.JSONField(null=True)
    expect = models.TextField(blank=True, help_text="golden: the exact answer text")
    keep = ArrayField(
        models.CharField(max_length=80), default=list, help_text="metric families kept"
    )
    topic = models.CharField(
        max_length=80,
        blank=True,
        help_text="exchange: doorbell rung when its answer changed, began or ceased to come",
    )
    every_s = models.FloatField(default=20.0)
    timeout_s = models.FloatField(default=15.0)
    is_enabled = models.BooleanField(default=True)

    tried_at = models.DateTimeField(null=True)
    ok_at = models.DateTimeField(null=True, help_text="golden: right answer; metrics: parsed")
    status = models.IntegerField(null=True)
    error = models.TextField(blank=True)
    found = models.TextField(
        blank=True, help_text="golden: what was answered, at most 2,000 characters"
    )
    answer = models.TextField(
        blank=True, help_text="exchange: the newest whole answer, as of ok_at; at most 256 KiB"
    )
    latency_ms = models.FloatField(null=True)
    misses = models.PositiveIntegerField(default=0, help_text="failures in a row")
    values = models.JSONField(default=dict, help_text="metrics: family -> sum over its series")
    progress_at = models.DateTimeField(
        null=True, help_text="metrics: last change of a token counter"
    )
