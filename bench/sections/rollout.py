"""Taking claims into use: the import of old names, saves beside it, observed saves, look-ups of a form, bulk changes, one database."""

import os
import time
from pathlib import Path

from lib import CELL_ROLES, QUICK, Section, Session, in_turns, median, pgbench, psql, ratio_of, say
from sections.cell_save import CLAIM, INSERT, NAME, ROUTES, at_cell, measure_bulk, restart, settle

OWN_DATABASES = True
TITLE = "Taking claims into use"
ROWS = int(os.environ.get("BENCH_IMPORT_ROWS", 100_000 if QUICK else 10_000_000))
ROUNDS = 2 if QUICK else 7
# A difference of a few hundredths needs more rounds.
FINE_ROUNDS = 3 if QUICK else 15
SECONDS = 1 if QUICK else 3
# The pace of the import beside which saves are measured.
PACE = 5_000
BULK = 25_000
SERVICE, CELL = "rollout_service", "rollout_cell"


def make():
    say("taking claims into use: the service, and the cell")
    psql("postgres", CELL_ROLES + f"CREATE DATABASE {SERVICE} TEMPLATE template0 ENCODING 'UTF8'")
    psql(SERVICE, "CREATE EXTENSION claims; SELECT claims.register_cell(1, 'cell_1');"
                  f"{ROUTES.format(name='routes')} {ROUTES.format(name='plain')} {CLAIM.format(name='routes')}"
                  "SELECT claims.automatic_here(1)")
    at_cell("postgres", "ALTER SYSTEM SET shared_preload_libraries = 'claims'")
    restart("cell")
    at_cell("postgres", CELL_ROLES)
    at_cell("postgres", f"CREATE DATABASE {CELL} TEMPLATE template0 ENCODING 'UTF8'")
    # On a slow machine observed saves would stop waiting, and take less time than enforced ones.
    at_cell("postgres", f"ALTER DATABASE {CELL} SET claims.service_timeout = '30s'; ALTER DATABASE {CELL} SET claims.observe_timeout = '30s'")
    at_cell(CELL, f"""
        CREATE EXTENSION claims; SELECT claims.register_cell(1, 'cell_1');
        CREATE SERVER service FOREIGN DATA WRAPPER claims_service
            OPTIONS (host '{os.environ["PGHOST"]}', port '{os.environ["PGPORT"]}', dbname '{SERVICE}');
        CREATE USER MAPPING FOR PUBLIC SERVER service OPTIONS (user 'cell_1');
        {"".join(ROUTES.format(name=name) for name in ("routes", "watched", "plain"))}
        {CLAIM.format(name="routes")} {CLAIM.format(name="watched")}
        SELECT claims.set_enforcement('watched', 'name', 'observe', 'bench');
        SELECT claims.automatic(1, 'service')""")
    for table, source, rows in (("old", "RAILS_TABLE_USERS", ROWS), ("paced", "RAILS_TABLE_GROUPS", PACE * (SECONDS + 3) * ROUNDS)):
        say(f"taking claims into use: {rows} old rows in {table}")
        at_cell(CELL, f"""
            CREATE TABLE {table} (id bigint PRIMARY KEY, name text); GRANT SELECT, UPDATE ON {table} TO cell_1;
            INSERT INTO {table} SELECT n, '{table}-name-' || n FROM generate_series(1, {rows}) n;
            SELECT claims.claim_attribute('{table}', 'name', 'ROUTES', 'GROUP', 'id', '{source}', 'id')""")
    at_cell(CELL, "VACUUM ANALYZE")
    at_cell("postgres", f"ALTER SYSTEM SET claims.databases = '{CELL}'")
    at_cell("postgres", "SELECT pg_reload_conf()")
    psql("postgres", "CHECKPOINT")
    at_cell("postgres", "CHECKPOINT")


def milliseconds(what, sides, rounds):
    """The milliseconds that each side takes, round by round: side -> list. `sides` are functions that return transactions a second."""
    def took(side, turn):
        say(f"taking claims into use: {what}, round {turn + 1}: {side}")
        time_taken = 1000 / sides[side]()
        settle(SERVICE, CELL)
        return time_taken
    return in_turns(sides, rounds, took)


