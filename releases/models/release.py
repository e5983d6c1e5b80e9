"""A release: an immutable, sealed set. Rolled out and rolled back only as a whole."""

from django.conf import settings
from django.db import models
from django.utils.translation import gettext_lazy as _

from fleet.models import Pool
from releases.rules import release as rules


class Release(models.Model):
    class State(models.TextChoices):
        DRAFT = rules.DRAFT, _("Draft")
        SEALED = rules.SEALED, _("Sealed")
        REVIEWED = rules.REVIEWED, _("Reviewed")
        IN_SERVICE = rules.IN_SERVICE, _("In service")
        SUPERSEDED = rules.SUPERSEDED, _("Superseded")
        WITHDRAWN = rules.WITHDRAWN, _("Withdrawn")

    pool = models.ForeignKey(Pool, on_delete=models.PROTECT, related_name="releases")
    title = models.CharField(max_length=120)
    state = models.CharField(max_length=12, choices=State, default=State.DRAFT)
    # {"model": {slug, served_name, revision, manifest_sha256},
    #  "image": {name, digest, vllm_version, nccl}, "platform": {driver, vbios},
    #  "tokenizer": {tokenizer, template, generation_config: SHA-256 each},
    #  "launcher": "docker_mp", "shape": {nodes, tp, pp, dp, ep, gpus_per_node; gpus with single},
    #  "args": [[flag, value or null]], "env": {...}, "golden": [{id, messages, expect}]}
    # Once sealed, what the release is (content, hash, title, pool) is kept by a trigger of the database.
    content = models.JSONField()
    content_sha256 = models.CharField(max_length=64)
    based_on = models.ForeignKey(
        "self", null=True, on_delete=models.SET_NULL, related_name="+", help_text="drafted from"
    )
    is_rehearsal = models.BooleanField(default=False)
    author = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+"
    )
    last_editor = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        null=True,
        on_delete=models.SET_NULL,
        related_name="+",
        help_text="who last changed what the draft says; none but its author did when empty",
    )
    created_at = models.DateTimeField(auto_now_add=True)
    sealed_at = models.DateTimeField(null=True)
    reviewed_at = models.DateTimeField(null=True)
    version = models.PositiveIntegerField(default=1)

    class Meta:
        ordering = ["-id"]
        constraints = [
            models.UniqueConstraint(
                fields=["content_sha256"],
                condition=~models.Q(state="draft"),
                name="sealed_content_once",
            )
        ]

    def __str__(self) -> str:
        return self.public_id

    @property
    def public_id(self) -> str:
        return f"REL-{self.pk:04d}"

    @property
    def topic(self) -> str:
        return f"release-{self.public_id}"
