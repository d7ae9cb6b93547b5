"""A fleet of cells: many sessions at one service, and what audit, ids, epochs and a second service cost."""

import os
import subprocess

from lib import CELL_ROLES, HERE, PRELOADED, QUICK, Section, cycles, in_turns, leading_to, median, on, pgbench, program, psql, say
from sections.cell_save import restart, saves

OWN_DATABASES = True
TITLE = "A fleet"
SESSIONS, PLACES = (60, 10) if QUICK else (500, 50)
# The second half counts. Until then every session must have had one of the places, which one keeps for five seconds.
SECONDS = 2 if QUICK else 120
ROUNDS = int(os.environ.get("BENCH_ROUNDS", 1 if QUICK else 3))
# A difference of a hundredth needs many pairs.
PAIRS = int(os.environ.get("BENCH_PAIRS", 6 if QUICK else 60))
CALLS = 500 if QUICK else 2000
DRAWN = 100_000

SERVICE, CELL = "fleet_service", "fleet_cell"
ROUTES = "CREATE TABLE {name} (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, name text UNIQUE); GRANT INSERT ON {name} TO cell_1;"


def at_cell(sql, role="postgres", database=CELL):
    return psql(database, sql, role, cluster="cell")


def make():
    say(f"a fleet: a service, and a cell with {SESSIONS} sessions")
    psql("postgres", CELL_ROLES + f"CREATE DATABASE {SERVICE} TEMPLATE template0 ENCODING 'UTF8'; ALTER ROLE cell_2 SET claims.audit = 'settled'")
    # Cells 1 and 2 differ by the audit of their roles only.
    psql(SERVICE, """CREATE EXTENSION claims; SELECT claims.register_cell(1, 'cell_1'), claims.register_cell(2, 'cell_2');
                     SELECT claims.add_id_space('rows', 'a measurement')""")
    psql(SERVICE, (HERE / "sql/cycles.sql").read_text().replace("{schema}", "claims"))
    at_cell("ALTER SYSTEM SET shared_preload_libraries = 'claims'", database="postgres")
    restart("cell")
    at_cell(CELL_ROLES + f"CREATE DATABASE {CELL} TEMPLATE template0 ENCODING 'UTF8'", database="postgres")
    at_cell(f"ALTER DATABASE {CELL} SET claims.service_timeout = '60s'", database="postgres")
    at_cell(f"""
        CREATE EXTENSION claims; SELECT claims.register_cell(1, 'cell_1');
        CREATE SERVER service FOREIGN DATA WRAPPER claims_service OPTIONS (host '{os.environ["PGHOST"]}', port '{os.environ["PGPORT"]}', dbname '{SERVICE}');
        CREATE USER MAPPING FOR PUBLIC SERVER service OPTIONS (user 'cell_1');
        {ROUTES.format(name="routes")} {ROUTES.format(name="unclaimed")}
        SELECT claims.claim_attribute('routes', 'name', 'ROUTES', 'GROUP', 'id', 'RAILS_TABLE_ROUTES', 'id');
        SELECT claims.automatic(1, 'service')""")


# --- many sessions --------------------------------------------------------------------------------------------------

def fleet(sessions, cap, limit=-1, table="routes"):
    """Returns what the program fleet prints: saves a second, median, 99th percentile and longest time in ms, sessions without a save,
    the longest time until an error, and the errors."""
    at_cell(f"ALTER SYSTEM SET claims.max_service_calls = {cap}")
    at_cell("SELECT pg_reload_conf()")
    psql("postgres", f"ALTER ROLE cell_1 CONNECTION LIMIT {limit}")
    host, port = os.environ["CLUSTER_cell"].rsplit(":", 1)
    environment = {**os.environ, "PGHOST": host, "PGPORT": port, "PGUSER": "cell_1", "PGDATABASE": CELL, "FLEET_TABLE": table}
    done = subprocess.run([program("fleet"), str(sessions), str(SECONDS)], text=True, capture_output=True, env=environment)
    if done.returncode != 0:
        raise RuntimeError(done.stderr.strip())
    *numbers, errors = done.stdout.split()
    psql("postgres", "ALTER ROLE cell_1 CONNECTION LIMIT -1")
    return [float(number) for number in numbers], errors


