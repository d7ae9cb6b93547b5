"""A save in a cell: what claims add to it, beside the other ways to have them."""

import os
import subprocess
import time

from lib import CELL_ROLES, HERE, QUICK, Section, in_turns, median, pgbench, program, psql, ratio_of, say

OWN_DATABASES = True
TITLE = "A save in a cell"
CLIENTS = [1, 8, 64]
ROUNDS = 1 if QUICK else 3
SECONDS = 1 if QUICK else 2
# Warm up longer with more sessions: new sessions make plans first, which is not measured.
LASTING = {1: SECONDS, 8: 2 * SECONDS, 64: 4 * SECONDS}
# A difference of a hundredth needs more rounds.
FINE_ROUNDS = 3 if QUICK else 15
BULK = 10_000
BULK_ROUNDS = 2 if QUICK else 7

# Names that saves.rs uses.
SERVICE, CELL, ORPHANED = "save_service", "save_cell", "save_orphaned"

ROUTES = """
    CREATE TABLE {name} (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, name text UNIQUE, note text NOT NULL DEFAULT '');
    GRANT SELECT, INSERT, UPDATE ON {name} TO cell_1;"""
CLAIM = "SELECT claims.claim_attribute('{name}', 'name', 'ROUTES', 'GROUP', 'id', 'RAILS_TABLE_ROUTES', 'id');"


def restart(cluster):
    """Through the functions of scripts/lib.sh, which know who runs the server."""
    directory, port = os.environ[f"CLUSTER_{cluster}"].rsplit(":", 1)
    script = f". {HERE}/../scripts/lib.sh; CLUSTER_DIR[it]={directory} CLUSTER_PORT[it]={port}; restart_cluster it"
    subprocess.run(["bash", "-c", script], check=True)


def make():
    say("a save in a cell: the service, and the cell, whose server preloads the library and has a worker")
    psql("postgres", CELL_ROLES + f"CREATE DATABASE {SERVICE} TEMPLATE template0 ENCODING 'UTF8'")
    psql("postgres", f"ALTER DATABASE {SERVICE} SET claims.max_batch_size = {2 * BULK}")
    # With many clients the worker may settle a lease before a late `finish`, and hold it at that moment.
    psql("postgres", f"ALTER DATABASE {SERVICE} SET claims.wait_timeout = '10s'")
    psql(SERVICE, "CREATE EXTENSION claims; SELECT claims.register_cell(1, 'cell_1');"
                  "CREATE TABLE floor (name text); GRANT INSERT ON floor TO cell_1;"
                  f"{ROUTES.format(name='routes')} {ROUTES.format(name='plain')} {CLAIM.format(name='routes')}"
                  "SELECT claims.automatic_here(1)")
    at_cell("postgres", "ALTER SYSTEM SET shared_preload_libraries = 'claims'")
    restart("cell")
    at_cell("postgres", CELL_ROLES)
    for database, port in ((CELL, os.environ["PGPORT"]), (ORPHANED, "1")):
        at_cell("postgres", f"CREATE DATABASE {database} TEMPLATE template0 ENCODING 'UTF8'")
        # With many clients on few processors answers are slow.
        at_cell("postgres", f"ALTER DATABASE {database} SET claims.service_timeout = '30s'")
        at_cell(database, f"""
            CREATE EXTENSION claims; SELECT claims.register_cell(1, 'cell_1');
            CREATE SERVER service FOREIGN DATA WRAPPER claims_service
                OPTIONS (host '{os.environ["PGHOST"]}', port '{port}', dbname '{SERVICE}');
            CREATE USER MAPPING FOR PUBLIC SERVER service OPTIONS (user 'cell_1');
            {ROUTES.format(name="routes")} {ROUTES.format(name="plain")} {CLAIM.format(name="routes")}
            SELECT claims.automatic(1, 'service')""")
    at_cell(ORPHANED, f"""
        SELECT claims.attend(1, NULL);
        {ROUTES.format(name="refused")}
        CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RAISE EXCEPTION USING MESSAGE = ''no''; END';
        CREATE CONSTRAINT TRIGGER refuse AFTER INSERT ON refused DEFERRABLE INITIALLY DEFERRED
            FOR EACH ROW EXECUTE FUNCTION refuse()""")
    at_cell("postgres", "ALTER SYSTEM SET claims.databases = 'save_cell'")
    at_cell("postgres", "SELECT pg_reload_conf()")
    psql("postgres", "CHECKPOINT")
    at_cell("postgres", "CHECKPOINT")


