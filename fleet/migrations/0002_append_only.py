"""The trail, its seals and the evidence may be added to and never changed: the database itself refuses."""

from django.db import migrations

TABLES = ("fleet_trailentry", "fleet_trailseal", "fleet_evidence")

REFUSE = """
CREATE FUNCTION refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '% is append-only: % refused', TG_TABLE_NAME, lower(TG_OP)
        USING ERRCODE = 'integrity_constraint_violation';
END $$;
"""


def guard(table: str) -> migrations.RunSQL:
    return migrations.RunSQL(
        f"CREATE TRIGGER append_only BEFORE UPDATE OR DELETE ON {table} "
        "FOR EACH ROW EXECUTE FUNCTION refuse_change();",
        f"DROP TRIGGER append_only ON {table};",
    )


class Migration(migrations.Migration):
    dependencies = [("fleet", "0001_initial")]

    operations = [
        migrations.RunSQL(REFUSE, "DROP FUNCTION refuse_change();"),
        *(guard(table) for table in TABLES),
    ]
