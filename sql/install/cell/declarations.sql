-- The declarations of claimed columns, and their functions.

-- Rows of dumps of earlier versions lack both names.
CREATE FUNCTION claims.complete_declaration() RETURNS trigger
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    table_part text := coalesce((SELECT c.relname FROM pg_class c WHERE c.oid = NEW.table_name), 'table');
    column_part text := NEW.attribute;
BEGIN
    NEW.declaration := coalesce(NEW.declaration, NEW.attribute);
    IF NEW.constraint_name IS NULL THEN
        -- The longer part is cut, as in PostgreSQL's own names of constraints.
        WHILE octet_length(table_part) + octet_length(column_part) > 63 - octet_length('__claim') LOOP
            IF octet_length(table_part) > octet_length(column_part) THEN
                table_part := left(table_part, -1);
            ELSE
                column_part := left(column_part, -1);
            END IF;
        END LOOP;
        NEW.constraint_name := table_part || '_' || column_part || '_claim';
    END IF;
    RETURN NEW;
END $$;
COMMENT ON FUNCTION claims.complete_declaration() IS
    'Internal: trigger that gives a declaration its own name and that of its constraint, if they are NULL.';

CREATE TRIGGER complete_declaration BEFORE INSERT OR UPDATE ON claims.claimed_attributes
    FOR EACH ROW EXECUTE FUNCTION claims.complete_declaration();
ALTER TABLE claims.claimed_attributes ENABLE ALWAYS TRIGGER complete_declaration;
COMMENT ON TRIGGER complete_declaration ON claims.claimed_attributes IS 'Gives declarations their names.';

CREATE OR REPLACE VIEW claims.claimed_columns WITH (security_barrier) AS
    SELECT a.table_name, a.attribute, a.bucket_type, a.subject_type, a.subject_key, a.source_type, a.source_key, a.condition,
           a.declaration, a.constraint_name, a.enforcement, a.share,
           NOT EXISTS (SELECT FROM (SELECT a.table_name::oid UNION SELECT p.relid FROM pg_partition_tree(a.table_name) p) m (oid)
                         JOIN pg_class c ON c.oid = m.oid AND c.relkind IN ('r', 'p')
                         LEFT JOIN pg_trigger t ON t.tgrelid = c.oid AND t.tgname = 'claims_capture' AND t.tgenabled IN ('O', 'A')
                          AND t.tgfoid = 'claims.capture_row'::regproc AND t.tgtype = 29 AND t.tgqual IS NULL AND t.tgattr = ''
                        WHERE t.oid IS NULL) AS captured
      FROM claims.claimed_attributes a
     WHERE (SELECT claims.acts_for_database())
        OR EXISTS (SELECT FROM pg_catalog.pg_class c
                    WHERE c.oid = a.table_name AND (pg_catalog.pg_has_role(c.relowner, 'USAGE')
                           OR pg_catalog.has_schema_privilege(c.relnamespace, 'USAGE')
                              AND pg_catalog.has_any_column_privilege(c.oid, 'SELECT')));
COMMENT ON VIEW claims.claimed_columns IS
    'In a cell: the columns whose values are claimed, as claims.claim_attribute() declared them. For the cell''s role, which has no privileges on '
    'the tables; other roles see the tables that they own or may read.';
COMMENT ON COLUMN claims.claimed_columns.captured IS
    'Whether the triggers that capture changes of the table and of its partitions exist and are enabled. claims.claim_attribute() restores them.';

-- Runs with the caller's search_path and rights, but uses them only to resolve names in the condition.
CREATE FUNCTION claims.claim_attribute(table_name regclass, attribute name, bucket_type text, subject_type text,
                                       subject_key name, source_type text, source_key name DEFAULT NULL,
                                       condition text DEFAULT NULL, declaration name DEFAULT NULL,
                                       constraint_name name DEFAULT NULL)
    RETURNS void
    LANGUAGE sql
    BEGIN ATOMIC
        SELECT claims.declare_attribute(table_name, attribute, bucket_type, subject_type, subject_key, source_type, source_key,
                                        claims.spell_out_condition(table_name, condition, false), declaration, constraint_name);
    END;

COMMENT ON FUNCTION claims.acts_for_database() IS
    'Internal: whether the caller may act for the cell of this database, for claims.claimed_columns.';

INSERT INTO claims.audiences (function_name, audience) VALUES ('last_conflicts', 'cell'), ('acts_for_database', 'cell');

COMMENT ON FUNCTION claims.claim_attribute(regclass, name, text, text, name, text, name, text, name, name) IS
    'In a cell: declares that the values of a column are claimed, from now on, under a bucket type, for the subject in subject_key and the source '
    'in source_key (by default the primary key), columns of any types whose text does not depend on settings; condition is a boolean expression '
    'over the row, evaluated with the rights of the table''s owner. A column can have several declarations, each with a name (by default the '
    'column''s) and a condition; 22023 for a row for which two hold. constraint_name is what errors of a save call the constraint, by default '
    '<table>_<attribute>_claim. For the table''s owner. Repeating it changes the declaration, and restores triggers that are missing '
    'or disabled. Locks the table against writers until the transaction ends.';
COMMENT ON FUNCTION claims.declare_attribute(regclass, name, text, text, name, text, name, text, name, name) IS
    'Internal: the part of claim_attribute that needs the rights of the extension''s owner.';
COMMENT ON FUNCTION claims.unclaim_attribute(regclass, name, name) IS
    'In a cell: ends a declaration of a column, or, with NULL, all of them; the claims stay as they are. For the table''s owner. 42704 if there is '
    'none. If it was the table''s last one, locks the table ACCESS EXCLUSIVE until the transaction ends.';
COMMENT ON FUNCTION claims.last_conflicts() IS
    'In a cell: the conflicts of the session''s last refused save, also after its ROLLBACK, for roles with the privileges of the role that saved. '
    'table_name and attribute are NULL for a bucket that no row of the save has; holder_cell_name is NULL for a cell that is not registered in '
    'this database. Locks nothing.';
