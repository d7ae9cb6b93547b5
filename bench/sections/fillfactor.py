"""Sizes and costs of the table of claims by its fillfactor, after its claims were replaced several times. Run by its name alone."""

from pathlib import Path

from lib import CELL_ROLES, QUICK, WITHOUT_FLUSHES, Section, Session, psql, say, server_settings

OWN_DATABASES = True
TITLE = "Fillfactor"
FILLFACTORS = [40, 50, 60, 70]
CLAIMS = 10_000 if QUICK else 20_000
# Each claim is replaced by a new one this many times, on average; after each part of that, VACUUM.
TURNOVERS = 1 if QUICK else 2
PARTS = 10
READS = 2_000 if QUICK else 20_000

# Batches as applications make them: nine of ten save one row, some a group of rows, a few import many.
SIZES = "ARRAY[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,10,10,10,10,100]"
MAKE = """
CREATE SCHEMA bench;
GRANT USAGE ON SCHEMA bench TO PUBLIC;
CREATE TABLE bench.live (n bigint PRIMARY KEY, name text NOT NULL);
GRANT SELECT, INSERT, DELETE ON bench.live TO PUBLIC;
CREATE SEQUENCE bench.names;
GRANT USAGE ON SEQUENCE bench.names TO PUBLIC;
CREATE FUNCTION bench.records(names text[]) RETURNS jsonb LANGUAGE sql AS $$
  SELECT coalesce(jsonb_agg(jsonb_build_object(
           'bucket', jsonb_build_object('type', 1, 'value', n.name),
           'subject', jsonb_build_object('type', 2, 'id', 9970),
           'source', jsonb_build_object('type', 3, 'rails_primary_key_id', abs(hashtext(n.name))))), '[]')
    FROM unnest(names) AS n (name)
$$;
-- Each begin and each end of a lease is a transaction of its own. The names of a batch lie side by side, the batches anywhere.
CREATE PROCEDURE bench.create_claims(total int, largest int) LANGUAGE plpgsql AS $$
DECLARE
  sizes int[] := {sizes};
  made int := 0;
  size int;
  first bigint;
  names text[];
  lease uuid;
BEGIN
  WHILE made < total LOOP
    size := CASE WHEN random() < 0.002 THEN largest ELSE sizes[1 + floor(random() * 50)::int] END;
    first := nextval('bench.names');
    names := ARRAY(SELECT md5(first::text) || '/project-' || i FROM generate_series(1, size) i);
    lease := claims.begin_update(1, bench.records(names));
    COMMIT;
    -- One lease of fifty is rolled back.
    IF random() < 0.02 THEN
      PERFORM claims.rollback_update(1, lease);
    ELSE
      PERFORM claims.commit_update(1, lease);
      INSERT INTO bench.live SELECT first * 10000 + i, names[i] FROM generate_series(1, size) i;
      made := made + size;
    END IF;
    COMMIT;
  END LOOP;
END $$;
CREATE PROCEDURE bench.destroy_claims(total int) LANGUAGE plpgsql AS $$
DECLARE
  sizes int[] := {sizes};
  gone int := 0;
  names text[];
  lease uuid;
  lowest bigint := (SELECT min(n) FROM bench.live);
  highest bigint := (SELECT max(n) FROM bench.live);
BEGIN
  WHILE gone < total LOOP
    WITH chosen AS (SELECT n, name FROM bench.live WHERE n >= lowest + floor(random() * (highest - lowest))::bigint ORDER BY n
                   LIMIT sizes[1 + floor(random() * 50)::int]),
         deleted AS (DELETE FROM bench.live l USING chosen s WHERE l.n = s.n RETURNING s.name)
    SELECT array_agg(name) INTO names FROM deleted;
    CONTINUE WHEN names IS NULL;
    lease := claims.begin_update(1, '[]', bench.records(names));
    COMMIT;
    PERFORM claims.commit_update(1, lease);
    COMMIT;
    gone := gone + cardinality(names);
  END LOOP;
END $$;
"""


def processor_seconds(session, statement):
    """Seconds of processor time that the session's backend uses for a statement. Other processes do not count."""
    schedstat = Path(f"/proc/{session.run('SELECT pg_backend_pid()')}/schedstat")
    used = lambda: int(schedstat.read_text().split()[0]) / 1e9
    before = used()
    session.run(statement)
    return used() - before


