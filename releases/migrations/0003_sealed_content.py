"""A release may be drafted from another; once sealed, the database itself refuses to change what it is."""

import django.db.models.deletion
from django.db import migrations, models

REFUSE = """
CREATE FUNCTION refuse_sealed_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'UPDATE'
        AND NEW.state <> 'draft'
        AND (NEW.content, NEW.content_sha256, NEW.title, NEW.pool_id, NEW.sealed_at)
            IS NOT DISTINCT FROM
            (OLD.content, OLD.content_sha256, OLD.title, OLD.pool_id, OLD.sealed_at)
    THEN
        RETURN NEW;
    END IF;
    RAISE EXCEPTION 'release % is sealed: % refused', OLD.id, lower(TG_OP)
        USING ERRCODE = 'integrity_constraint_violation';
END $$;
CREATE TRIGGER sealed_content BEFORE UPDATE OR DELETE ON releases_release
    FOR EACH ROW WHEN (OLD.state <> 'draft') EXECUTE FUNCTION refuse_sealed_change();
"""
ALLOW = """
DROP TRIGGER sealed_content ON releases_release;
DROP FUNCTION refuse_sealed_change();
"""


class Migration(migrations.Migration):
    dependencies = [("releases", "0002_traffic_gates_rollouts")]

    operations = [
        migrations.AddField(
            model_name="release",
            name="based_on",
            field=models.ForeignKey(
                help_text="drafted from",
                null=True,
                on_delete=django.db.models.deletion.SET_NULL,
                related_name="+",
                to="releases.release",
            ),
        ),
        migrations.AlterField(
            model_name="release",
            name="content_sha256",
            field=models.CharField(max_length=64),
        ),
        migrations.AddConstraint(
            model_name="release",
            constraint=models.UniqueConstraint(
                condition=models.Q(("state", "draft"), _negated=True),
                fields=("content_sha256",),
                name="sealed_content_once",
            ),
        ),
        migrations.RunSQL(REFUSE, ALLOW),
    ]
