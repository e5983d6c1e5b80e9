"""Container images by digest as the fleet knows them, and on which nodes each was pulled and verified."""

from django.conf import settings
from django.db import models
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from fleet.execution.models import Subject
from fleet.models.inventory import Node
from fleet.rules import images as rules


class Image(models.Model):
    """An image that was asked for on nodes. Its digest is what it is; the name says where it comes from."""

    name = models.CharField(max_length=255, help_text="registry/repository, with or without a tag")
    digest = models.CharField(max_length=71, unique=True, help_text="sha256: and 64 hex digits")
    requested_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+"
    )
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["-id"]

    def __str__(self) -> str:
        return self.public_id

    @property
    def public_id(self) -> str:
        return f"IMG-{self.pk:04d}"

    @property
    def topic(self) -> str:
        return f"image-{self.public_id}"


class ImageHolding(models.Model):
    """An image on one node: wanted, being pulled, verified by docker's own inspect, or why not."""

    class State(models.TextChoices):
        WANTED = rules.WANTED, _("Waiting")
        PULLING = rules.PULLING, _("Pulling")
        READY = rules.READY, _("Ready")
        FAILED = rules.FAILED, _("Failed")

    node = models.ForeignKey(Node, on_delete=models.CASCADE, related_name="images")
    image = models.ForeignKey(Image, on_delete=models.PROTECT, related_name="holdings")
    state = models.CharField(max_length=8, choices=State, default=State.WANTED)
    explanation = models.TextField(blank=True)
    is_check_only = models.BooleanField(default=False, help_text="looked at, never pulled")
    attempt = models.PositiveIntegerField(default=0, help_text="numbers its processes on the node")
    subject = models.ForeignKey(Subject, null=True, on_delete=models.PROTECT, related_name="+")
    stop_for = models.CharField(
        max_length=8, blank=True, help_text="the state it goes to once its process is gone"
    )
    size_bytes = models.BigIntegerField(null=True, help_text="as docker's inspect tells it")
    state_at = models.DateTimeField(default=timezone.now)
    verified_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ["node"]
        constraints = [
            models.UniqueConstraint(fields=["node", "image"], name="image_holding_once"),
        ]
        indexes = [
            models.Index(
                fields=["image"],
                name="image_holding_open",
                condition=models.Q(state__in=["wanted", "pulling"]),
            )
        ]

    def __str__(self) -> str:
        return f"{self.image_id}/{self.node_id}"
