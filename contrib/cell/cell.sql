-- The cell's half of the lease protocol, in plain SQL and PL/pgSQL, for databases in which the extension cannot be installed.
--
--   psql -X -v ON_ERROR_STOP=1 -d DATABASE -f cell.sql
--
-- It needs PostgreSQL 13 or newer and a role with CREATE on the database, which then owns the schema claims_cell. Run it again to replace the
-- functions; the rows stay. Roles that save need
--
--   GRANT USAGE ON SCHEMA claims_cell TO role;
--   GRANT EXECUTE ON FUNCTION claims_cell.track_lease(uuid), claims_cell.forget_leases(uuid[]),
--       claims_cell.judge_leases(jsonb, interval), claims_cell.fence_leases(uuid[]),
--       claims_cell.tracked_leases(uuid, int), claims_cell.purge_fences(interval) TO role;
--
-- README.md beside this file says how to call them.

BEGIN;

DO $$
DECLARE
    owner name := (SELECT pg_catalog.pg_get_userbyid(nspowner) FROM pg_catalog.pg_namespace WHERE nspname = 'claims_cell');
BEGIN
    IF pg_catalog.current_setting('server_version_num')::int < 130000 THEN
        RAISE EXCEPTION 'PostgreSQL % is too old', pg_catalog.current_setting('server_version')
            USING ERRCODE = '0A000', HINT = 'Use PostgreSQL 13 or newer.';
    ELSIF owner IS NULL THEN
        CREATE SCHEMA claims_cell;
    ELSIF owner <> current_user THEN
        -- Functions of this file run with the rights of their owner, so nobody else may own what they use.
        RAISE EXCEPTION 'schema claims_cell belongs to another role'
            USING ERRCODE = '42501', DETAIL = pg_catalog.format('Role %I owns it.', owner), HINT = 'Run this file as that role.';
    END IF;
END $$;

COMMENT ON SCHEMA claims_cell IS 'The cell''s half of the lease protocol of claims, for a database without the extension.';

CREATE TABLE IF NOT EXISTS claims_cell.cells_outstanding_leases (
    uuid       uuid        PRIMARY KEY,
    created_at timestamptz NOT NULL DEFAULT pg_catalog.clock_timestamp(),
    updated_at timestamptz NOT NULL DEFAULT pg_catalog.clock_timestamp(),
    tracked_by xid8        NOT NULL DEFAULT pg_catalog.pg_current_xact_id()
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);
COMMENT ON TABLE claims_cell.cells_outstanding_leases IS
    'The leases whose local transaction committed, until the service has confirmed their commit.';
COMMENT ON COLUMN claims_cell.cells_outstanding_leases.uuid IS
    'The lease. Tracking and fencing a lease both insert this key, so that one always meets the other.';
COMMENT ON COLUMN claims_cell.cells_outstanding_leases.created_at IS 'When it was tracked (clock time).';
COMMENT ON COLUMN claims_cell.cells_outstanding_leases.updated_at IS 'When the row last changed (clock time).';
COMMENT ON COLUMN claims_cell.cells_outstanding_leases.tracked_by IS 'The transaction that tracked it.';

CREATE TABLE IF NOT EXISTS claims_cell.lease_fences (
    lease_uuid uuid        PRIMARY KEY,
    fenced_at  timestamptz NOT NULL DEFAULT pg_catalog.clock_timestamp(),
    fenced_by  xid8        NOT NULL DEFAULT pg_catalog.pg_current_xact_id()
);
CREATE INDEX IF NOT EXISTS lease_fences_fenced_at ON claims_cell.lease_fences (fenced_at);
COMMENT ON TABLE claims_cell.lease_fences IS
    'The leases that recovery has given up: no local transaction can track them any more. purge_fences() deletes old ones.';
COMMENT ON COLUMN claims_cell.lease_fences.lease_uuid IS 'The lease.';
COMMENT ON COLUMN claims_cell.lease_fences.fenced_at IS 'When it was fenced (clock time).';
COMMENT ON COLUMN claims_cell.lease_fences.fenced_by IS 'The transaction that fenced it.';
COMMENT ON INDEX claims_cell.lease_fences_fenced_at IS 'Finds the fences that purge_fences() deletes.';

