-- For isolation specs whose sessions are on different nodes: on the coordinator, where the tester's own session and the setup of each spec are.
SET citus.enable_ddl_propagation = off;
ALTER DATABASE claims_isolation SET citus.enable_ddl_propagation = off;

-- A session waits for another one, too, where a backend that works for it on some node waits for one that works for the other.
CREATE OR REPLACE FUNCTION pg_catalog.pg_isolation_test_session_is_blocked(integer, integer[]) RETURNS boolean LANGUAGE sql AS $$
  SELECT EXISTS (
    SELECT FROM pg_catalog.run_command_on_all_nodes($node$
        WITH backends AS (
          SELECT pid, CASE WHEN application_name ~ '^citus_internal gpid=' THEN substr(application_name, 21)::bigint % 10000000000 ELSE pid END AS session
            FROM pg_catalog.pg_stat_activity
        ), waits AS (
          SELECT b.session, (SELECT coalesce(json_agg(by.session), '[]') FROM backends by WHERE by.pid = ANY (pg_catalog.pg_blocking_pids(b.pid))) AS for_sessions
            FROM pg_catalog.pg_locks l JOIN backends b USING (pid)
           WHERE NOT l.granted AND l.waitstart < pg_catalog.clock_timestamp() - interval '250 ms'
        )
        SELECT coalesce(json_agg(waits), '[]') FROM waits $node$) r
      CROSS JOIN LATERAL pg_catalog.json_to_recordset(r.result::json) w (session integer, for_sessions json)
    WHERE w.session = $1 AND EXISTS (SELECT FROM pg_catalog.json_array_elements_text(w.for_sessions) f WHERE f::integer = ANY ($2))) $$;

-- Functions and tables that the setup of a spec makes are on all nodes; each node has a table of its own.
CREATE FUNCTION public.everywhere() RETURNS event_trigger LANGUAGE plpgsql AS $$
DECLARE
  made record;
  command text;
  failure text;
BEGIN
  FOR made IN SELECT objid, object_type FROM pg_event_trigger_ddl_commands() WHERE schema_name = 'public' AND object_type IN ('function', 'table') LOOP
    IF made.object_type = 'function' THEN
      command := pg_get_functiondef(made.objid);
    ELSE
      PERFORM run_command_on_workers(format('DROP TABLE IF EXISTS %s', made.objid::regclass));
      SELECT format('CREATE TABLE %s (%s)', made.objid::regclass, string_agg(format('%I %s', attname, format_type(atttypid, atttypmod)), ', ' ORDER BY attnum))
        INTO command FROM pg_attribute WHERE attrelid = made.objid AND attnum > 0;
    END IF;
    SELECT result INTO failure FROM run_command_on_workers(command) WHERE NOT success;
    IF failure IS NOT NULL THEN RAISE EXCEPTION '%', failure; END IF;
  END LOOP;
END $$;
CREATE EVENT TRIGGER everywhere ON ddl_command_end WHEN TAG IN ('CREATE FUNCTION', 'CREATE TABLE') EXECUTE FUNCTION public.everywhere();
