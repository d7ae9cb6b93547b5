"""The cost of the change feed: begin and commit with it on and off, in pairs."""

from lib import BATCHES, NEARLY_EMPTY, QUICK, Section, cycles, median, pgbench, psql, say
from workload import clean, functions, make_database

OWN_DATABASES = True
DATABASE = "feed"
COUNTS = {1: 400, 10: 100, 100: 20, 1000: 4}
ROUNDS = 8 if QUICK else 40
SECONDS = 1 if QUICK else 2


# The rows that the feed inserts, into a table of their own: a copy of the feed's with its index and its sequence, so that what remains is what
# PostgreSQL needs for one row. One statement inserts many, so its own start does not count.
FLOOR = f"""
    CREATE TABLE bench.rows_of_feed (LIKE claims.change_sets INCLUDING ALL);
    CREATE FUNCTION bench.row_of_feed(count int) RETURNS float8 LANGUAGE plpgsql AS $$
    DECLARE started timestamptz := clock_timestamp();
    BEGIN
      INSERT INTO bench.rows_of_feed (xid, at, op, new_cell_id, lease_uuid, actor, bucket_types, bucket_values)
      SELECT pg_current_xact_id(), started, 'create', 1, gen_random_uuid(), current_user, ARRAY[1], ARRAY['123456789/p1'] FROM generate_series(1, count);
      RETURN extract(epoch FROM clock_timestamp() - started) * 1e6 / count;
    END $$;"""
FLOOR_ROWS = 5000
# At one claim PostgreSQL's own insert of the row takes nearly a tenth of a begin and a commit (PROFILE.md).
ONE_CLAIM = 1.15


def switch(state):
    psql(DATABASE, f"ALTER ROLE cell_1 IN DATABASE {DATABASE} SET claims.change_feed = {state}")


def in_server(size):
    """Begin and commit of a create, then of a destroy, in µs a lease."""
    return cycles(DATABASE, "claims", size, COUNTS[size])


def client(size):
    """Leases a second with one connection, every transaction durable."""
    return 2 * pgbench(DATABASE, functions("claims", size), seconds=SECONDS)


def row_of_feed():
    """µs of one row like those of the feed, inserted by a statement that inserts many."""
    return float(psql(DATABASE, f"SELECT bench.row_of_feed({FLOOR_ROWS}); TRUNCATE bench.rows_of_feed"))


def in_pairs(measure, size, beside=lambda: None):
    """Returns measurements with the feed off and on, one right after the other, in changing order. The first pair only warms up. `beside` is
    measured after each pair."""
    pairs = []
    for turn in range(ROUNDS):
        found = {}
        for state in ("off", "on") if turn % 2 else ("on", "off"):
            switch(state)
            found[state] = measure(size)
        if turn:
            pairs.append((found["off"], found["on"], beside()))
        clean(DATABASE)
    return pairs


def run():
    make_database(DATABASE, NEARLY_EMPTY)
    psql(DATABASE, FLOOR)
    section = Section("The change feed",
                      "Begin and commit with claims.change_feed off and on, one right after the other; medians, of the ratio over the pairs. "
                      "In the server, µs for begin and commit of a lease that creates and of one that destroys; and leases a second with one "
                      "connection, every transaction durable. The floor of the ratio is what the rows of the feed take alone, without a call: "
                      f"begin and commit with the feed off, and two rows of a statement that inserts {FLOOR_ROWS} of them into a copy of the feed.")
    rows = []
    for size in BATCHES:
        say(f"change feed, {size} claims a batch")
        pairs = in_pairs(in_server, size, row_of_feed)
        ratio = median(sum(on) / sum(off) for off, on, _ in pairs)
        floor = median((sum(off) + 2 * row) / sum(off) for off, _, row in pairs)
        show = lambda state: " / ".join(f"{median(pair[state][part] + pair[state][part + 1] for pair in pairs):.0f}" for part in (0, 2))
        rows.append([size, show(0), show(1), f"{ratio:.2f}", f"{median(row for *_, row in pairs):.1f}", f"{floor:.2f}"])
        section.at_most(f"change feed, {size} a batch: begin + commit on / off", ratio, ONE_CLAIM if size == 1 else 1.1)
    section.tables.append(("in the server, create / destroy",
                           ["claims a batch", "off", "on", "on / off", "a row of the feed alone, µs", "floor of on / off"], rows))
    rows = []
    for size in BATCHES[:2]:
        say(f"change feed, {size} claims a batch, durable")
        pairs = in_pairs(client, size)
        ratio = median(off / on for off, on, _ in pairs)
        rows.append([size, f"{median(off for off, *_ in pairs):.0f}", f"{median(on for _, on, _ in pairs):.0f}", f"{ratio:.2f}"])
        section.at_most(f"change feed, {size} a batch, durable: off / on", ratio, 1.1)
    section.tables.append(("leases a second", ["claims a batch", "off", "on", "off / on"], rows))
    psql(DATABASE, "CREATE INDEX change_sets_bucket ON claims.change_sets USING gin (bucket_values)")
    rows = []
    for size in BATCHES:
        say(f"change feed with an index by bucket, {size} claims a batch")
        pairs = in_pairs(in_server, size)
        rows.append([size, f"{median(sum(on) / sum(off) for off, on, _ in pairs):.2f}"])
    section.tables.append(("with an index by bucket (USING gin), which administrators may make; in the server", ["claims a batch", "on / off"], rows))
    told, wrong = psql(DATABASE, "SELECT count(*), (SELECT count(*) FROM claims.check()) FROM claims.change_sets").split("|")
    if told == "0" or wrong != "0":
        raise RuntimeError(f"the feed has {told} rows, claims.check() finds {wrong} violations")
    psql("postgres", f"DROP DATABASE {DATABASE}")
    return section
