"""A verb more: what a node keeps of an ended subject can be forgotten."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("execution", "0002_fences")]

    operations = [
        migrations.AlterField(
            model_name="command",
            name="verb",
            field=models.CharField(
                choices=[
                    ("probe", "probe"),
                    ("start", "start"),
                    ("stop", "stop"),
                    ("collect", "collect"),
                    ("http", "http"),
                    ("forget", "forget"),
                ],
                max_length=8,
            ),
        ),
    ]