def written(session, statement):
    """MB of WAL that a statement writes, and seconds of processor time."""
    before = session.run("SELECT pg_current_wal_insert_lsn()")
    seconds = processor_seconds(session, statement)
    return float(session.run(f"SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '{before}') / 1e6")), seconds


def measure(fillfactor):
    """Returns the figures of one fillfactor."""
    database = f"filled_{fillfactor}"
    psql("postgres", CELL_ROLES + f"CREATE DATABASE {database} TEMPLATE template0 ENCODING 'UTF8'")
    psql(database, "CREATE EXTENSION claims; SELECT claims.register_cell(1, 'cell_1');"
         f"ALTER TABLE claims.claims SET (fillfactor = {fillfactor}, autovacuum_enabled = off)")
    psql(database, MAKE.replace("{sizes}", SIZES))
    wal = churn = vacuum = 0.0
    with Session(database, role="cell_1") as cell, Session(database) as admin:
        # Every fillfactor gets the same names and batches.
        cell.run("SELECT setseed(0.5)")
        cell.run(f"CALL bench.create_claims({CLAIMS}, 1000)")
        admin.run("VACUUM ANALYZE claims.claims")
        for _ in range(TURNOVERS * PARTS):
            for call in (f"CALL bench.destroy_claims({CLAIMS // PARTS})", f"CALL bench.create_claims({CLAIMS // PARTS}, 1000)"):
                megabytes, seconds = written(cell, call)
                wal, churn = wal + megabytes, churn + seconds
            vacuum += processor_seconds(admin, "VACUUM claims.claims")
        read = processor_seconds(admin, f"""SELECT count(r.uuid) FROM
            (SELECT name FROM bench.live ORDER BY hashtext(name) LIMIT {READS}) l, claims.get_record('ROUTES', l.name) r""")
        listed = processor_seconds(admin, "SELECT count(*) FROM claims.list_records(1, max_results => 10000)")
        checked = processor_seconds(admin, "SELECT count(*) FROM claims.check()")
        live = int(admin.run("SELECT count(*) FROM claims.claims"))
        heap, names, sources, hot = (float(part) for part in admin.run("""
            SELECT pg_relation_size('claims.claims') / 1e6, pg_relation_size('claims.claims_bucket') / 1e6,
                   pg_relation_size('claims.claims_source') / 1e6, 100.0 * n_tup_hot_upd / n_tup_upd
              FROM pg_stat_user_tables WHERE relid = 'claims.claims'::regclass""").split("|"))
    psql("postgres", f"DROP DATABASE {database}")
    say(f"fillfactor {fillfactor}: {live} claims, {heap:.1f} + {names:.1f} + {sources:.1f} MB, {hot:.1f} % HOT")
    return [fillfactor, f"{1e6 * heap / live:.0f}", f"{1e6 * names / live:.0f}", f"{1e6 * sources / live:.0f}",
            f"{1e6 * (heap + names + sources) / live:.0f}", f"{hot:.1f} %", f"{1e6 * wal / (TURNOVERS * CLAIMS):.0f}",
            f"{1e6 * churn / (TURNOVERS * CLAIMS):.0f}", f"{1e3 * vacuum / (TURNOVERS * PARTS):.0f}",
            f"{1e6 * read / READS:.1f}", f"{1e3 * listed:.0f}", f"{1e3 * checked:.0f}"]


@server_settings({**WITHOUT_FLUSHES, "synchronous_commit": "off"})
def run():
    section = Section(
        TITLE,
        f"{CLAIMS:,} claims, of which each was replaced by a new one {TURNOVERS} times on average: leases of 1 (nine of ten), 10, 100 and a few of 1,000 claims, "
        f"each begin and each end a transaction of its own, one of fifty rolled back. VACUUM after every tenth of the claims. Bytes a claim at the end, "
        "and processor time of the backend; the time for a replaced claim is mostly that of the test itself.")
    header = ["fillfactor", "table", "names", "sources", "all three", "HOT updates", "WAL a replaced claim", "its time, µs", "VACUUM, ms",
              "get_record, µs", "10,000 listed, ms", "check(), ms"]
    section.tables.append(("by fillfactor", header, [measure(fillfactor) for fillfactor in FILLFACTORS]))
    return section