def sessions(section):
    sides = {
        f"{PLACES} sessions": (PLACES, 0, -1),
        f"{SESSIONS}, no cap": (SESSIONS, 0, -1),
        f"{SESSIONS}, cap 300": (SESSIONS, 300, -1),
        f"{SESSIONS}, cap {PLACES}": (SESSIONS, PLACES, -1),
        f"{SESSIONS}, {PLACES} places": (SESSIONS, 300, PLACES),
        # The floor: rows without claims.
        f"{PLACES} sessions, the row alone": (PLACES, 0, -1, "unclaimed"),
        f"{SESSIONS}, the row alone": (SESSIONS, 0, -1, "unclaimed"),
    }
    def saved(side, turn):
        say(f"a fleet: {side}, round {turn + 1}")
        return fleet(*sides[side])
    found = in_turns(sides, ROUNDS, saved)
    of = lambda side, column: median(numbers[column] for numbers, _ in found[side])
    rows = [[side, f"{of(side, 0):.0f}", *(f"{of(side, column):.1f}" for column in (1, 2, 3)), found[side][-1][1]] for side in sides]
    section.tables.append(("saves", ["sessions", "saves a second", "median, ms", "99 %, ms", "longest, ms", "errors"], rows))
    alone, free, large, small, full, few_rows, many_rows = (of(side, 0) for side in sides)
    section.tables.append((f"{SESSIONS} sessions over {PLACES}, saves a second", ["the row alone", "no cap", f"cap {PLACES}", f"{PLACES} places"],
                           [[f"{ratio:.2f}" for ratio in (many_rows / few_rows, free / alone, small / alone, full / alone)]]))
    section.at_least(f"{SESSIONS} sessions, cap {PLACES} / {PLACES} sessions: saves a second", small / alone, 0.9)
    section.at_least(f"{SESSIONS} sessions, {PLACES} places / {PLACES} sessions: saves a second", full / alone, 0.9)
    for side in list(sides)[2:5]:
        failed = sum(int(error.split("=")[1]) for _, errors in found[side] if errors != "none" for error in errors.split(","))
        section.at_most(f"{side}: saves that fail", failed, 0)
    section.at_least(f"{SESSIONS} sessions, cap 300 / no cap: saves a second", large / free, 0.9)
    section.at_least(f"{SESSIONS} sessions, cap {PLACES} / no cap: saves a second", small / free, 0.9)


# --- pairs ----------------------------------------------------------------------------------------------------------

RECORD = ("jsonb_build_array(jsonb_build_object('bucket', jsonb_build_object('type', 1, 'value', 'name-' || :n), "
          "'subject', '{\"type\": 2, \"id\": 1}'::jsonb, 'source', '{\"type\": 3, \"id\": 1}'::jsonb))")
NAME = "\\set n random(1, 9000000000000000000)\n"


def begin_commit(cell):
    return NAME + f"SELECT claims.begin_update({cell}, {RECORD}) AS lease \\gset\nSELECT claims.commit_update({cell}, :lease);\n"


def paired(what, one, other):
    """Measures two sides in turn. Returns the medians, and the median of the ratios of the pairs."""
    found = ([], [])
    for turn in range(PAIRS + 1):
        if turn % 10 == 0:
            say(f"a fleet: {what}, pair {turn}")
        took = [None, None]
        for at in (0, 1) if turn % 2 else (1, 0):
            took[at] = (one, other)[at]()
        # The first pair only warms up.
        if turn:
            found[0].append(took[0])
            found[1].append(took[1])
    return median(found[0]), median(found[1]), median(a / b for a, b in zip(*found))


