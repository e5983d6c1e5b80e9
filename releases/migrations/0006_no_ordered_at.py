"""When a gateway was last ordered stands in the command of its newest order."""

from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("releases", "0005_entry")]

    operations = [migrations.RemoveField(model_name="gateway", name="ordered_at")]