def at_cell(database, sql, role="postgres"):
    return psql(database, sql, role, cluster="cell")


# --- saves a second -------------------------------------------------------------------------------------------------

NAME = "\\set n random(1, 9000000000000000000)\n"
RECORD = ("jsonb_build_array(jsonb_build_object('bucket', jsonb_build_object('type', 1, 'value', 'name-' || :n), "
          "'subject', '{\"type\": 2, \"id\": 1}'::jsonb, 'source', '{\"type\": 3, \"id\": 1}'::jsonb))")
INSERT = NAME + "INSERT INTO {table} (name) VALUES ('name-' || :n);\n"
BEGIN_COMMIT = (NAME + f"SELECT claims.begin_update(1, {RECORD}) AS lease \\gset\n"
                + "SELECT claims.commit_update(1, :lease);\n")
PENDING = ("BEGIN;\n" + INSERT.format(table="routes") + "SELECT claims.begin_pending(1, 'service') AS lease \\gset\n"
           + "COMMIT;\nSELECT claims.finish(1, 'service', :lease);\n")


def by_pgbench(database, script, cluster="cell", options=""):
    return lambda clients: pgbench(database, script, clients, seconds=LASTING[clients], options=options, cluster=cluster)


def saves(what, clients, seconds, service=SERVICE, cell=CELL):
    """Returns the measurements of saves.rs: saves a second, median and 99th percentile, in ms."""
    done = subprocess.run([program("saves"), what, str(clients), str(seconds)], text=True, capture_output=True,
                          env={**os.environ, "SAVES_SERVICE": service, "SAVES_CELL": cell})
    if done.returncode != 0:
        raise RuntimeError(done.stderr.strip())
    return [float(number) for number in done.stdout.split()]


def by_client(what):
    return lambda clients: saves(what, clients, LASTING[clients])[0]


SIDES = {
    "plain": by_pgbench(CELL, INSERT.format(table="plain")),
    "begin + commit": by_pgbench(SERVICE, BEGIN_COMMIT, cluster=None),
    "auto": by_pgbench(CELL, INSERT.format(table="routes")),
    # The application's tables are in the shared database.
    "plain, one database": by_pgbench(SERVICE, INSERT.format(table="plain"), cluster=None),
    "here": by_pgbench(SERVICE, INSERT.format(table="routes"), cluster=None),
    "pending": by_pgbench(CELL, PENDING),
    "before": by_pgbench(CELL, INSERT.format(table="routes"), options="-c claims.keep_service_connection=off"),
    "floor": by_client("floor"),
    "app": by_client("app"),
    "auto, own client": by_client("auto"),
}


def settle(service=SERVICE, cell=CELL):
    """Waits until no lease is outstanding, so that no round measures the rest of the one before."""
    for _ in range(300):
        at_cell(cell, "SELECT * FROM claims.reconcile(1, 'service', '0', 10000)")
        if psql(service, "SELECT count(*) FROM claims.claim_leases") == "0":
            return
        time.sleep(0.1)
    raise RuntimeError("leases stay outstanding")


