"""Requests and expiring claims: beside two job queues, after a million, and under a snapshot held open."""

import os
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from lib import CONNECTIONS, HERE, QUICK, Section, Session, median, pgbench, psql, say

# A flush to disk would take most of the time and hide the differences.
OPTIONS = "-c synchronous_commit=off -c claims.notify_requests=off"
JOBS = 2_000 if QUICK else 5_000
HISTORY = 20_000 if QUICK else 1_000_000
BLOCKED = 10_000 if QUICK else 100_000
PASSING = 20_000 if QUICK else 200_000
KEYS = 10_000
PGMQ = "pgmq==1.1.4"
PROCESS = "lpad(:client_id::text, 32, '0')::uuid"

# One request in one transaction; a real effect would come between the two calls. BEGIN is sent with the first of them and COMMIT with the second
# one, so there are two messages, as with the others: calls of pgmq and of graphile-worker's runner are transactions of their own.
WORK = (f"\\startpipeline\nBEGIN;\nSELECT count(*) FROM claims.take_requests('work', {PROCESS});\n\\endpipeline\n"
        f"\\startpipeline\nSELECT claims.settle_requests({PROCESS});\nCOMMIT;\n\\endpipeline\n")
ENQUEUE = "SELECT count(claims.enqueue_request('work', '{prefix}' || n, 'update', '{{\"n\": 1}}')) FROM generate_series(1, {n}) n"
PGMQ_WORK = "SELECT msg_id FROM pgmq.read('work', 30, 1) \\gset\nSELECT pgmq.archive('work', :msg_id::bigint);\n"


def database(name, sql):
    psql("postgres", f"CREATE DATABASE {name} TEMPLATE template0 ENCODING 'UTF8'")
    psql(name, sql)


def pgmq_sql():
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", folder, PGMQ], check=True)
        wheel = zipfile.ZipFile(next(Path(folder).glob("*.whl")))
        return wheel.read("pgmq/sql/pgmq.sql").decode()


def node(*arguments):
    done = subprocess.run(["node", "graphile.js", *map(str, arguments)], cwd=HERE / "node", capture_output=True, text=True,
                          env={**os.environ, "PGDATABASE": "requests_graphile", "PGOPTIONS": "-c synchronous_commit=off"})
    if done.returncode:
        raise RuntimeError(done.stderr[-2000:])
    return next((float(line.split()[1]) for line in done.stdout.splitlines() if line.startswith("seconds ")), None)