# --- import ---------------------------------------------------------------------------------------------------------

def import_call(source, *more):
    return f"CALL claims.import_claims({', '.join(['1', repr('service'), repr(source), *more])})"


def progress(source):
    row = at_cell(CELL, f"SELECT state, rows_done FROM claims.imports WHERE source_type = '{source}'")
    return (row.split("|")[0], int(row.split("|")[1])) if row else ("none", 0)


def own_memory(pid):
    """Bytes of memory of a process's own, without what it shares with others. None: it has ended."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return None
    return next((int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("RssAnon:")), None)


class Importer:
    """A session that imports in the background."""

    def __init__(self, source, *more):
        self.source, self.session = source, None
        with_cluster = at_cell_environment()
        before = dict(os.environ)
        os.environ.update(with_cluster)
        try:
            self.session = Session(CELL, role="cell_1", quiet=True)
        finally:
            os.environ.update(before)
        self.pid = int(self.session.run("SELECT pg_backend_pid()"))
        self.session.process.stdin.write(import_call(source, *more) + ";\n")

    def wait_until_running(self):
        while progress(self.source)[1] == 0:
            time.sleep(0.05)

    def stop(self):
        """Ends it between two batches. The import can be continued."""
        at_cell(CELL, f"SELECT pg_terminate_backend({self.pid}, 10000)")
        self.session.process.stdin.close()
        self.session.process.wait(timeout=30)


def at_cell_environment():
    host, port = os.environ["CLUSTER_cell"].rsplit(":", 1)
    return {"PGHOST": host, "PGPORT": port}


def whole_import(section):
    say(f"taking claims into use: the import of {ROWS} rows")
    source = "RAILS_TABLE_USERS"
    began = time.monotonic()
    importer = Importer(source)
    importer.wait_until_running()
    service_pid = int(psql(SERVICE, "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND usename = 'cell_1' "
                                    "ORDER BY query LIKE '%import_records%' DESC LIMIT 1"))
    samples = []
    while True:
        state, done = progress(source)
        memory = own_memory(importer.pid), own_memory(service_pid)
        if all(memory):
            samples.append((done, *memory))
        if state != "running":
            break
        time.sleep(0.1 if ROWS < 1_000_000 else 1)
    took = time.monotonic() - began
    if (state, done) != ("finished", ROWS):
        raise RuntimeError(f"the import is {state} after {done} rows")
    importer.stop()
    tenth = next(sample for sample in samples if sample[0] >= ROWS / 10)
    last = samples[-1]
    mib = lambda size: f"{size / 2**20:.1f}"
    section.tables.append((f"the import of {ROWS} rows",
                           ["rows a second", "cell's backend at a tenth, MiB", "at the end", "service's backend at a tenth, MiB", "at the end"],
                           [[f"{ROWS / took:.0f}", mib(tenth[1]), mib(last[1]), mib(tenth[2]), mib(last[2])]]))
    section.at_least("import, rows a second", ROWS / took, 25_000)
    section.at_most("memory of the cell's backend, the end / a tenth", last[1] / tenth[1], 1.1)
    section.at_most("memory of the service's backend, the end / a tenth", last[2] / tenth[2], 1.1)


def beside(section):
    save = lambda: pgbench(CELL, INSERT.format(table="routes"), seconds=SECONDS, cluster="cell")

    def beside_import():
        importer = Importer("RAILS_TABLE_GROUPS", str(PACE))
        importer.wait_until_running()
        before = progress("RAILS_TABLE_GROUPS")[1]
        rate = save()
        done.append((progress("RAILS_TABLE_GROUPS")[1] - before) / SECONDS)
        importer.stop()
        return rate

    done = []
    found = milliseconds("a save beside an import", {"alone": save, "beside": beside_import}, ROUNDS)
    ratio = ratio_of(found, "beside", "alone")
    section.tables.append((f"a save in automatic mode, one client, beside an import of {PACE} rows a second, ms",
                           ["alone", "beside it", "ratio", "rows a second"],
                           [[f"{median(found['alone']):.2f}", f"{median(found['beside']):.2f}", f"{ratio:.2f}", f"{median(done):.0f}"]]))
    section.at_most(f"a save beside an import of {PACE} rows a second / alone", ratio, 1.5)


# --- the other steps --------------------------------------------------------------------------------------------------

def observe(section):
    rows = []
    for clients in (1, 8):
        by = lambda table: lambda: pgbench(CELL, INSERT.format(table=table), clients, seconds=SECONDS, cluster="cell")
        found = milliseconds(f"observe, {clients} clients", {"enforce": by("routes"), "observe": by("watched")}, FINE_ROUNDS)
        ratio = ratio_of(found, "observe", "enforce")
        rows.append([clients, *(f"{clients * median(found[side]):.2f}" for side in ("enforce", "observe")), f"{ratio:.3f}"])
        section.at_most(f"observe / enforce, {clients} clients", ratio, 1.05)
    # A save whose name is not claimed would take less time.
    missed = at_cell(CELL, "SELECT string_agg(format('%s %s', count, outcome), ', ') FROM claims.observations")
    if missed:
        raise RuntimeError(f"observed names were not claimed: {missed}")
    section.tables.append(("a save in automatic mode, ms", ["clients", "enforce", "observe", "ratio"], rows))


def form(section):
    """A name that is free, asked for over the connection that the cell's session keeps, and by a client of the service."""
    asked = {
        "is_available": (NAME + "SELECT claims.is_available('routes', 'name', 'free-' || :n);\n", CELL, "cell"),
        "get_records": (NAME + "SELECT count(*) FROM claims.look_up(1, 'service', jsonb_build_array(jsonb_build_object("
                        "'type', 'ROUTES', 'value', 'free-' || :n)));\n", CELL, "cell"),
        "get_record, by a client": (NAME + "SELECT count(*) FROM claims.get_record('ROUTES', 'free-' || :n);\n", SERVICE, None),
    }
    by = lambda script, database, cluster: lambda: pgbench(database, script, seconds=SECONDS, cluster=cluster)
    found = milliseconds("a form", {side: by(*how) for side, how in asked.items()}, FINE_ROUNDS)
    ratio = ratio_of(found, "is_available", "get_records")
    section.tables.append(("whether a name is free, one client, ms", [*asked, "is_available / get_records"],
                           [[*(f"{median(found[side]):.3f}" for side in asked), f"{ratio:.2f}"]]))
    section.at_most("is_available / get_records over the same connection", ratio, 1.3)


