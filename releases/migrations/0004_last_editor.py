"""Who edited a draft last, and who last read a rollout's units: they never sign it. Drafts take it from the trail."""

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


def editors_from_trail(apps, schema_editor):
    """Name the last editor of every release that was edited before this was stored."""
    people = dict(apps.get_model(settings.AUTH_USER_MODEL).objects.values_list("username", "pk"))
    releases = apps.get_model("releases", "Release").objects
    edits = apps.get_model("fleet", "TrailEntry").objects.filter(
        object_kind="release", verb="release.edit"
    )
    for name, actor in edits.order_by("id").values_list("object_id", "actor"):
        if editor := people.get(actor):
            releases.filter(pk=int(name.removeprefix("REL-"))).update(last_editor=editor)


class Migration(migrations.Migration):
    dependencies = [
        ("fleet", "0004_canary_and_hung"),
        ("releases", "0003_sealed_content"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.AddField(
            model_name="release",
            name="last_editor",
            field=models.ForeignKey(
                help_text="who last changed what the draft says; none but its author did when empty",
                null=True,
                on_delete=django.db.models.deletion.SET_NULL,
                related_name="+",
                to=settings.AUTH_USER_MODEL,
            ),
        ),
        migrations.AddField(
            model_name="rollout",
            name="last_editor",
            field=models.ForeignKey(
                help_text="who last had its units read into waves; none but its author did when empty",
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="+",
                to=settings.AUTH_USER_MODEL,
            ),
        ),
        migrations.RunPython(editors_from_trail, migrations.RunPython.noop),
    ]
