"""Node acceptance: runs over nodes, and the checks and verdict of each."""

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("execution", "0004_exchange"),
        ("fleet", "0006_golden"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="AcceptanceRun",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                (
                    "scope",
                    models.CharField(help_text="all, or the names of the nodes", max_length=200),
                ),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                (
                    "deadline_at",
                    models.DateTimeField(help_text="what is not measured by then stays unmeasured"),
                ),
                ("ended_at", models.DateTimeField(null=True)),
                ("cancelled_by", models.CharField(blank=True, max_length=80)),
                ("cancel_reason", models.TextField(blank=True)),
                (
                    "requested_by",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
            options={
                "ordering": ["-id"],
            },
        ),
        migrations.CreateModel(
            name="NodeAcceptance",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                (
                    "pins",
                    models.JSONField(default=list, help_text="releases whose matrix it must meet"),
                ),
                ("skipped", models.TextField(blank=True, help_text="why all_reduce was not run")),
                (
                    "verdict",
                    models.CharField(
                        blank=True,
                        choices=[
                            ("accepted", "Accepted"),
                            ("marginal", "Marginal"),
                            ("rejected", "Rejected"),
                            ("not_measured", "Not measured"),
                        ],
                        max_length=12,
                    ),
                ),
                ("summary", models.TextField(blank=True)),
                ("checks", models.JSONField(default=list)),
                (
                    "profile",
                    models.CharField(
                        blank=True, help_text="golden profile, GP-0001", max_length=16
                    ),
                ),
                ("boot_id", models.CharField(blank=True, max_length=40)),
                ("driver", models.CharField(blank=True, max_length=40)),
                (
                    "identity",
                    models.JSONField(
                        default=dict, help_text="what the node must stay to stay accepted"
                    ),
                ),
                (
                    "compared_at",
                    models.DateTimeField(
                        help_text="up to when its node's facts were compared with the identity",
                        null=True,
                    ),
                ),
                ("valid_until", models.DateTimeField(null=True)),
                ("voided_at", models.DateTimeField(null=True)),
                ("voided_why", models.TextField(blank=True)),
                (
                    "is_standing",
                    models.BooleanField(
                        default=False, help_text="the newest that says what the node is; one a node"
                    ),
                ),
                ("settled_at", models.DateTimeField(null=True)),
                (
                    "allreduce",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="execution.command",
                    ),
                ),
                (
                    "disk_read",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="execution.command",
                    ),
                ),
                (
                    "look",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="execution.command",
                    ),
                ),
                (
                    "node",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="acceptances",
                        to="fleet.node",
                    ),
                ),
                (
                    "probe",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="acceptances",
                        to="fleet.nodeprobe",
                    ),
                ),
                (
                    "run",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="nodes",
                        to="fleet.acceptancerun",
                    ),
                ),
            ],
            options={
                "ordering": ["-id"],
                "constraints": [
                    models.UniqueConstraint(fields=("run", "node"), name="acceptance_node_once"),
                    models.UniqueConstraint(
                        condition=models.Q(("settled_at", None)),
                        fields=("node",),
                        name="acceptance_one_open_a_node",
                    ),
                    models.UniqueConstraint(
                        condition=models.Q(("is_standing", True)),
                        fields=("node",),
                        name="acceptance_one_standing_a_node",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("settled_at", None), ("verdict", "")),
                            models.Q(
                                ("settled_at__isnull", False),
                                models.Q(("verdict", ""), _negated=True),
                            ),
                            _connector="OR",
                        ),
                        name="acceptance_settled_by_a_verdict",
                    ),
                ],
            },
        ),
    ]
