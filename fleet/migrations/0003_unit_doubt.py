"""A unit may be in doubt while it runs, and tells whether it failed by a reboot of its node."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("fleet", "0002_append_only"),
    ]

    operations = [
        migrations.AddField(
            model_name="replica",
            name="doubt",
            field=models.CharField(
                blank=True,
                choices=[("held", "Held by the brake"), ("unseen", "Unconfirmed")],
                help_text="why it does not count as ready though nothing was done to it",
                max_length=6,
            ),
        ),
        migrations.AddField(
            model_name="replica",
            name="is_reboot_proved",
            field=models.BooleanField(
                default=False,
                help_text="it failed by another boot of its node: no judgement of ours",
            ),
        ),
        migrations.AddField(
            model_name="replica",
            name="turned_at",
            field=models.DateTimeField(
                help_text="when it turned bad: its doubt began, or it failed", null=True
            ),
        ),
        migrations.AddConstraint(
            model_name="replica",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("doubt", ""), ("state__in", ["ready", "serving", "draining"]), _connector="OR"
                ),
                name="doubt_of_running_units",
            ),
        ),
    ]
