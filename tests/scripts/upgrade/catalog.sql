-- Prints everything that extension claims consists of in this database, one fact a line, in an order that does not depend on
-- how it was made. Each line names its object, so that a line of a diff explains itself. The schema's owner is OWNER.
-- Not told: the extension's version, and rows that users have made.
--
--   psql -XqAt -v ON_ERROR_STOP=1 -f catalog.sql
SET search_path = pg_catalog, pg_temp;

CREATE FUNCTION pg_temp.who(role oid) RETURNS text LANGUAGE sql STABLE AS $$
    SELECT CASE role WHEN 0 THEN 'PUBLIC' WHEN n.nspowner THEN 'OWNER' ELSE role::regrole::text END FROM pg_namespace n WHERE n.nspname = 'claims'
$$;
CREATE FUNCTION pg_temp.privileges(acl aclitem[]) RETURNS text LANGUAGE sql STABLE AS $$
    SELECT coalesce(string_agg(line, '; ' ORDER BY line), 'none') FROM (
        SELECT format('%s from %s: %s', pg_temp.who(a.grantee), pg_temp.who(a.grantor),
                      string_agg(a.privilege_type || CASE WHEN a.is_grantable THEN '*' ELSE '' END, ' ' ORDER BY a.privilege_type)) AS line
          FROM aclexplode(acl) a GROUP BY a.grantee, a.grantor) lines
$$;
-- pg_attver is a number that some minor versions of Postgres note there for themselves.
CREATE FUNCTION pg_temp.sorted(options text[]) RETURNS text LANGUAGE sql IMMUTABLE AS $$
    SELECT coalesce(string_agg(o, ', ' ORDER BY o), 'none') FROM unnest(options) o WHERE o NOT LIKE 'pg_attver=%'
$$;
-- The objects of schema claims, and those that the extension has elsewhere.
CREATE FUNCTION pg_temp.things() RETURNS TABLE (classid oid, objid oid) LANGUAGE sql STABLE AS $$
    SELECT 'pg_namespace'::regclass::oid, n.oid FROM pg_namespace n WHERE n.nspname = 'claims'
    UNION SELECT 'pg_class'::regclass, c.oid FROM pg_class c WHERE c.relnamespace = 'claims'::regnamespace
    UNION SELECT 'pg_proc'::regclass, p.oid FROM pg_proc p WHERE p.pronamespace = 'claims'::regnamespace
    UNION SELECT 'pg_type'::regclass, y.oid FROM pg_type y WHERE y.typnamespace = 'claims'::regnamespace
    UNION SELECT 'pg_constraint'::regclass, k.oid FROM pg_constraint k WHERE k.connamespace = 'claims'::regnamespace
    UNION SELECT 'pg_trigger'::regclass, t.oid FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid WHERE c.relnamespace = 'claims'::regnamespace
    UNION SELECT 'pg_rewrite'::regclass, r.oid FROM pg_rewrite r JOIN pg_class c ON c.oid = r.ev_class WHERE c.relnamespace = 'claims'::regnamespace
    UNION SELECT 'pg_event_trigger'::regclass, v.oid FROM pg_event_trigger v JOIN pg_proc p ON p.oid = v.evtfoid WHERE p.pronamespace = 'claims'::regnamespace
    UNION SELECT d.classid, d.objid FROM pg_depend d JOIN pg_extension e ON d.refobjid = e.oid
           WHERE e.extname = 'claims' AND d.refclassid = 'pg_extension'::regclass AND d.deptype = 'e'
$$;