-- --- helpers, for the owner only ---------------------------------------------------------------------------------------

-- Returns the setting claims.wait_timeout in milliseconds, 0 where it is not set. As for PostgreSQL's own settings a number
-- without a unit means milliseconds.
CREATE OR REPLACE FUNCTION claims_cell.wait_timeout_ms() RETURNS bigint LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    value text := coalesce(nullif(btrim(current_setting('claims.wait_timeout', true)), ''), '0');
BEGIN
    RETURN greatest(0, least(2147483647, CASE WHEN value ~ '^[0-9]{1,10}$' THEN value::numeric
        ELSE 1000 * extract(epoch FROM value::interval)::numeric END))::bigint;
EXCEPTION WHEN invalid_datetime_format OR datetime_field_overflow OR interval_field_overflow THEN
    RAISE EXCEPTION 'invalid value for parameter "claims.wait_timeout": "%"', value
        USING ERRCODE = '22023', HINT = 'Give a time, such as 250ms or 2s.';
END $$;

-- Limits the waits for locks to some milliseconds. A function with a lock_timeout of its own calls it, so that the limit ends with that
-- function. 0 would disable the timeout, so it means one millisecond.
CREATE OR REPLACE FUNCTION claims_cell.limit_lock_waits(milliseconds bigint) RETURNS void LANGUAGE sql VOLATILE AS $$
    SELECT pg_catalog.set_config('lock_timeout', greatest(milliseconds, 1)::text, true) $$;

-- Keeps the caller's COMMIT from returning before it is on disk: recovery acts at the service on what is committed here.
CREATE OR REPLACE FUNCTION claims_cell.commit_durably() RETURNS void LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF current_setting('synchronous_commit') = 'off' THEN PERFORM set_config('synchronous_commit', 'local', true); END IF;
END $$;

-- Returns whether the caller's statements read the latest committed rows. Under REPEATABLE READ and SERIALIZABLE they read an old snapshot.
CREATE OR REPLACE FUNCTION claims_cell.reads_latest() RETURNS boolean LANGUAGE sql STABLE AS $$
    SELECT pg_catalog.current_setting('transaction_isolation') NOT IN ('repeatable read', 'serializable') $$;

-- Returns whether a lease is fenced: by a fence that is committed now, under every isolation level, or by this transaction. Only a unique
-- index shows the latest rows to a transaction with an old snapshot. So such a transaction inserts the fence, and takes that back. NULL if another
-- open transaction keeps it from knowing.
CREATE OR REPLACE FUNCTION claims_cell.is_fenced(lease uuid) RETURNS boolean LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF claims_cell.reads_latest() THEN
        RETURN EXISTS (SELECT FROM claims_cell.lease_fences f WHERE f.lease_uuid = lease);
    END IF;
    INSERT INTO claims_cell.lease_fences (lease_uuid) VALUES (lease);
    RAISE EXCEPTION SQLSTATE 'CL001';
EXCEPTION
    WHEN unique_violation THEN RETURN true;
    WHEN SQLSTATE 'CL001' THEN RETURN false;
    WHEN lock_not_available OR deadlock_detected OR serialization_failure THEN RETURN NULL;
END $$;

-- Returns whether a lease is tracked by a transaction that is committed now, under every isolation level, or by this one, and whether the
-- rows that this call has seen are newer than the end of transaction xid.
CREATE OR REPLACE FUNCTION claims_cell.tracked_now(lease uuid, xid xid8, OUT tracked boolean, OUT end_is_visible boolean)
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF claims_cell.reads_latest() THEN
        SELECT EXISTS (SELECT FROM claims_cell.cells_outstanding_leases t WHERE t.uuid = lease),
               coalesce(pg_visible_in_snapshot(xid, pg_current_snapshot()), false) INTO tracked, end_is_visible;
        RETURN;
    END IF;
    -- The unique index shows rows of every transaction that had ended before this statement.
    end_is_visible := true;
    INSERT INTO claims_cell.cells_outstanding_leases (uuid) VALUES (lease);
    RAISE EXCEPTION SQLSTATE 'CL001';
