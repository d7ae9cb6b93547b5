-- The catalog entries of the extension's objects.
-- every object has a comment: zero rows
SELECT pg_describe_object(classid, objid, 0)
  FROM pg_depend d
 WHERE refclassid = 'pg_extension'::regclass AND deptype = 'e'
   AND refobjid = (SELECT oid FROM pg_extension WHERE extname = 'claims')
   AND obj_description(objid, classid::regclass::name) IS NULL
   AND NOT EXISTS (SELECT FROM pg_type y WHERE d.classid = 'pg_type'::regclass AND y.oid = d.objid
                    AND (y.typrelid <> 0 OR y.typelem <> 0))
 ORDER BY 1;
-- every column, index and constraint of a table or view has a comment: zero rows
SELECT attrelid::regclass, attname FROM pg_attribute a JOIN pg_class c ON c.oid = attrelid
 WHERE relnamespace = 'claims'::regnamespace AND relkind IN ('r', 'p', 'v') AND attnum > 0 AND NOT attisdropped
   AND col_description(attrelid, attnum) IS NULL AND NOT relispartition
 ORDER BY 1, 2;
SELECT c.oid::regclass FROM pg_class c WHERE relnamespace = 'claims'::regnamespace AND obj_description(oid, 'pg_class') IS NULL;
SELECT conrelid::regclass, conname FROM pg_constraint k WHERE connamespace = 'claims'::regnamespace AND obj_description(oid, 'pg_constraint') IS NULL;
-- every object in the schema belongs to the extension: zero rows
SELECT pg_describe_object('pg_proc'::regclass, oid, 0) FROM pg_proc p WHERE pronamespace = 'claims'::regnamespace
   AND NOT EXISTS (SELECT FROM pg_depend WHERE classid = 'pg_proc'::regclass AND objid = p.oid AND deptype = 'e');
SELECT pg_describe_object('pg_class'::regclass, oid, 0) FROM pg_class c WHERE relnamespace = 'claims'::regnamespace
   AND relkind IN ('r', 'p', 'v', 'm', 'S')
   AND NOT EXISTS (SELECT FROM pg_depend WHERE classid = 'pg_class'::regclass AND objid = c.oid AND deptype IN ('e', 'i'));
-- PUBLIC can execute only the function that indexes call, and cannot name it: one row each
SELECT p.oid::regprocedure FROM pg_proc p, aclexplode(coalesce(proacl, acldefault('f', proowner))) a
 WHERE pronamespace = 'claims'::regnamespace AND a.grantee = 0;
SELECT p.oid::regprocedure FROM pg_proc p
 WHERE pronamespace = 'claims'::regnamespace AND has_function_privilege('regress_claims_nobody', p.oid, 'EXECUTE');
SELECT provolatile, prosecdef, proconfig IS NULL, has_schema_privilege('regress_claims_nobody', 'claims', 'USAGE') FROM pg_proc
  WHERE oid = 'claims.canonical_form(text, text)'::regprocedure;
-- PUBLIC can read and write nothing: zero rows
SELECT c.oid::regclass, a.privilege_type
  FROM pg_class c, aclexplode(coalesce(relacl, acldefault(CASE relkind WHEN 'S' THEN 's'::"char" ELSE 'r' END, relowner))) a
 WHERE relnamespace = 'claims'::regnamespace AND relkind IN ('r', 'p', 'v', 'm', 'S') AND a.grantee = 0;
SELECT c.oid::regclass FROM pg_class c
 WHERE relnamespace = 'claims'::regnamespace AND relkind IN ('r', 'p', 'v', 'm')
   AND has_any_column_privilege('regress_claims_nobody', c.oid, 'SELECT, INSERT, UPDATE, REFERENCES');
SELECT has_schema_privilege('regress_claims_nobody', 'claims', 'CREATE'),
       has_schema_privilege('regress_claims_one', 'claims', 'CREATE');
-- cells have no direct privilege on any table or sequence: zero rows
SELECT r, c.oid::regclass FROM pg_class c, unnest('{regress_claims_one,regress_claims_two}'::text[]) r
 WHERE relnamespace = 'claims'::regnamespace AND relkind IN ('r', 'p', 'm')
   AND (has_any_column_privilege(r, c.oid, 'INSERT, UPDATE, REFERENCES')
        OR has_any_column_privilege(r, c.oid, 'SELECT')
        OR has_table_privilege(r, c.oid, 'DELETE, TRUNCATE, TRIGGER'));
SELECT r, c.oid::regclass FROM pg_class c, unnest('{regress_claims_one,regress_claims_two}'::text[]) r
 WHERE relnamespace = 'claims'::regnamespace AND relkind = 'S' AND has_sequence_privilege(r, c.oid, 'USAGE, SELECT, UPDATE');
-- every SECURITY DEFINER function pins its search_path, pg_temp last: zero rows
SELECT p.oid::regprocedure, proconfig FROM pg_proc p
 WHERE pronamespace = 'claims'::regnamespace AND prosecdef
   AND NOT EXISTS (SELECT FROM unnest(proconfig) s WHERE s ~ '^search_path=.*pg_temp"?$');