class Claims:
    name = "claims: take_requests, settle_requests"

    def make(self):
        database("requests_claims", "CREATE EXTENSION claims")
        self.round = 0

    def fill(self, jobs):
        self.round += 1
        psql("requests_claims", "SET claims.notify_requests = off; " + ENQUEUE.format(prefix=f"r{self.round}-", n=jobs))

    def work(self, connections, jobs):
        return pgbench("requests_claims", WORK, clients=connections, transactions=jobs // connections, role="postgres", options=OPTIONS)


class Floor:
    """Two statements on a table with the columns and indexes of claims.requests: no entities, no creates, no holds. The second one looks again,
    because pgbench cannot hand a row over within a pipeline; it finds the row that its transaction has locked."""

    name = "floor: SELECT … SKIP LOCKED, UPDATE on such a table"
    ready = "SELECT id{more} FROM by_hand WHERE queue = 'work' AND status = 'new' AND NOT blocked ORDER BY id LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED"

    def make(self):
        database("requests_floor", "CREATE EXTENSION claims; CREATE TABLE by_hand (LIKE claims.requests INCLUDING ALL)")

    def fill(self, jobs):
        psql("requests_floor", "INSERT INTO by_hand (queue, entity, request_type, payload) "
                               f"SELECT 'work', 'r' || n, 'update', '{{\"n\": 1}}' FROM generate_series(1, {jobs}) n")

    def work(self, connections, jobs):
        settle = (f"UPDATE by_hand SET status = 'complete', process_id = {PROCESS}, settled_at = clock_timestamp(), attempts = attempts + 1 "
                  f"WHERE queue = 'work' AND id = ({self.ready.format(more='')})")
        script = (f"\\startpipeline\nBEGIN;\n{self.ready.format(more=', entity, payload')};\n\\endpipeline\n"
                  f"\\startpipeline\n{settle};\nCOMMIT;\n\\endpipeline\n")
        return pgbench("requests_floor", script, clients=connections, transactions=jobs // connections, role="postgres",
                       options=f"{OPTIONS} -c enable_seqscan=off -c enable_bitmapscan=off -c enable_sort=off")


class Pgmq:
    name = "pgmq: read, archive"

    def make(self):
        database("requests_pgmq", pgmq_sql() + "\nSELECT pgmq.create('work');")

    def fill(self, jobs):
        psql("requests_pgmq", f"SELECT count(*) FROM pgmq.send_batch('work', array_fill('{{\"n\": 1}}'::jsonb, ARRAY[{jobs}]))")

    def work(self, connections, jobs):
        return pgbench("requests_pgmq", PGMQ_WORK, clients=connections, transactions=jobs // connections, role="postgres", options=OPTIONS)


class Graphile:
    name = "graphile-worker: its own runner (Node.js)"

    def make(self):
        database("requests_graphile", "SELECT 1")
        subprocess.run(["npm", "ci", "--no-audit", "--no-fund", "--loglevel=error"], cwd=HERE / "node", check=True, stdout=sys.stderr)
        node("migrate")

    def fill(self, jobs):
        psql("requests_graphile", f"SELECT count(graphile_worker.add_job('bench', '{{\"n\": 1}}')) FROM generate_series(1, {jobs})")

    def work(self, connections, jobs):
        return jobs / node("work", connections, jobs)


def rates(side):
    found = {}
    for connections in CONNECTIONS:
        say(f"requests: {side.name}, {connections} connections")
        side.fill(JOBS)
        found[connections] = side.work(connections, JOBS)
    return found


def side_by_side(section):
    sides = [Claims(), Pgmq(), Graphile(), Floor()]
    for side in sides:
        side.make()
    fresh = {side.name: rates(side) for side in sides}
    held = {}
    for side, name in zip(sides, ("requests_claims", "requests_pgmq", "requests_graphile", "requests_floor")):
        with Session(name) as holder:
            holder.run("BEGIN ISOLATION LEVEL REPEATABLE READ")
            holder.run("SELECT count(*) FROM pg_class")
            side.fill(JOBS)
            side.work(CONNECTIONS[-1], JOBS)
            held[side.name] = rates(side)
            holder.run("COMMIT")
    header = ["worked off a second"] + [f"{c} connection{'s' * (c > 1)}, {state}" for state in ("fresh", "snapshot held") for c in CONNECTIONS]
    section.tables.append((f"{JOBS} requests that wait, taken and settled one by one", header, [
        [side.name] + [f"{found[side.name][c]:.0f}" for found in (fresh, held) for c in CONNECTIONS] for side in sides]))
    for other in sides[1:3]:
        for c in CONNECTIONS:
            section.at_least(f"requests a second, {c} connections: claims / {other.name}", fresh[sides[0].name][c] / fresh[other.name][c], 1.2)


def take_time(name):
    """µs of a take and a settle: the lowest of three medians, because other programs only ever add. The first ones of a session
    plan and are left out. Leaves nothing over."""
    medians = []
    for _ in range(3):
        psql(name, "SET claims.notify_requests = off; " + ENQUEUE.format(prefix="t", n=2000))
        _, took = pgbench(name, WORK, transactions=2000, role="postgres", options=OPTIONS, log=True)
        medians.append(1000 * median(took[200:]))
    return min(medians)


def history(section):
    name = "requests_history"
    database(name, "CREATE EXTENSION claims")
    rows = [["fresh", (fresh := take_time(name))]]
    say(f"requests: {HISTORY} settled ones")
    psql(name, f"""SET claims.notify_requests = off; SET synchronous_commit = off;
        DO $$ BEGIN FOR i IN 1..{HISTORY // 1000} LOOP
          PERFORM claims.enqueue_request('work', 'h' || i || '-' || n % 10, 'update') FROM generate_series(1, 1000) n;
          FOR n IN 1..10 LOOP PERFORM claims.take_requests('work', '{'0' * 32}'); PERFORM claims.settle_requests('{'0' * 32}'); END LOOP;
          COMMIT;
        END LOOP; END $$; VACUUM claims.requests""")
    rows.append([f"{HISTORY} settled", take_time(name)])
    say(f"requests: {BLOCKED} blocked ones in front")
    psql(name, f"""SET claims.notify_requests = off;
        SELECT claims.enqueue_request('work', 'blocked', 'create');
        DO $$ DECLARE n bigint; BEGIN LOOP
          PERFORM FROM claims.take_requests('work', '{'0' * 32}') WHERE entity = 'blocked'; EXIT WHEN FOUND;
          PERFORM claims.settle_requests('{'0' * 32}');
        END LOOP; PERFORM claims.settle_requests('{'0' * 32}', 'no'); END $$;
        SELECT count(claims.enqueue_request('work', 'blocked', 'update')) FROM generate_series(1, {BLOCKED});""")
    rows.append([f"and {BLOCKED} blocked in front", take_time(name)])
    with Session(name) as holder:
        holder.run("BEGIN ISOLATION LEVEL REPEATABLE READ")
        holder.run("SELECT count(*) FROM pg_class")
        say(f"requests: {PASSING} under a snapshot")
        psql(name, "SET claims.notify_requests = off; " + ENQUEUE.format(prefix="p", n=PASSING))
        pgbench(name, WORK, clients=8, transactions=PASSING // 8, role="postgres", options=OPTIONS)
        rows.append([f"and a snapshot held while {PASSING} went through", take_time(name)])
        holder.run("COMMIT")
    section.tables.append(("a take and a settle, one connection", ["state", "µs", "/ fresh"],
                           [[what, f"{took:.0f}", f"{took / fresh:.2f}"] for what, took in rows]))
    for what, took in rows[1:]:
        section.at_most(f"take + settle, {what}: / fresh", took / fresh, 1.5)


def expiring(section):
    """Lowest of eight, on tables that were vacuumed just before, keys all free. The plain UPDATE waits for locked rows, and does not
    return the rows that it took, so no ratio is required."""
    database("requests_expiring", f"""
        CREATE EXTENSION claims;
        SELECT claims.add_expiring('k', (SELECT array_agg('key ' || n) FROM generate_series(1, {KEYS}) n));
        CREATE TABLE plain (kind text COLLATE "C", key text COLLATE "C", claimant text, token bigint DEFAULT 0, acquired_at timestamptz,
            renewed_at timestamptz, expires_at timestamptz, PRIMARY KEY (kind, key)) WITH (fillfactor = 50);
        CREATE SEQUENCE plain_tokens;
        INSERT INTO plain (kind, key) SELECT kind, key FROM claims.expiring_claims;""")
    timed = """DO $$ BEGIN CREATE TEMP TABLE took (ms float8); EXCEPTION WHEN duplicate_table THEN NULL; END $$; DO $$ DECLARE t timestamptz; BEGIN
        t := clock_timestamp(); {call}; INSERT INTO took VALUES (extract(epoch FROM clock_timestamp() - t) * 1000); END $$;"""
    plain = """UPDATE plain SET claimant = 'c', token = nextval('plain_tokens'), acquired_at = clock_timestamp(), renewed_at = clock_timestamp(),
        expires_at = clock_timestamp() + interval '1 min' WHERE kind = 'k' AND (expires_at IS NULL OR expires_at <= clock_timestamp())"""
    free = "UPDATE {table} SET expires_at = clock_timestamp(); VACUUM {table};"
    calls = {"plain": ("plain", plain), "acquire_expiring": ("claims.expiring_claims", "PERFORM claims.acquire_expiring('k', 'c', '1 min')")}
    say("expiring claims")
    ms = {}
    for what, (table, call) in calls.items():
        rounds = "".join((free.format(table=table) if i else "") + timed.format(call=call) for i in range(9))
        found = psql("requests_expiring", f"SET synchronous_commit = off; {rounds} SELECT string_agg(ms::text, ' ') FROM took").splitlines()[-1]
        ms[what] = min([float(x) for x in found.split()][1:])
    section.tables.append((f"all of {KEYS} free or expired keys at once, ms", ["plain UPDATE", "acquire_expiring", "ratio"],
                           [[f"{ms['plain']:.1f}", f"{ms['acquire_expiring']:.1f}", f"{ms['acquire_expiring'] / ms['plain']:.2f}"]]))


def run():
    section = Section("Expiring claims and requests",
                      "Each queue in a database of its own on this cluster, through the calls of its own API; synchronous_commit is off, and so is "
                      "claims.notify_requests. graphile-worker is driven by its own runner, whose share of the processors counts.")
    side_by_side(section)
    history(section)
    expiring(section)
    return section
