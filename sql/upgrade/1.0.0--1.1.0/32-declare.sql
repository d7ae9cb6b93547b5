-- Claimed columns keep types by names that never change.
CREATE OR REPLACE FUNCTION claims.declare_attribute(table_name regclass, attribute name, bucket_type text, subject_type text,
                                         subject_key name, source_type text, source_key name, condition text)
    RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_variable
DECLARE
    claimed pg_class%ROWTYPE;
    argument record;
    column_type oid;
    key_number smallint;
BEGIN
    FOR argument IN SELECT * FROM (VALUES ('table_name', table_name::text), ('attribute', attribute), ('bucket_type', bucket_type),
            ('subject_type', subject_type), ('subject_key', subject_key), ('source_type', source_type)) AS given (name, value)
    LOOP
        IF argument.value IS NULL THEN
            RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = format('%s must not be null', argument.name), HINT = 'Give a value.';
        END IF;
    END LOOP;
    SELECT c.* INTO claimed FROM pg_class c WHERE c.oid = table_name;
    IF NOT FOUND THEN
        RAISE EXCEPTION USING ERRCODE = '42P01', MESSAGE = format('table %s does not exist', table_name), HINT = 'Name a table of this database.';
    END IF;
    PERFORM claims.require_owner(table_name::text, claimed.relowner);
    IF claimed.relkind NOT IN ('r', 'p') OR claimed.relpersistence = 't' OR claimed.relispartition
       OR claimed.relnamespace IN ('pg_catalog'::regnamespace, 'information_schema'::regnamespace, 'claims'::regnamespace)
       OR EXISTS (SELECT FROM pg_inherits i WHERE i.inhrelid = table_name OR i.inhparent = table_name AND claimed.relkind = 'r')
    THEN
        RAISE EXCEPTION USING ERRCODE = '42809', MESSAGE = format('columns of "%s" cannot be claimed', table_name),
            DETAIL = 'It is no permanent table, or a partition, or part of an inheritance tree, or belongs to the system.',
            HINT = 'Claim columns of ordinary tables and of partitioned ones.';
    END IF;
    -- First, since it locks the table: from here on no column changes.
    PERFORM claims.change_capture_triggers(table_name, true);
    IF source_key IS NULL THEN
        SELECT a.attname INTO source_key FROM pg_index i JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = i.indkey[0]
         WHERE i.indrelid = table_name AND i.indisprimary AND i.indnkeyatts = 1;
        IF source_key IS NULL THEN
            RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = format('table "%s" has no primary key of one column', table_name),
                DETAIL = 'source_key is the primary key where it is left out.', HINT = 'Name the column as source_key.';
        END IF;
    END IF;
    FOR argument IN SELECT * FROM (VALUES ('attribute', attribute), ('subject_key', subject_key), ('source_key', source_key)) AS given (name, value)
    LOOP
        SELECT a.atttypid, a.attnum INTO column_type, key_number FROM pg_attribute a
         WHERE a.attrelid = table_name AND a.attname = argument.value AND a.attnum > 0 AND NOT a.attisdropped;
        IF NOT FOUND THEN
            RAISE EXCEPTION USING ERRCODE = '42703', MESSAGE = format('column "%s" of table "%s" does not exist', argument.value, table_name),
                DETAIL = format('It was given as %s.', argument.name), HINT = 'Name a column of the table.';
        END IF;
        IF EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = table_name AND a.attnum = key_number AND a.attgenerated = 'v') THEN
            RAISE EXCEPTION USING ERRCODE = '42809', MESSAGE = format('column "%s" of table "%s" is a virtual generated column', argument.value, table_name),
                DETAIL = format('It was given as %s. Triggers are not given the values of such columns.', argument.name),
                HINT = 'Have it STORED.';
        END IF;
        IF argument.name <> 'attribute' AND NOT claims.has_fixed_text(column_type) THEN
            RAISE EXCEPTION USING ERRCODE = '42804', MESSAGE = format('type %s of column "%s" cannot be a key', format_type(column_type, NULL), argument.value),
                DETAIL = format('It was given as %s. How its values look as text depends on settings of the session.', argument.name),
                HINT = 'Subjects and sources have integers, uuids, texts or other keys whose text is always the same.';
        END IF;
    END LOOP;
    FOR argument IN
        SELECT given.* FROM (VALUES ('bucket', bucket_type), ('subject', subject_type), ('source', source_type)) AS given (name, value)
         WHERE given.value = 'UNSPECIFIED' OR claims.lasting_type_name(given.name, given.value) IS NULL
    LOOP
        RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = format('%s_type names an unknown %s type', argument.name, argument.name),
            DETAIL = format('There is no %s type "%s" that a claim can have.', argument.name, left(argument.value, 64)),
            HINT = format('Types are added with claims.add_%s_type(), here and at the service.', argument.name);
    END LOOP;
    -- By these names the columns are found again, whatever the types are called later.
    bucket_type := claims.lasting_type_name('bucket', bucket_type);
    subject_type := claims.lasting_type_name('subject', subject_type);
    source_type := claims.lasting_type_name('source', source_type);
    SELECT a.atttypid INTO column_type FROM pg_attribute a WHERE a.attrelid = table_name AND a.attname = attribute;
    IF NOT claims.has_fixed_text(column_type) THEN
        RAISE EXCEPTION USING ERRCODE = '42804', MESSAGE = format('type %s of column "%s" cannot be claimed', format_type(column_type, NULL), attribute),
            DETAIL = 'How its values look as text depends on settings of the session.',
            HINT = 'Claim a generated column of type text.';
    END IF;
    IF condition IS NOT NULL THEN
        condition := claims.spell_out_condition(table_name, condition, true);
    END IF;
    INSERT INTO claims.claimed_attributes AS a (table_name, attribute, bucket_type, subject_type, subject_key, source_type, source_key, condition)
        VALUES (table_name, attribute, bucket_type, subject_type, subject_key, source_type, source_key, condition)
        ON CONFLICT ON CONSTRAINT claimed_attributes_pkey DO UPDATE
        SET bucket_type = excluded.bucket_type, subject_type = excluded.subject_type, subject_key = excluded.subject_key,
            source_type = excluded.source_type, source_key = excluded.source_key, condition = excluded.condition;
    SELECT a.attnum INTO key_number FROM pg_attribute a WHERE a.attrelid = table_name AND a.attname = attribute;
    IF NOT EXISTS (SELECT FROM pg_index i WHERE i.indrelid = table_name AND i.indisunique AND i.indisvalid
                    AND i.indnkeyatts = 1 AND i.indkey[0] = key_number AND i.indexprs IS NULL) THEN
        RAISE WARNING USING MESSAGE = format('column "%s" of table "%s" has no unique index', attribute, table_name),
            DETAIL = 'Where two rows of this database have one value, the claim goes with the first of them that goes.',
            HINT = 'Have Postgres keep the values unique in this database; claims keeps them unique between databases.';
    END IF;
END $$;