EXCEPTION
    WHEN unique_violation THEN tracked := true;
    WHEN SQLSTATE 'CL001' THEN tracked := false;
    -- An open transaction has written the row, so nothing is known about it.
    WHEN lock_not_available OR deadlock_detected OR serialization_failure THEN tracked := false; end_is_visible := false;
END $$;

-- Returns the state of a transaction as pg_xact_status() does, and NULL for ids that this server has not assigned, or not to a transaction.
CREATE OR REPLACE FUNCTION claims_cell.xact_status(xid xid8) RETURNS text LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF xid IS NULL OR xid::text::numeric % 4294967296 < 3 THEN RETURN NULL; END IF;
    RETURN pg_xact_status(xid);
EXCEPTION WHEN invalid_parameter_value THEN
    RETURN NULL;        -- in the future
END $$;

-- Fences those of the leases that are not tracked, and returns them. It first inserts the keys that track_lease inserts, in uuid order. So it
-- meets every track_lease of the same lease, whether that is still open, committed, or yet to begin. Returns NULL, and fences none, if one
-- of the leases conflicts with another transaction for longer than the caller's lock_timeout.
CREATE OR REPLACE FUNCTION claims_cell.fence(leases uuid[]) RETURNS uuid[] LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    free uuid[];
BEGIN
    WITH taken AS (
        INSERT INTO claims_cell.cells_outstanding_leases (uuid) SELECT u FROM unnest(leases) AS u ORDER BY u
        ON CONFLICT DO NOTHING RETURNING uuid)
    SELECT coalesce(array_agg(uuid), '{}') INTO free FROM taken;
    DELETE FROM claims_cell.cells_outstanding_leases WHERE uuid = ANY (free);
    INSERT INTO claims_cell.lease_fences (lease_uuid) SELECT u FROM unnest(free) AS u ORDER BY u ON CONFLICT DO NOTHING;
    RETURN free;
EXCEPTION WHEN lock_not_available OR deadlock_detected OR serialization_failure THEN
    RETURN NULL;
END $$;

-- Checks that an array of leases has no NULL and at most 100,000 elements.
CREATE OR REPLACE FUNCTION claims_cell.check_leases(leases uuid[], argument text) RETURNS void LANGUAGE plpgsql IMMUTABLE
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    missing int := array_position(leases, NULL);
BEGIN
    IF cardinality(leases) > 100000 THEN
        RAISE EXCEPTION '% has too many leases', argument
            USING ERRCODE = '54000', DETAIL = format('There are %s; at most 100000 are allowed.', cardinality(leases)), HINT = 'Call it with fewer.';
    ELSIF missing IS NOT NULL THEN
        RAISE EXCEPTION '%[%] must not be null', argument, missing - array_lower(leases, 1) USING ERRCODE = '22023', HINT = 'Give a value.';
    END IF;
END $$;

-- --- what a cell calls -------------------------------------------------------------------------------------------------

-- These functions plan without sequential scans: the tables are often empty when a session plans, and must be read by their keys later.

CREATE OR REPLACE FUNCTION claims_cell.track_lease(lease_uuid uuid) RETURNS void LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET lock_timeout = '5ms' SET enable_seqscan = off AS $$
DECLARE
    is_fenced boolean;
