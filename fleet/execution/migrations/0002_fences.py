"""The fence sequence, and what the database itself refuses: leaving a final state, lowering a fence."""

from django.db import migrations

FORWARD = """
CREATE SEQUENCE execution_fence AS bigint START 1;

CREATE FUNCTION execution_keep_final() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF OLD.state IN ('succeeded', 'failed', 'timed_out', 'cancelled') AND NEW.state <> OLD.state THEN
        RAISE EXCEPTION 'command % is % for good; it cannot become %', OLD.id, OLD.state, NEW.state
            USING ERRCODE = 'check_violation';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER execution_command_final BEFORE UPDATE OF state ON execution_command
    FOR EACH ROW EXECUTE FUNCTION execution_keep_final();

CREATE FUNCTION execution_keep_fence() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.fence < OLD.fence THEN
        RAISE EXCEPTION '% %: fence % is older than %', TG_TABLE_NAME, OLD.id, NEW.fence, OLD.fence
            USING ERRCODE = 'check_violation';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER execution_command_fence BEFORE UPDATE OF fence ON execution_command
    FOR EACH ROW EXECUTE FUNCTION execution_keep_fence();
CREATE TRIGGER execution_subject_fence BEFORE UPDATE OF fence ON execution_subject
    FOR EACH ROW EXECUTE FUNCTION execution_keep_fence();
"""

BACKWARD = """
DROP TRIGGER execution_subject_fence ON execution_subject;
DROP TRIGGER execution_command_fence ON execution_command;
DROP TRIGGER execution_command_final ON execution_command;
DROP FUNCTION execution_keep_fence();
DROP FUNCTION execution_keep_final();
DROP SEQUENCE execution_fence;
"""


class Migration(migrations.Migration):
    dependencies = [("execution", "0001_initial")]

    operations = [migrations.RunSQL(FORWARD, BACKWARD)]
