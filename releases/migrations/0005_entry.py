"""Why an endpoint waits for its first weight. Launches that are behind a gateway already have theirs."""

from django.db import migrations, models
from django.db.models import OuterRef, Subquery


def weights_given(apps, schema_editor):
    """Call the weight of every endpoint that stands already given: no gate is asked of it anew."""
    endpoints = apps.get_model("releases", "Endpoint").objects.filter(launch=OuterRef("pk"))
    launches = apps.get_model("releases", "Launch").objects.filter(
        first_weight=None, endpoint__isnull=False
    )
    launches.update(first_weight=Subquery(endpoints.values("weight")))


class Migration(migrations.Migration):
    dependencies = [("releases", "0004_last_editor")]

    operations = [
        migrations.AddField(
            model_name="endpoint",
            name="explanation",
            field=models.TextField(blank=True, help_text="why it waits for its first weight"),
        ),
        migrations.AlterField(
            model_name="launch",
            name="first_weight",
            field=models.PositiveSmallIntegerField(
                help_text="traffic once ready, in percent; null: not given yet, its gate says so",
                null=True,
            ),
        ),
        migrations.RunPython(weights_given, migrations.RunPython.noop),
    ]
