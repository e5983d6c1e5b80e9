"""A verb more, text to a port and back, and its recurring form: a scrape whose whole answer is kept."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("execution", "0003_forget")]

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
                    ("exchange", "exchange"),
                    ("forget", "forget"),
                ],
                max_length=8,
            ),
        ),
        migrations.AlterField(
            model_name="scrape",
            name="kind",
            field=models.CharField(
                choices=[
                    ("golden", "golden"),
                    ("metrics", "metrics"),
                    ("exchange", "exchange"),
                ],
                max_length=8,
            ),
        ),
        migrations.AddField(
            model_name="scrape",
            name="answer",
            field=models.TextField(
                blank=True,
                help_text="exchange: the newest whole answer, as of ok_at; at most 256 KiB",
            ),
        ),
        migrations.AddField(
            model_name="scrape",
            name="topic",
            field=models.CharField(
                blank=True,
                help_text="exchange: doorbell rung when its answer changed, began or ceased to come",
                max_length=80,
            ),
        ),
    ]