def rates(section):
    found = {}
    for clients in CLIENTS:
        def took(side, turn):
            say(f"a save in a cell: {clients} clients, round {turn + 1}: {side}")
            rate = SIDES[side](clients)
            settle()
            return rate
        found[clients] = {side: median(values) for side, values in in_turns(SIDES, ROUNDS, took).items()}
    section.tables.append(("saves a second", ["clients", *SIDES],
                           [[clients, *(f"{rate:.0f}" for rate in row.values())] for clients, row in found.items()]))
    milliseconds = lambda clients, side: 1000 * clients / found[clients][side]
    section.tables.append(("milliseconds a save", ["clients", *SIDES],
                           [[clients, *(f"{milliseconds(clients, side):.2f}" for side in SIDES)] for clients in CLIENTS]))
    for clients in CLIENTS:
        together = milliseconds(clients, "plain") + milliseconds(clients, "begin + commit")
        ratio = milliseconds(clients, "auto") / together
        if clients <= 8:
            section.at_most(f"auto / (plain + begin + commit), {clients} clients", ratio, 1.0)
            here = milliseconds(clients, "here")
            section.at_most(f"here / plain, one database, {clients} clients", here / milliseconds(clients, "plain, one database"), 1.6)
            section.at_most(f"here / auto, {clients} clients", here / milliseconds(clients, "auto"), 0.6)
        section.at_least(f"auto / before, {clients} clients", found[clients]["auto"] / found[clients]["before"], 15)
    own, eight = "auto, own client", found[8]
    section.at_least("auto / app, saves a second, 8 clients", eight[own] / eight["app"], 1.2)
    section.at_least("auto / floor, saves a second, 8 clients", eight[own] / eight["floor"], 0.6)


# --- the rest -------------------------------------------------------------------------------------------------------

def unclaimed(section):
    """A transaction that changes no claimed column, on a claimed table and on one without triggers: both new, since what happened to
    a table before costs more than a trigger."""
    for table in ("noted", "unclaimed"):
        at_cell(CELL, ROUTES.format(name=table))
        at_cell(CELL, f"INSERT INTO {table} (name) SELECT '{table}-' || i FROM generate_series(1, 1000) i")
        at_cell(CELL, f"ALTER TABLE {table} SET (autovacuum_enabled = off)")
    at_cell(CELL, CLAIM.format(name="noted"))
    at_cell(CELL, "VACUUM ANALYZE noted; VACUUM ANALYZE unclaimed")
    script = "\\set i random(1, 1000)\nUPDATE {table} SET note = 'note-' || :i WHERE name = '{table}-' || :i;\n"
    rows = []
    for what, options in (("as ever", ""), ("synchronous_commit off", "-c synchronous_commit=off")):
        found = {"noted": [], "unclaimed": []}
        for turn in range(FINE_ROUNDS):
            say(f"a save in a cell: no claimed column, {what}, round {turn + 1}")
            for table in ("noted", "unclaimed") if turn % 2 else ("unclaimed", "noted"):
                found[table].append(1e6 / pgbench(CELL, script.format(table=table), seconds=SECONDS, options=options, cluster="cell"))
        ratio = ratio_of(found, "noted", "unclaimed")
        rows.append([what, f"{median(found['unclaimed']):.1f}", f"{median(found['noted']):.1f}", f"{ratio:.3f}"])
        if not options:
            section.at_most("a transaction that changes no claimed column: with the extension / without", ratio, 1.02)
    section.tables.append(("an UPDATE that changes no claimed column, one client, µs", ["", "without", "with the extension", "ratio"], rows))


def delays(section):
    rows = []
    for what, name in (("committed", "from the local COMMIT to ACTIVE"), ("aborted", "from a local ROLLBACK to the name free again")):
        say(f"a save in a cell: {name}")
        rate, middle, most = saves(what, 8, 5 if QUICK else 20)
        settle()
        rows.append([name, f"{rate:.0f}", f"{middle:.2f}", f"{most:.2f}"])
        section.at_most(f"{name}, 200 saves a second: median", middle, 3, " ms")
        section.at_most(f"{name}, 200 saves a second: 99 of 100", most, 30, " ms")
    section.tables.append(("until it is so at the service, ms", ["", "saves a second", "median", "99 %"], rows))