-- every function in SQL or PL/pgSQL (a procedure that did could not commit) sets its search_path: zero rows
SELECT p.oid::regprocedure FROM pg_proc p JOIN pg_language l ON l.oid = prolang
 WHERE pronamespace = 'claims'::regnamespace AND lanname IN ('sql', 'plpgsql') AND prosqlbody IS NULL AND prokind = 'f'
   AND NOT EXISTS (SELECT FROM unnest(proconfig) s WHERE s LIKE 'search_path=%');
-- no function is STRICT but the one that indexes call: zero rows
SELECT p.oid::regprocedure FROM pg_proc p WHERE pronamespace = 'claims'::regnamespace AND proisstrict AND pronargs > 0
   AND has_function_privilege('regress_claims_one', p.oid, 'EXECUTE')
   AND proname <> 'canonical_form';
-- functions that write are VOLATILE and PARALLEL UNSAFE, and none is LEAKPROOF: zero rows
SELECT p.oid::regprocedure, provolatile, proparallel, proleakproof FROM pg_proc p WHERE pronamespace = 'claims'::regnamespace
   AND (proleakproof OR proname IN ('begin_update', 'try_begin_update', 'commit_update', 'rollback_update', 'settle_leases',
        'register_cell', 'grant_read', 'purge_outcomes', 'add_bucket_type', 'add_subject_type', 'add_source_type')
        AND (provolatile, proparallel) <> ('v', 'u'));
-- functions that only read are STABLE: zero rows
SELECT p.oid::regprocedure FROM pg_proc p WHERE pronamespace = 'claims'::regnamespace
   AND proname IN ('get_record', 'get_records', 'list_leases', 'list_records', 'lease_outcome', 'check') AND provolatile <> 's';
-- there are no foreign keys: zero rows
SELECT conname FROM pg_constraint WHERE connamespace = 'claims'::regnamespace AND contype = 'f';
-- every unique index of the two big tables contains the table's distribution column
SELECT indrelid::regclass, indisunique AND pg_get_indexdef(indexrelid) ~ 'bucket_value|\muuid\M'
  FROM pg_index WHERE indrelid IN ('claims.claims'::regclass, 'claims.claim_leases'::regclass) AND indisunique
 ORDER BY 1;
SELECT count(*) > 0 FROM pg_index WHERE indrelid = 'claims.claims'::regclass AND indisunique
   AND pg_get_indexdef(indexrelid) !~ 'bucket_value';
-- every table and sequence is dumped, except those that only the script fills: zero rows
SELECT c.oid::regclass FROM pg_class c WHERE relnamespace = 'claims'::regnamespace AND relkind IN ('r', 'p', 'S')
   AND c.oid <> 'claims.audiences'::regclass
   AND NOT EXISTS (SELECT FROM pg_extension WHERE extname = 'claims' AND c.oid = ANY (extconfig))
   AND NOT EXISTS (SELECT FROM pg_depend WHERE objid = c.oid AND classid = 'pg_class'::regclass AND deptype = 'i')
 ORDER BY 1;
-- the columns of the documented tables
SELECT attname, format_type(atttypid, atttypmod), CASE WHEN attnotnull THEN 'not null' ELSE 'null' END
  FROM pg_attribute WHERE attrelid = 'claims.claims'::regclass AND attnum > 0 AND NOT attisdropped ORDER BY attnum;
SELECT attname, format_type(atttypid, atttypmod), CASE WHEN attnotnull THEN 'not null' ELSE 'null' END
  FROM pg_attribute WHERE attrelid = 'claims.claim_leases'::regclass AND attnum > 0 AND NOT attisdropped ORDER BY attnum;
SELECT pg_get_constraintdef(oid) FROM pg_constraint WHERE conrelid = 'claims.claim_leases'::regclass AND contype = 'p';
-- bucket values are compared byte by byte
SELECT collname FROM pg_attribute a JOIN pg_collation c ON c.oid = attcollation
 WHERE attrelid = 'claims.claims'::regclass AND attname = 'bucket_value';
-- the arguments and results of the documented functions
SELECT p.oid::regprocedure, pg_get_function_arguments(p.oid), pg_get_function_result(p.oid)
  FROM pg_proc p WHERE pronamespace = 'claims'::regnamespace
   AND proname IN ('add_bucket_type', 'add_subject_type', 'add_source_type', 'register_cell', 'grant_read',
       'begin_update', 'commit_update', 'rollback_update', 'lease_outcome', 'purge_outcomes', 'settle_leases',
       'try_begin_update', 'get_record', 'get_records', 'list_leases', 'list_records', 'check')
 ORDER BY proname, 1;
-- every table that FOR ALL TABLES publishes has a primary key as its replica identity
SELECT c.oid::regclass FROM pg_class c
 WHERE c.relnamespace = 'claims'::regnamespace AND c.relkind IN ('r', 'p') AND c.relpersistence = 'p'
   AND (c.relreplident NOT IN ('d', 'f') OR c.relreplident = 'd' AND NOT EXISTS (SELECT FROM pg_index i WHERE i.indrelid = c.oid AND i.indisprimary));
