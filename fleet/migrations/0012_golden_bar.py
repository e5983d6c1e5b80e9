"""The golden pair has a bar of its own, and says why a version was made."""

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('fleet', '0011_images'),
    ]

    operations = [
        migrations.AddField(
            model_name='netgolden',
            name='bar',
            field=models.FloatField(default=0.95, help_text='least ratio to this pair'),
        ),
        migrations.AddField(
            model_name='netgolden',
            name='note',
            field=models.TextField(blank=True, default='', help_text='why this version was made'),
            preserve_default=False,
        ),
    ]