BEGIN
    IF lease_uuid IS NULL THEN
        RAISE EXCEPTION 'lease_uuid must not be null' USING ERRCODE = '22023', HINT = 'Give a value.';
    END IF;
    PERFORM claims_cell.limit_lock_waits(greatest(5, claims_cell.wait_timeout_ms()));
    BEGIN
        INSERT INTO claims_cell.cells_outstanding_leases (uuid) VALUES (lease_uuid) ON CONFLICT DO NOTHING;
        -- An earlier fence is committed by now, and a later one meets the key.
        is_fenced := claims_cell.is_fenced(lease_uuid);
    EXCEPTION WHEN lock_not_available OR deadlock_detected THEN
        is_fenced := NULL;
    END;
    IF is_fenced IS NULL THEN
        RAISE EXCEPTION 'lease is being tracked or fenced by another open transaction'
            USING ERRCODE = '55P03', HINT = 'Roll this transaction back, and repeat it with a new lease.';
    ELSIF is_fenced THEN
        RAISE EXCEPTION 'lease % was given up by recovery', lease_uuid
            USING ERRCODE = '55000', DETAIL = 'It was not tracked in time, and is or will be rolled back at the service.',
                  HINT = 'Roll this transaction back, and repeat it with a new lease.';
    END IF;
    PERFORM claims_cell.commit_durably();
END $$;
COMMENT ON FUNCTION claims_cell.track_lease(uuid) IS
    'Records, in the local transaction, that the lease commits if that transaction commits. Call it after begin_update at the service and before '
    'the local COMMIT. 55000 if recovery has given the lease up; 55P03 if another open transaction is tracking or fencing it. May be repeated. '
    'Locks the lease''s key; waits for claims.wait_timeout, but at least 5 ms.';

CREATE OR REPLACE FUNCTION claims_cell.forget_leases(lease_uuids uuid[]) RETURNS bigint LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    lease uuid;
    forgotten bigint := 0;
    deleted bigint;
BEGIN
    PERFORM claims_cell.check_leases(lease_uuids, 'lease_uuids');
    FOR lease IN SELECT DISTINCT u FROM unnest(lease_uuids) AS u ORDER BY u LOOP
        BEGIN
            DELETE FROM claims_cell.cells_outstanding_leases t
             WHERE t.uuid = (SELECT l.uuid FROM claims_cell.cells_outstanding_leases l WHERE l.uuid = lease FOR UPDATE SKIP LOCKED);
            GET DIAGNOSTICS deleted = ROW_COUNT;
            forgotten := forgotten + deleted;
        EXCEPTION WHEN serialization_failure THEN
            NULL;       -- another session has forgotten it since this transaction's snapshot
        END;
    END LOOP;
    RETURN forgotten;
END $$;
COMMENT ON FUNCTION claims_cell.forget_leases(uuid[]) IS
    'Deletes tracked leases, after the service has confirmed how they ended, and returns how many. Locks their rows, in uuid order, skipping those '
    'that another session is forgetting.';

CREATE OR REPLACE FUNCTION claims_cell.fence_leases(lease_uuids uuid[]) RETURNS TABLE (lease_uuid uuid, fenced boolean)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '1ms' SET enable_seqscan = off SET enable_nestloop = off AS $$
DECLARE
    deadline timestamptz := clock_timestamp() + claims_cell.wait_timeout_ms() * interval '1 ms';
    wanted uuid[];
    newly uuid[];
    lease uuid;
BEGIN
    PERFORM claims_cell.check_leases(lease_uuids, 'lease_uuids');
    wanted := ARRAY(SELECT DISTINCT u FROM unnest(lease_uuids) AS u ORDER BY u);
    -- All together without waiting, then one by one until the deadline.
    IF cardinality(wanted) > 1 THEN newly := claims_cell.fence(wanted); END IF;
    IF newly IS NULL THEN
        FOREACH lease IN ARRAY wanted LOOP
            PERFORM claims_cell.limit_lock_waits(ceil(1000 * extract(epoch FROM deadline - clock_timestamp()))::bigint);
            newly := newly || claims_cell.fence(ARRAY[lease]);
        END LOOP;
    END IF;
    IF newly <> '{}' THEN PERFORM claims_cell.commit_durably(); END IF;
    RETURN QUERY SELECT w.lease, n.lease IS NOT NULL FROM unnest(wanted) AS w (lease) LEFT JOIN unnest(newly) AS n (lease) USING (lease) ORDER BY 1;