WITH thing AS MATERIALIZED (SELECT * FROM pg_temp.things()),
fact (object, number, line) AS (
    SELECT 'extension', 0, format('schema %s, relocatable %s', e.extnamespace::regnamespace, e.extrelocatable)
      FROM pg_extension e WHERE e.extname = 'claims'
    UNION ALL
    SELECT 'extension', 1, 'requires ' || r.extname
      FROM pg_extension e JOIN pg_depend d ON d.classid = 'pg_extension'::regclass AND d.objid = e.oid AND d.refclassid = 'pg_extension'::regclass
      JOIN pg_extension r ON r.oid = d.refobjid WHERE e.extname = 'claims'
    UNION ALL
    SELECT 'extension', 2, format('pg_dump carries the rows of %s %s', c.oid::regclass, e.extcondition[c.n])
      FROM pg_extension e, unnest(e.extconfig) WITH ORDINALITY c (oid, n) WHERE e.extname = 'claims'
    UNION ALL
    SELECT 'extension', 3, format('has %s %s', i.type, i.identity)
      FROM pg_depend d JOIN pg_extension e ON d.refobjid = e.oid, pg_identify_object(d.classid, d.objid, d.objsubid) i
     WHERE e.extname = 'claims' AND d.refclassid = 'pg_extension'::regclass AND d.deptype = 'e'
    UNION ALL
    SELECT 'schema claims', 0, format('owner %s, privileges %s', pg_temp.who(n.nspowner), pg_temp.privileges(coalesce(n.nspacl, acldefault('n', n.nspowner))))
      FROM pg_namespace n WHERE n.nspname = 'claims'
    -- functions
    UNION ALL
    SELECT 'function ' || p.oid::regprocedure, 0, format('owner %s, privileges %s', pg_temp.who(p.proowner),
           pg_temp.privileges(coalesce(p.proacl, acldefault('f', p.proowner))))
      FROM thing t JOIN pg_proc p ON t.classid = 'pg_proc'::regclass AND t.objid = p.oid
    UNION ALL
    SELECT 'function ' || p.oid::regprocedure, l.n::int, l.line
      FROM thing t JOIN pg_proc p ON t.classid = 'pg_proc'::regclass AND t.objid = p.oid AND p.prokind <> 'a',
           string_to_table(pg_get_functiondef(p.oid), E'\n') WITH ORDINALITY l (line, n)
    -- relations
    UNION ALL
    SELECT format('relation %s', c.oid::regclass), 0,
           format('kind %s, persistence %s, access method %s, owner %s', c.relkind, c.relpersistence,
                  coalesce((SELECT a.amname FROM pg_am a WHERE a.oid = c.relam), 'none'), pg_temp.who(c.relowner))
      FROM thing t JOIN pg_class c ON t.classid = 'pg_class'::regclass AND t.objid = c.oid
    UNION ALL
    SELECT format('relation %s', c.oid::regclass), 1,
           format('options %s; of toast %s', pg_temp.sorted(c.reloptions), (SELECT pg_temp.sorted(o.reloptions) FROM pg_class o WHERE o.oid = c.reltoastrelid))
      FROM thing t JOIN pg_class c ON t.classid = 'pg_class'::regclass AND t.objid = c.oid
    UNION ALL
    SELECT format('relation %s', c.oid::regclass), 2, format('replica identity %s, row security %s %s, tablespace %s', c.relreplident,
           c.relrowsecurity, c.relforcerowsecurity, c.reltablespace)
      FROM thing t JOIN pg_class c ON t.classid = 'pg_class'::regclass AND t.objid = c.oid WHERE c.relkind IN ('r', 'p', 'm', 'v')
    UNION ALL
    SELECT format('relation %s', c.oid::regclass), 3, 'privileges ' ||
           pg_temp.privileges(coalesce(c.relacl, acldefault(CASE c.relkind WHEN 'S' THEN 's' ELSE 'r' END::"char", c.relowner)))
      FROM thing t JOIN pg_class c ON t.classid = 'pg_class'::regclass AND t.objid = c.oid WHERE c.relkind IN ('r', 'p', 'm', 'v', 'S')
    UNION ALL
    SELECT format('relation %s', c.oid::regclass), 10 + n::int,
           format('column %s: %s, %s%s%s%s%s, storage %s, compression %s, statistics %s, options %s, privileges %s', n, a.attname,
                  format_type(a.atttypid, a.atttypmod),
                  CASE WHEN a.attcollation <> 0 THEN ' collate ' || a.attcollation::regcollation ELSE '' END,
                  CASE WHEN a.attnotnull THEN ' not null' ELSE '' END,
                  CASE WHEN a.attidentity <> '' THEN format(' identity %s', a.attidentity) WHEN a.attgenerated <> '' THEN format(' generated %s', a.attgenerated) ELSE '' END,
                  (SELECT ' default ' || pg_get_expr(d.adbin, d.adrelid) FROM pg_attrdef d WHERE d.adrelid = a.attrelid AND d.adnum = a.attnum),
                  a.attstorage, nullif(a.attcompression, ''), nullif(a.attstattarget, -1), pg_temp.sorted(a.attoptions), pg_temp.privileges(a.attacl))
      FROM (SELECT a.*, row_number() OVER (PARTITION BY a.attrelid ORDER BY a.attnum) AS n
              FROM thing t JOIN pg_attribute a ON t.classid = 'pg_class'::regclass AND t.objid = a.attrelid AND a.attnum > 0 AND NOT a.attisdropped) a
      JOIN pg_class c ON c.oid = a.attrelid WHERE c.relkind NOT IN ('i', 'S')
    UNION ALL
    SELECT format('relation %s', i.indexrelid::regclass), 1100,
           format('%s; valid %s, ready %s, clustered %s, replica identity %s', pg_get_indexdef(i.indexrelid), i.indisvalid, i.indisready, i.indisclustered, i.indisreplident)
      FROM thing t JOIN pg_index i ON t.classid = 'pg_class'::regclass AND t.objid = i.indexrelid
    UNION ALL
    SELECT format('relation %s', q.seqrelid::regclass), 1101,
           format('%s start %s increment %s from %s to %s cache %s cycle %s, of column %s', q.seqtypid::regtype, q.seqstart, q.seqincrement, q.seqmin, q.seqmax,
                  q.seqcache, q.seqcycle, (SELECT format('%s.%s', a.attrelid::regclass, a.attname) FROM pg_depend d
                                             JOIN pg_attribute a ON a.attrelid = d.refobjid AND a.attnum = d.refobjsubid
                                            WHERE d.classid = 'pg_class'::regclass AND d.objid = q.seqrelid AND d.deptype IN ('a', 'i')))
      FROM thing t JOIN pg_sequence q ON t.classid = 'pg_class'::regclass AND t.objid = q.seqrelid
    UNION ALL
    SELECT format('relation %s', c.oid::regclass), 1200 + l.n::int, l.line
      FROM thing t JOIN pg_class c ON t.classid = 'pg_class'::regclass AND t.objid = c.oid AND c.relkind IN ('v', 'm'),
           string_to_table(pg_get_viewdef(c.oid, true), E'\n') WITH ORDINALITY l (line, n)
    UNION ALL
    SELECT format('relation %s', k.conrelid::regclass), 2000, format('constraint %s: %s; valid %s', k.conname, pg_get_constraintdef(k.oid), k.convalidated)
      FROM thing t JOIN pg_constraint k ON t.classid = 'pg_constraint'::regclass AND t.objid = k.oid WHERE k.conrelid <> 0
    UNION ALL
    SELECT format('relation %s', g.tgrelid::regclass), 2001, format('trigger %s; enabled %s', pg_get_triggerdef(g.oid), g.tgenabled)
      FROM thing t JOIN pg_trigger g ON t.classid = 'pg_trigger'::regclass AND t.objid = g.oid WHERE NOT g.tgisinternal
    UNION ALL
    SELECT format('relation %s', r.ev_class::regclass), 2002, format('rule %s', pg_get_ruledef(r.oid))
      FROM thing t JOIN pg_rewrite r ON t.classid = 'pg_rewrite'::regclass AND t.objid = r.oid WHERE r.rulename <> '_RETURN'
    UNION ALL
    SELECT format('relation %s', o.polrelid::regclass), 2003, format('policy %s for %s: %s, with check %s', o.polname, o.polcmd,
           pg_get_expr(o.polqual, o.polrelid), pg_get_expr(o.polwithcheck, o.polrelid))
      FROM pg_policy o JOIN thing t ON t.classid = 'pg_class'::regclass AND t.objid = o.polrelid
    UNION ALL
    SELECT format('relation %s', s.stxrelid::regclass), 2004, pg_get_statisticsobjdef(s.oid)
      FROM pg_statistic_ext s JOIN thing t ON t.classid = 'pg_class'::regclass AND t.objid = s.stxrelid
    -- types that are not the row type of a table or the array type of another
    UNION ALL
    SELECT format('type %s', y.oid::regtype), 0, format('type %s, base %s, not null %s, default %s, collation %s, owner %s, privileges %s; %s', y.typtype,
           nullif(y.typbasetype, 0)::regtype, y.typnotnull, y.typdefault, y.typcollation::regcollation, pg_temp.who(y.typowner),
           pg_temp.privileges(coalesce(y.typacl, acldefault('T', y.typowner))),
           coalesce((SELECT string_agg(format('%s: %s', k.conname, pg_get_constraintdef(k.oid)), '; ' ORDER BY k.conname) FROM pg_constraint k WHERE k.contypid = y.oid),
                    (SELECT string_agg(e.enumlabel, ', ' ORDER BY e.enumsortorder) FROM pg_enum e WHERE e.enumtypid = y.oid)))
      FROM thing t JOIN pg_type y ON t.classid = 'pg_type'::regclass AND t.objid = y.oid LEFT JOIN pg_class c ON c.oid = y.typrelid
     WHERE y.typelem = 0 AND (c.oid IS NULL OR c.relkind = 'c')
    -- what is in no schema
    UNION ALL
    SELECT format('event trigger %s', v.evtname), 0, format('on %s, tags %s, calls %s, enabled %s, owner %s', v.evtevent, pg_temp.sorted(v.evttags),
           v.evtfoid::regprocedure, v.evtenabled, pg_temp.who(v.evtowner))
      FROM thing t JOIN pg_event_trigger v ON t.classid = 'pg_event_trigger'::regclass AND t.objid = v.oid
    UNION ALL
    SELECT format('foreign-data wrapper %s', w.fdwname), 0, format('handler %s, validator %s, options %s, owner %s, privileges %s', w.fdwhandler::regproc,
           w.fdwvalidator::regproc, pg_temp.sorted(w.fdwoptions), pg_temp.who(w.fdwowner), pg_temp.privileges(coalesce(w.fdwacl, acldefault('F', w.fdwowner))))
      FROM thing t JOIN pg_foreign_data_wrapper w ON t.classid = 'pg_foreign_data_wrapper'::regclass AND t.objid = w.oid
    -- of all of them
    UNION ALL
    SELECT format('%s %s', i.type, i.identity), 9000, format('comment: %s', d.description)
      FROM pg_description d JOIN thing t ON t.classid = d.classoid AND t.objid = d.objoid, pg_identify_object(d.classoid, d.objoid, d.objsubid) i
    UNION ALL
    SELECT format('%s %s', i.type, i.identity), 9001, format('initial privileges %s', pg_temp.privileges(p.initprivs))
      FROM pg_init_privs p JOIN thing t ON t.classid = p.classoid AND t.objid = p.objoid, pg_identify_object(p.classoid, p.objoid, p.objsubid) i
    -- rows that come with the extension
    UNION ALL SELECT 'rows of claims.audiences', 0, to_jsonb(a)::text FROM claims.audiences a
    UNION ALL SELECT 'rows of claims.bucket_types', 0, to_jsonb(y)::text FROM claims.bucket_types y WHERE y.id < 100
    UNION ALL SELECT 'rows of claims.subject_types', 0, to_jsonb(y)::text FROM claims.subject_types y WHERE y.id < 100
    UNION ALL SELECT 'rows of claims.source_types', 0, to_jsonb(y)::text FROM claims.source_types y WHERE y.id < 100
    UNION ALL SELECT 'rows of claims.type_names', 0, to_jsonb(n)::text FROM claims.type_names n WHERE n.id < 100
)
SELECT object || ' | ' || line FROM fact ORDER BY object COLLATE "C", number, line COLLATE "C";