def breaker(section):
    at_cell(ORPHANED, "; ".join(["DO $$ BEGIN INSERT INTO routes (name) VALUES ('x'); SET CONSTRAINTS ALL IMMEDIATE;"
                                 "EXCEPTION WHEN connection_exception OR sqlclient_unable_to_establish_sqlconnection THEN NULL; END $$"] * 6))
    found = {"refused": [], "refused-open": []}
    for turn in range(ROUNDS):
        for side in found:
            say(f"a save in a cell: {side}, round {turn + 1}")
            found[side].append(saves(side, 8, SECONDS))
    worst = {side: median(row[2] for row in rows) for side, rows in found.items()}
    section.tables.append(("a save that fails at its COMMIT, 8 clients, ms", ["", "median", "99 %"],
                           [[what, f"{median(row[1] for row in found[side]):.2f}", f"{worst[side]:.2f}"]
                            for side, what in (("refused", "by a trigger of its own"), ("refused-open", "because the breaker is open"))]))
    section.at_most("breaker open: added to a failing save, 99 of 100", worst["refused-open"] - worst["refused"], 1, " ms")


def measure_bulk(section, what, service, cell, rows, most):
    """Measures one statement that inserts many rows, with and without claims. `most`: how many times as long the one with claims may take.
    Measures the floor, too: the rows, and as many rows of claims that are copied into a table like that of the claims before the COMMIT."""
    found = {"plain": [], "routes": [], "floor": []}
    for turn in range(BULK_ROUNDS):
        for table in ("plain", "routes"):
            say(f"{what}: {rows} rows into {table}, round {turn + 1}")
            script = f"INSERT INTO {table} (name) SELECT 'bulk-{table}-{turn}-' || i FROM generate_series(1, {rows}) i;\n"
            found[table].append(pgbench(cell, script, transactions=1, log=True, cluster="cell")[1][0])
            settle(service, cell)
        if turn == 0:
            psql(service, "CREATE TABLE floor_claims (LIKE claims.claims INCLUDING ALL); GRANT INSERT, TRUNCATE ON floor_claims TO cell_1;"
                          f"CREATE TABLE floor_rows AS SELECT * FROM claims.claims WHERE bucket_value LIKE 'bulk-routes-0-%' LIMIT {rows};"
                          "GRANT SELECT ON floor_rows TO cell_1")
        found["floor"].append(saves("floor-rows", 1, 0.001, service, cell)[1])
    plain, claimed, floor = (median(found[side]) for side in ("plain", "routes", "floor"))
    ratio = claimed / plain
    section.tables.append((f"{rows} rows in one statement, ms", ["plain", "floor", "captured and claimed", "floor / plain", "ratio"],
                           [[f"{plain:.0f}", f"{floor:.0f}", f"{claimed:.0f}", f"{floor / plain:.2f}", f"{ratio:.2f}"]]))
    section.at_most(f"{rows} rows captured and claimed / the plain INSERT of them", ratio, most)


def bulk(section):
    measure_bulk(section, "a save in a cell", SERVICE, CELL, BULK, 2.5)


def first_call(section):
    found = {what: saves(what, 1, 2 if QUICK else 5)[1] for what in ("first", "first-preloaded")}
    section.tables.append(("the first begin_update of a new session, ms", ["not preloaded", "preloaded"],
                           [[f"{value:.2f}" for value in found.values()]]))
    section.at_most("first call of a new session (begin)", found["first"], 3, " ms")
    section.at_most("first call of a new session (begin), preloaded", found["first-preloaded"], 1.5, " ms")


def run():
    make()
    section = Section(
        TITLE,
        "One row with one claim. Cell and service are two clusters on one machine; the cell's preloads the library and has its worker. "
        "All in one run, in changing order; medians of the rounds. plain: the row alone. begin + commit: these two calls at the "
        "service, each a transaction, over a kept connection. auto: automatic mode. pending: begin_pending and finish. before: "
        "automatic mode with a connection for each transaction, as in 1.0.0. These by pgbench (-M prepared). floor: the row, and one "
        "durable transaction of one row at the service before its COMMIT. app: the protocol driven by the application: begin, row, track, "
        "COMMIT, commit. These by a client with two kept connections (tests/harness/src/saves), which saves in automatic mode as "
        "well, for the comparison. The times until a change is visible at the service are measured there, from the application's answer on.")
    for part in (rates, unclaimed, delays, breaker, bulk, first_call):
        part(section)
    settle()
    violations = psql(SERVICE, "SELECT count(*) FROM claims.check()")
    if violations != "0":
        raise RuntimeError(f"claims.check() found violations: {violations}")
    return section