END $$;
COMMENT ON FUNCTION claims_cell.fence_leases(uuid[]) IS
    'Forbids local transactions to track the leases. Returns for each whether it is fenced: true once this transaction has committed; false if it '
    'is tracked, or if another open transaction is tracking or fencing it. Only then may the service roll the lease back. Locks the leases'' keys, in '
    'uuid order, until the transaction ends; waits for claims.wait_timeout in total.';

CREATE OR REPLACE FUNCTION claims_cell.judge_leases(leases jsonb, stale_after interval DEFAULT '10 minutes')
RETURNS TABLE (lease_uuid uuid, verdict text)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '1ms' SET enable_seqscan = off SET enable_nestloop = off AS $$
DECLARE
    me xid8 := pg_current_xact_id_if_assigned();
    called_at timestamptz := clock_timestamp();
    missing text;
    uuids uuid[];
    xids xid8[];
    stale boolean[];
    fenced boolean[] := '{}';
    statuses text[] := '{}';
    steps text[] := '{}';
    state record;
    newly uuid[];
BEGIN
    IF leases IS NULL THEN
        RAISE EXCEPTION 'leases must not be null' USING ERRCODE = '22023', HINT = 'Give a value.';
    ELSIF stale_after IS NULL THEN
        RAISE EXCEPTION 'stale_after must not be null' USING ERRCODE = '22023', HINT = 'Give a value.';
    END IF;
    -- Each lease once. A created_at as far in the future as stale_after tells no age, so that lease is stale, too.
    WITH given AS MATERIALIZED (
        SELECT e.place, l.* FROM jsonb_array_elements(leases) WITH ORDINALITY AS e (element, place),
               jsonb_to_record(e.element) AS l (lease_uuid uuid, created_at timestamptz, cell_xid xid8)),
    first AS (SELECT DISTINCT ON (g.lease_uuid) g.* FROM given g ORDER BY g.lease_uuid, g.place)
    SELECT array_agg(f.lease_uuid ORDER BY f.place), array_agg(f.cell_xid ORDER BY f.place),
           array_agg(f.created_at <= called_at - stale_after OR f.created_at > called_at + stale_after + interval '1 minute' ORDER BY f.place),
           (SELECT 'leases[' || g.place - 1 || '].' || CASE WHEN g.lease_uuid IS NULL THEN 'lease_uuid' ELSE 'created_at' END
              FROM given g WHERE g.lease_uuid IS NULL OR g.created_at IS NULL ORDER BY g.place LIMIT 1)
      INTO uuids, xids, stale, missing FROM first f;
    IF missing IS NOT NULL THEN
        RAISE EXCEPTION '% must not be null', missing USING ERRCODE = '22023', HINT = 'Give a value.';
    END IF;
    PERFORM claims_cell.check_leases(uuids, 'leases');

    -- The order matters. Only fences that were committed before this call count. Then the states of the transactions are read, and after
    -- that, in newer snapshots, the tracked leases: if a transaction had ended by then, its row is there now or never will be.
    FOR n IN 1 .. coalesce(cardinality(uuids), 0) LOOP
        fenced := fenced || (coalesce(claims_cell.is_fenced(uuids[n]), false)
            AND NOT EXISTS (SELECT FROM claims_cell.lease_fences f WHERE f.lease_uuid = uuids[n] AND f.fenced_by = me));
    END LOOP;
    FOR n IN 1 .. coalesce(cardinality(uuids), 0) LOOP
        statuses := statuses || claims_cell.xact_status(xids[n]);
    END LOOP;
    FOR n IN 1 .. coalesce(cardinality(uuids), 0) LOOP
        state := claims_cell.tracked_now(uuids[n], xids[n]);
        steps := steps || CASE
            -- What this transaction has tracked itself is not saved before it commits.
            WHEN EXISTS (SELECT FROM claims_cell.cells_outstanding_leases t WHERE t.uuid = uuids[n] AND t.tracked_by = me) THEN 'wait'
            WHEN state.tracked THEN 'commit'
            WHEN statuses[n] = 'in progress' THEN 'wait'
            WHEN fenced[n] THEN 'rollback'
            WHEN statuses[n] IS NOT NULL AND state.end_is_visible THEN 'fence, rollback'
            WHEN statuses[n] IS NOT NULL THEN 'wait'
            WHEN stale[n] THEN 'fence, wait'
            ELSE 'wait' END;
    END LOOP;

    newly := ARRAY(SELECT f.lease_uuid FROM claims_cell.fence_leases(
        ARRAY(SELECT s.lease FROM unnest(uuids, steps) AS s (lease, step) WHERE s.step LIKE 'fence, %')) AS f WHERE f.fenced);
    RETURN QUERY SELECT s.lease, CASE
            WHEN s.step NOT LIKE 'fence, %' THEN s.step
            WHEN n.lease IS NOT NULL THEN substr(s.step, 8)
            -- It could not be fenced, so another transaction has tracked it, or may yet.
            WHEN (claims_cell.tracked_now(s.lease, NULL)).tracked THEN 'commit'
            ELSE 'wait' END
        FROM unnest(uuids, steps) WITH ORDINALITY AS s (lease, step, place) LEFT JOIN unnest(newly) AS n (lease) ON n.lease = s.lease
        ORDER BY s.place;
