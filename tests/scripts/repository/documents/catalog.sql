-- Returns as JSON, for the test of the documents, everything about the objects of the extension, and the names of those of PostgreSQL.
\set ON_ERROR_STOP on
LOAD 'claims';
SELECT jsonb_build_object(
    'functions', (SELECT jsonb_agg(jsonb_build_object(
                      'name', p.proname,
                      -- IN, INOUT and VARIADIC, as they are called; OUT and TABLE.
                      'arguments', (SELECT coalesce(jsonb_agg(a.name ORDER BY a.n), '[]') FROM unnest(p.proargnames) WITH ORDINALITY a (name, n)
                                     WHERE coalesce(p.proargmodes[a.n], 'i') IN ('i', 'b', 'v')),
                      'columns', (SELECT coalesce(jsonb_agg(a.name ORDER BY a.n), '[]') FROM unnest(p.proargnames) WITH ORDINALITY a (name, n)
                                   WHERE p.proargmodes[a.n] IN ('o', 'b', 't')),
                      'internal', coalesce(obj_description(p.oid, 'pg_proc') LIKE 'Internal:%', false),
                      'audience', (SELECT f.audience FROM claims.audiences f WHERE f.function_name = p.proname)))
                    FROM pg_proc p WHERE p.pronamespace = 'claims'::regnamespace),
    'relations', (SELECT jsonb_object_agg(c.relname, jsonb_build_object('kind', c.relkind,
                      'columns', (SELECT coalesce(jsonb_agg(a.attname), '[]') FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped)))
                    FROM pg_class c WHERE c.relnamespace = 'claims'::regnamespace),
    'settings', (SELECT jsonb_object_agg(s.name, jsonb_build_object('context', s.context, 'value', current_setting(s.name)))
                   FROM pg_settings s WHERE s.name LIKE 'claims.%'),
    'comments', (SELECT jsonb_agg(DISTINCT d.description) FROM pg_depend m
                   JOIN pg_description d ON d.classoid = m.classid AND d.objoid = m.objid
                  WHERE m.deptype = 'e' AND m.refobjid = (SELECT e.oid FROM pg_extension e WHERE e.extname = 'claims')),
    'types', (SELECT jsonb_agg(t.name) FROM claims.list_types() t),
    -- Other names: triggers and constraints.
    'others', (SELECT jsonb_agg(x.name) FROM (SELECT tgname AS name FROM pg_trigger UNION SELECT conname FROM pg_constraint
                                              UNION SELECT fdwname FROM pg_foreign_data_wrapper) x),
    'postgres', (SELECT jsonb_agg(x.name) FROM (
                     SELECT proname::text AS name FROM pg_proc WHERE pronamespace = 'pg_catalog'::regnamespace
                     UNION SELECT relname FROM pg_class WHERE relnamespace = 'pg_catalog'::regnamespace
                     UNION SELECT attname FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid WHERE c.relnamespace = 'pg_catalog'::regnamespace
                     UNION SELECT typname FROM pg_type WHERE typnamespace = 'pg_catalog'::regnamespace
                     UNION SELECT name FROM pg_settings WHERE name NOT LIKE 'claims.%'
                     UNION SELECT rolname FROM pg_roles WHERE rolname LIKE 'pg\_%'
                     UNION SELECT name FROM pg_available_extensions
                     UNION SELECT word FROM pg_get_keywords()
                     UNION SELECT upper(word) FROM pg_get_keywords()) x));