def bulk(section):
    measure_bulk(section, "taking claims into use", SERVICE, CELL, BULK, 2.6)


def here(section):
    rows = []
    for clients in (1, 8):
        by = lambda database, table, cluster: lambda: pgbench(database, INSERT.format(table=table), clients, seconds=SECONDS, cluster=cluster)
        sides = {"plain": by(SERVICE, "plain", None), "here": by(SERVICE, "routes", None), "automatic": by(CELL, "routes", "cell")}
        found = milliseconds(f"in one database, {clients} clients", sides, ROUNDS)
        plain, automatic = ratio_of(found, "here", "plain"), ratio_of(found, "here", "automatic")
        rows.append([clients, *(f"{clients * median(found[side]):.2f}" for side in sides), f"{plain:.2f}", f"{automatic:.2f}"])
        section.at_most(f"in one database: claimed / plain, {clients} clients", plain, 1.6)
        section.at_most(f"in one database / automatic mode, {clients} clients", automatic, 0.6)
    section.tables.append(("a save, ms", ["clients", "plain, one database", "claimed there", "automatic mode, two", "/ plain", "/ automatic"], rows))


def run():
    make()
    section = Section(
        TITLE,
        "Cell and service are two clusters on one machine; the cell's preloads the library and has its worker. In changing order; medians of the "
        "rounds, and medians of the ratios of each round. Saves are one row with one claim, by pgbench (-M prepared), with sessions that keep their "
        "connection to the service. The import is one call; the memory of its two backends is what they do not share with others. A form asks for "
        "names that are free.")
    for part in (whole_import, beside, observe, form, bulk, here):
        part(section)
    settle(SERVICE, CELL)
    violations = psql(SERVICE, "SELECT count(*) FROM claims.check()")
    if violations != "0":
        raise RuntimeError(f"claims.check() found violations: {violations}")
    return section
