"""Begin and commit inside the server: the extension against the literal protocol."""

from lib import BATCHES, QUICK, TABLES, Section, cycles, in_turns, median, psql, say, server_settings
from workload import COUNTS, beside_literal, clean, make_database

ROUNDS = 6 if QUICK else 25

# The floor of what a million claims add: the rows of the claims alone, in a copy of their table with its two indexes, which a client inserts,
# updates twice and deletes by key, as begins and commits do. It has no lease, no outcome and no JSON.
PLAIN = """
    CREATE TABLE bench.plain (LIKE claims.claims INCLUDING ALL) WITH (fillfactor = 50, vacuum_truncate = off);
    INSERT INTO bench.plain SELECT * FROM claims.claims ORDER BY ctid;
    VACUUM ANALYZE bench.plain;
    CREATE PROCEDURE bench.cycles_plain(size int, count int, INOUT us text DEFAULT '') LANGUAGE plpgsql AS $$
    DECLARE
      batches bigint[] := ARRAY(SELECT n FROM (SELECT DISTINCT (random() * 5e8)::bigint * 2 + 1 FROM generate_series(1, count)) AS d (n)
                                 ORDER BY random());
      names text[]; batch bigint; lease uuid := gen_random_uuid();
      t0 timestamptz; t1 timestamptz; t2 timestamptz;
      spent interval[] := ARRAY['0', '0', '0', '0'];
    BEGIN
      FOREACH batch IN ARRAY batches LOOP
        names := ARRAY(SELECT batch || '/p' || i FROM generate_series(1, size) i ORDER BY 1);
        t0 := clock_timestamp();
        INSERT INTO bench.plain (uuid, bucket_type, bucket_value, subject_type, subject_id, source_type, source_id, creator_id, lease_uuid, status,
                                 created_at, updated_at)
        SELECT gen_random_uuid(), 1, name, 2, batch::text, 3, n::text, 1, lease, 2, t0, t0 FROM unnest(names) WITH ORDINALITY AS u (name, n);
        t1 := clock_timestamp();
        UPDATE bench.plain p SET status = 1, lease_uuid = NULL, updated_at = t1 WHERE p.bucket_value = ANY (names) AND p.bucket_type = 1;
        t2 := clock_timestamp();
        spent[1] := spent[1] + (t1 - t0);
        spent[2] := spent[2] + (t2 - t1);
      END LOOP;
      COMMIT;
      FOREACH batch IN ARRAY batches LOOP
        names := ARRAY(SELECT batch || '/p' || i FROM generate_series(1, size) i ORDER BY 1);
        t0 := clock_timestamp();
        UPDATE bench.plain p SET status = 3, lease_uuid = lease, updated_at = t0 WHERE p.bucket_value = ANY (names) AND p.bucket_type = 1;
        t1 := clock_timestamp();
        DELETE FROM bench.plain p WHERE p.bucket_value = ANY (names) AND p.bucket_type = 1;
        t2 := clock_timestamp();
        spent[3] := spent[3] + (t1 - t0);
        spent[4] := spent[4] + (t2 - t1);
      END LOOP;
      us := array_to_string(ARRAY(SELECT (extract(epoch FROM s) * 1e6 / cardinality(batches))::float8 FROM unnest(spent) s), ' ');
    END $$;
    GRANT INSERT, SELECT, UPDATE, DELETE ON bench.plain TO PUBLIC;"""


def measure_fresh(size):
    """The extension alone, on a table that never held a row before the session."""
    make_database(f"fresh_{size}", 0)
    took = cycles(f"fresh_{size}", "claims", size, COUNTS[size] * 5)
    psql("postgres", f"DROP DATABASE fresh_{size}")
    return took


def added_by_million(schemas, size):
    """µs of a begin and a commit of a create and of a destroy that a million claims add, and the time among a thousand. Medians over rounds in turn."""
    sides = [(database, schema) for database in TABLES for schema in schemas]

    def measure(side, _):
        database, schema = side
        took = sum(cycles(database, schema, size, COUNTS[size]))
        psql(database, "VACUUM bench.plain")
        clean(database)
        return took
    found = in_turns(sides, ROUNDS, measure)
    few, many = ({schema: median(found[database, schema][1:]) for schema in schemas} for database in TABLES)
    return {schema: (few[schema], many[schema] - few[schema]) for schema in schemas}


def among_million(section):
    """What a million claims add, beside a plain table with the same rows and indexes, and without images of whole pages in the log."""
    for database in TABLES:
        psql(database, PLAIN)
    rows = []
    for size in (1, 1000):
        for images in ("on", "off"):
            say(f"among a million claims, {size} a batch, full_page_writes {images}")
            with server_settings({"full_page_writes": images}):
                psql("postgres", "CHECKPOINT")
                added = added_by_million(["claims", "plain", "literal"], size)
            for schema, what in (("claims", "a"), ("plain", "the rows alone"), ("literal", "b")):
                few, more = added[schema]
                rows.append([size, images, what, f"{few:.0f}", f"+ {more:.0f}", f"{1 + more / few:.2f}"])
            if images == "on":
                beyond = (added["claims"][1] - added["plain"][1]) / size
                section.at_most(f"{size} a batch: what a million claims add, a claim, beyond what they add to the rows alone", beyond, 1.0, " µs")
    section.tables.append(("what a million claims add to all four calls, µs", ["claims a batch", "full_page_writes", "side", "among a thousand",
                                                                              "among a million", "million / empty"], rows))


def run():
    section = Section("Begin and commit in the server",
                      "One connection, many leases in one transaction, µs a call (medians). a is this extension, b the "
                      "literal protocol. Each session makes six leases first, which are not measured. Created claims are destroyed again, "
                      "by another transaction, so the tables keep their size: \"empty\" is a "
                      f"thousand claims, because the literal protocol makes bad plans for a table without rows.")
    cost = {}
    for database in TABLES:
        rows = []
        for size in BATCHES:
            say(f"in the server, {database} table, {size} claims a batch")
            a, b = beside_literal(database, size, ROUNDS, after_round=lambda: clean(database))
            create, destroy = sum(a[:2]) / sum(b[:2]), sum(a[2:]) / sum(b[2:])
            cost[database, size] = sum(a)
            pair = lambda v: f"{v[0]:.0f} + {v[1]:.0f}"
            rows.append([size, pair(a[:2]), pair(b[:2]), f"{create:.2f}", pair(a[2:]), pair(b[2:]), f"{destroy:.2f}"])
            wanted = 0.4 if database == "empty" and size in (10, 100) else 0.45
            section.at_most(f"create, {size} a batch, {database} table: a / b", create, wanted)
            section.at_most(f"destroy, {size} a batch, {database} table: a / b", destroy, 0.45)
        section.tables.append((f"{database} table, begin + commit", ["claims a batch", "create: a", "create: b", "a / b",
                                                                     "destroy: a", "destroy: b", "a / b"], rows))
    for size in BATCHES:
        section.at_most(f"{size} a batch: million / empty table", cost["million", size] / cost["empty", size], 1.3)
    among_million(section)
    rows = []
    for size in BATCHES:
        say(f"in the server, fresh database, {size} claims a batch")
        fresh = sum(measure_fresh(size))
        rows.append([size, f"{fresh:.0f}", f"{cost['empty', size]:.0f}", f"{fresh / cost['empty', size]:.2f}"])
        section.at_most(f"{size} a batch: fresh database / empty table", fresh / cost["empty", size], 1.3)
    section.tables.append(("this extension right after CREATE EXTENSION, no row and no statistics, all four calls",
                           ["claims a batch", "fresh", "empty table", "fresh / empty"], rows))
    return section
