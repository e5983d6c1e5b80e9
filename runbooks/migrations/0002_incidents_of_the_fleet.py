import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("runbooks", "0001_initial"),
    ]

    operations = [
        migrations.AlterField(
            model_name="incident",
            name="pool",
            field=models.ForeignKey(
                help_text="none for what concerns the whole fleet",
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="incidents",
                to="fleet.pool",
            ),
        ),
    ]
