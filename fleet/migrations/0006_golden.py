"""Golden profiles: what the nodes of a class should be like; and the short history of clocks and temperatures."""

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('fleet', '0005_inventory_history'),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name='GoldenProfile',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.CharField(max_length=80)),
                ('node_class', models.CharField(max_length=40)),
                ('kind', models.CharField(choices=[('node', 'Node'), ('pair', 'Pair')], default='node', max_length=4)),
                ('version', models.PositiveIntegerField(default=1)),
                ('is_current', models.BooleanField(default=False)),
                ('origin', models.CharField(choices=[('real', 'real'), ('lab', 'lab')], default='real', max_length=8)),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('note', models.TextField(blank=True, help_text='why this version was made')),
                ('created_by', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('taken_from', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to='fleet.node')),
            ],
            options={
                'ordering': ['node_class', 'kind', 'origin', '-version'],
            },
        ),
        migrations.CreateModel(
            name='GoldenKey',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('key', models.CharField(max_length=60)),
                ('value', models.JSONField()),
                ('unit', models.CharField(blank=True, max_length=16)),
                ('tolerance', models.CharField(choices=[('equal', 'Equal'), ('ratio', 'At least a ratio'), ('range', 'Within a range'), ('ignore', 'Ignored')], max_length=6)),
                ('ratio', models.FloatField(null=True)),
                ('low', models.FloatField(null=True)),
                ('high', models.FloatField(null=True)),
                ('profile', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='keys', to='fleet.goldenprofile')),
            ],
            options={
                'ordering': ['profile', 'key'],
            },
        ),
        migrations.CreateModel(
            name='CardSample',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('at', models.DateTimeField()),
                ('sm_clock_mhz', models.JSONField(default=list)),
                ('temperature_c', models.JSONField(default=list)),
                ('node', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='card_samples', to='fleet.node')),
            ],
            options={
                'ordering': ['node', 'at'],
                'constraints': [models.UniqueConstraint(fields=('node', 'at'), name='card_sample_once')],
            },
        ),
        migrations.AddConstraint(
            model_name='goldenprofile',
            constraint=models.UniqueConstraint(fields=('node_class', 'kind', 'origin', 'version'), name='golden_version_once'),
        ),
        migrations.AddConstraint(
            model_name='goldenprofile',
            constraint=models.UniqueConstraint(condition=models.Q(('is_current', True)), fields=('node_class', 'kind', 'origin'), name='golden_one_current'),
        ),
        migrations.AddConstraint(
            model_name='goldenkey',
            constraint=models.UniqueConstraint(fields=('profile', 'key'), name='golden_key_once'),
        ),
        migrations.AddConstraint(
            model_name='goldenkey',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('tolerance', 'ratio'), _negated=True), models.Q(('ratio__gt', 0), ('ratio__isnull', False), ('ratio__lte', 1)), _connector='OR'), name='golden_ratio_named'),
        ),
        migrations.AddConstraint(
            model_name='goldenkey',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('tolerance', 'range'), _negated=True), ('low__isnull', False), ('high__isnull', False), _connector='OR'), name='golden_range_named'),
        ),
    ]