END $$;
COMMENT ON FUNCTION claims_cell.judge_leases(jsonb, interval) IS
    'The verdict on leases that are outstanding at the service, an array of {"lease_uuid", "created_at", "cell_xid"} as list_leases returns them: '
    'commit (tracked here), rollback (it can never be tracked any more) or wait. A lease older than stale_after is fenced, and rolled back by a later '
    'call that finds the fence committed; if cell_xid is known, the state of that transaction decides, not the age. Locks the keys of the leases that '
    'it fences, in uuid order; waits at most claims.wait_timeout.';

CREATE OR REPLACE FUNCTION claims_cell.tracked_leases(after uuid DEFAULT NULL, max_results int DEFAULT 1000)
RETURNS TABLE (lease_uuid uuid, created_at timestamptz) LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT t.uuid, t.created_at FROM claims_cell.cells_outstanding_leases t WHERE after IS NULL OR t.uuid > after ORDER BY t.uuid
     LIMIT least(greatest(max_results, 1), 10000) $$;
COMMENT ON FUNCTION claims_cell.tracked_leases(uuid, int) IS
    'A page of the tracked leases, in uuid order, after a uuid. Recovery asks the service for the outcome of those that are no longer outstanding there.';

CREATE OR REPLACE FUNCTION claims_cell.purge_fences(older_than interval DEFAULT '7 days') RETURNS bigint LANGUAGE sql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
    WITH old AS MATERIALIZED (
        SELECT f.lease_uuid FROM claims_cell.lease_fences f WHERE f.fenced_at <= clock_timestamp() - older_than
         ORDER BY f.fenced_at LIMIT 10000 FOR UPDATE SKIP LOCKED),
    -- Of sessions whose start this role may not see, any could have an old transaction.
    alive AS MATERIALIZED (
        SELECT coalesce(a.xact_start, a.backend_start, '-infinity') AS since FROM pg_stat_activity a
         WHERE a.datname = current_database() AND a.pid <> pg_backend_pid()
           AND (a.xact_start IS NOT NULL OR a.state = 'disabled' OR a.query = '<insufficient privilege>')),
    purged AS (
        DELETE FROM claims_cell.lease_fences f USING old
         WHERE f.lease_uuid = old.lease_uuid AND NOT EXISTS (SELECT FROM alive WHERE alive.since <= f.fenced_at)
        RETURNING 1)
    SELECT count(*) FROM purged $$;
COMMENT ON FUNCTION claims_cell.purge_fences(interval) IS
    'Deletes fences that are older than older_than and than every open transaction of this database, at most 10,000, and returns how many. Keeps them '
    'while a session is there whose start the owner of this function may not see; pg_read_all_stats lets it. Locks the rows, skipping locked ones.';

REVOKE ALL ON ALL TABLES IN SCHEMA claims_cell FROM PUBLIC;
REVOKE ALL ON ALL FUNCTIONS IN SCHEMA claims_cell FROM PUBLIC;

COMMIT;