def audit(section):
    """Begin and commit of a lease with one claim, each a transaction of a client, and in the server without transactions."""
    def by_client(cell):
        return lambda: 1e6 / pgbench(SERVICE, begin_commit(cell), transactions=CALLS, role=f"cell_{cell}")

    on, off, ratio = paired("audit, by a client", by_client(2), by_client(1))
    rows = [["by a client, each a durable transaction", f"{off:.0f}", f"{on:.0f}", f"{ratio:.3f}"]]
    section.at_most("audit: begin + commit by a client, with / without", ratio, 1.1)

    # The function calls for cell 1, so its role gets the setting in turn.
    def in_server(setting):
        def once():
            psql("postgres", f"ALTER ROLE cell_1 {setting}")
            took = cycles(SERVICE, "claims", 1, CALLS // 4)
            psql("postgres", "ALTER ROLE cell_1 RESET claims.audit")
            return sum(took[:2])
        return once

    on, off, ratio = paired("audit, in the server", in_server("SET claims.audit = 'settled'"), in_server("RESET claims.audit"))
    rows.append(["in the server, without their transactions", f"{off:.1f}", f"{on:.1f}", f"{ratio:.3f}"])
    section.tables.append(("audit: begin + commit of one claim, µs", ["", "off", "settled", "ratio"], rows))


def ids(section):
    at_cell("CREATE SEQUENCE plain; CREATE SEQUENCE ranged; SELECT claims.use_id_space('ranged', 'rows'); SELECT claims.refill_ids(1, 'service')")
    at_cell("""CREATE FUNCTION draw(sequence regclass, count int) RETURNS float8 LANGUAGE plpgsql AS $$
        DECLARE t0 timestamptz := clock_timestamp();
        BEGIN FOR i IN 1..count LOOP PERFORM nextval(sequence); END LOOP; RETURN extract(epoch FROM clock_timestamp() - t0) * 1e9 / count; END $$""")

    def draw(sequence):
        def once():
            at_cell("SELECT claims.refill_ids(1, 'service')")
            return float(at_cell(f"SELECT draw('{sequence}', {DRAWN})"))
        return once

    ranged, plain, ratio = paired("nextval", draw("ranged"), draw("plain"))
    section.tables.append(("nextval, ns", ["a sequence", "in an id space", "ratio"], [[f"{plain:.0f}", f"{ranged:.0f}", f"{ratio:.3f}"]]))
    section.at_most("nextval of a sequence in an id space / of a plain one", ratio, 1.02)


def epochs(section):
    """Begin and commit as a cell sends them, with its epoch, and without."""
    at_cell("SELECT * FROM claims.reconcile(1, 'service')")
    epoch = at_cell("SELECT epoch FROM claims.own_epochs WHERE cell_id = 1")
    records = RECORD + "::text"

    def calls(cell):
        return (NAME + f"SELECT claims.begin_update_text({cell}, {records}, '[]', gen_random_uuid(), NULL) AS lease \\gset\n"
                + f"SELECT claims.commit_unflushed({cell}, :lease);\n")

    def by_client(cell):
        return lambda: 1e6 / pgbench(SERVICE, calls(cell), transactions=CALLS)

    presented, bare, ratio = paired("epochs", by_client(f"claims.acting_cell(1, {epoch}, NULL)"), by_client("1"))
    section.tables.append(("begin and commit as a cell sends them, µs", ["no epoch", "presented", "ratio"],
                           [[f"{bare:.0f}", f"{presented:.0f}", f"{ratio:.3f}"]]))
    section.at_most("begin + commit with the epoch presented / without", ratio, 1.01)


def two_services(section):
    """A save with names of two services, each a server of its own, and one with as many names of one service."""
    if at_cell("SELECT to_regprocedure('claims.automatic(bigint, text, text[])') IS NULL") == "t":
        say("a fleet: a cell has one service")
        return
    other = leading_to("second")
    psql("postgres", CELL_ROLES + f"CREATE DATABASE {SERVICE} TEMPLATE template0 ENCODING 'UTF8'", cluster="second")
    psql(SERVICE, "CREATE EXTENSION claims; SELECT claims.register_cell(1, 'cell_1')", cluster="second")
    at_cell(f"""
        CREATE SERVER other FOREIGN DATA WRAPPER claims_service OPTIONS (host '{other["PGHOST"]}', port '{other["PGPORT"]}', dbname '{SERVICE}');
        CREATE USER MAPPING FOR PUBLIC SERVER other OPTIONS (user 'cell_1');
        SELECT claims.automatic(1, 'other', '{{USERNAMES}}')""")
    for table, second in (("one", "ROUTES"), ("two", "USERNAMES")):
        at_cell(f"""
            CREATE TABLE {table} (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, name text UNIQUE, other text UNIQUE); GRANT INSERT ON {table} TO cell_1;
            SELECT claims.claim_attribute('{table}', 'name', 'ROUTES', 'GROUP', 'id', 'RAILS_TABLE_ROUTES', 'id');
            SELECT claims.claim_attribute('{table}', 'other', '{second}', 'GROUP', 'id', 'RAILS_TABLE_ROUTES', 'id')""")

    def save(table):
        script = NAME + f"INSERT INTO {table} (name, other) VALUES ('{table}-' || :n, '{table}-other-' || :n);\n"
        return lambda: 1e6 / pgbench(CELL, script, transactions=CALLS // 4, cluster="cell")

    # The floor: the row, and before its COMMIT a durable transaction with a row for each name, at one service or at each of two.
    at_cell("CREATE TABLE plain_two (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, name text UNIQUE, other text UNIQUE);"
            "GRANT INSERT ON plain_two TO cell_1")
    for server in (None, "second"):
        psql(SERVICE, "CREATE TABLE floor (name text); GRANT INSERT ON floor TO cell_1", cluster=server)
    least = lambda what: lambda: 1000 * saves(what, 1, 0.5, SERVICE, CELL)[1]

    floor = paired("two services, the floor", least("floor-two"), least("floor-one"))
    claimed = paired("two services", save("two"), save("one"))
    rows = [[what, f"{one:.0f}", f"{two:.0f}", f"{ratio:.2f}"] for what, (two, one, ratio) in (("floor", floor), ("captured and claimed", claimed))]
    section.tables.append(("a save of two names, µs", ["", "one service", "two services", "ratio"], rows))
    section.at_most("a save with names of two services / of one", claimed[2], 1.3)


@on(PRELOADED)
def run():
    make()
    section = Section(
        TITLE,
        f"Cell and service are two clusters on one machine. Both preload the library, as [a fleet](../docs/fleet.md) should. {SESSIONS} sessions of the "
        f"application insert one row after the other, each with one claim (tests/harness/src/fleet), for {SECONDS} s, of which the second half "
        f"counts: without a limit, with `claims.max_service_calls` 300 and {PLACES}, and at a service that has places for {PLACES} connections, beside "
        f"{PLACES} sessions alone. The other tables are medians of {PAIRS} pairs in changing order.")
    for part in (sessions, audit, ids, epochs, two_services):
        part(section)
    at_cell("SELECT * FROM claims.reconcile(1, 'service', '0', 10000)")
    violations = psql(SERVICE, "SELECT count(*) FROM claims.check()")
    if violations != "0":
        raise RuntimeError(f"claims.check() found violations: {violations}")
    return section
