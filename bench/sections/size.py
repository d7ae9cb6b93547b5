"""Calls among more and more claims, beside the literal protocol among as many, and after a snapshot was held for long. Run by its name
alone; BENCH_SIZES says how many millions (1,10; 100 takes an hour and 80 GB of disk)."""

import os
import subprocess
import time

from lib import (BATCHES, CELL_ROLES, HERE, PRELOADED, QUICK, Section, Session, WITHOUT_FLUSHES, median, on, pgbench, psql, say,
                 server_settings)
from workload import add_literal, beside_literal

OWN_DATABASES = True
TITLE = "Size"
SIZES = [int(n) for n in os.environ.get("BENCH_SIZES", "1,10").split(",")]
MILLION = 20_000 if QUICK else 1_000_000
# 30 minutes at 500 leases a second.
HELD = 5_000 if QUICK else 900_000
ROUNDS = 1 if QUICK else 3
SECONDS = 1 if QUICK else 4
# The calls look for names in the whole table, or among these, which are in memory after a moment.
HOT = 10_000 if QUICK else 100_000
LITERAL_ROUNDS = 3 if QUICK else 11
DATABASE = "size"
TYPE = "RAILS_TABLE_ROUTES"
LIST = "SELECT count(*) FROM claims.list_leases(1);\n"
CHECK = "SELECT count(*) FROM claims.check()"
VACUUM = "VACUUM (DISABLE_PAGE_SKIPPING, INDEX_CLEANUP ON) claims.claims"


def make():
    psql("postgres", CELL_ROLES)
    psql("postgres", f"CREATE DATABASE {DATABASE} TEMPLATE template0 ENCODING 'UTF8'")
    psql(DATABASE, "CREATE EXTENSION claims; SELECT claims.register_cell(1, 'cell_1')")
    add_literal(DATABASE)


def load(table, first, last):
    """The claims of the rows first to last, as a begin and a commit would leave them; a million in one transaction."""
    started = time.monotonic()
    for start in range(first, last + 1, MILLION):
        end = min(start + MILLION - 1, last)
        psql(DATABASE, f"""
            INSERT INTO {table} (bucket_type, bucket_value, subject_type, subject_id, source_type, source_id, creator_id, status,
                                       created_at, updated_at)
            SELECT 1, 'group-' || lpad((i / 1000)::text, 6, '0') || '/project-' || lpad(i::text, 9, '0'), 2, i / 1000, 3, i, 1, 1,
                   now() - interval '1 day', now() - interval '1 day' FROM generate_series({start}, {end}) i""")
        say(f"size: {end} rows in {table}, {time.monotonic() - started:.0f} s")
    psql(DATABASE, f"VACUUM (ANALYZE) {table}")
    psql(DATABASE, "CHECKPOINT")


def calls(claims, among):
    """The calls by key, each a script for pgbench; new names and old ones lie among the last `among` rows."""
    row = f"\\set i {claims} - random(0, {among - 1})\n\\set g :i / 1000\n\\set r random(1, 1000000000)\n"
    name = "'group-' || lpad(:g::bigint::text, 6, '0') || '/project-' || lpad(:i::bigint::text, 9, '0')"
    record = f"""format('[{{"bucket": {{"type": 1, "value": %s}}, "subject": {{"type": 2, "id": %s}}, "source": {{"type": 3, "rails_primary_key_id": %s}}}}]',
        to_json({name} || '/' || :r::bigint), :g::bigint, :r::bigint + 1000000000)::jsonb"""
    return {
        "begin and commit, create and destroy": row
        + f"SELECT claims.begin_update(1, {record}) AS lease \\gset\nSELECT claims.commit_update(1, :lease);\n"
        + f"SELECT claims.begin_update(1, '[]', {record}) AS lease \\gset\nSELECT claims.commit_update(1, :lease);\n",
        "get_record": row + f"SELECT * FROM claims.get_record('ROUTES', {name});\n",
    }


def ranges(claims):
    """The calls that read a thousand claims, from anywhere."""
    row = f"\\set i random(0, {claims - 1000})\n\\set j :i + 1000\n"
    return {
        "list_records, a page of 1,000": row
        + f"SELECT count(*) FROM claims.list_records(1, '{TYPE}', NULL, 1000, :i::bigint::text, :j::bigint::text);\n",
        "digest_records of 1,000": row + f"SELECT * FROM claims.digest_records(1, '{TYPE}', :i::bigint::text, :j::bigint::text);\n",
        "verify_records of 1,000": row + f"""SELECT count(*) FROM claims.verify_records(1, '{TYPE}', :i::bigint::text, :j::bigint::text,
            (SELECT jsonb_agg(jsonb_build_object('bucket', jsonb_build_object('type', 1, 'value',
                 'group-' || lpad((i / 1000)::text, 6, '0') || '/project-' || lpad(i::text, 9, '0')),
                 'subject', jsonb_build_object('type', 2, 'id', i / 1000), 'source', jsonb_build_object('type', 3, 'rails_primary_key_id', i)))
               FROM generate_series(:i::bigint + 1, :j::bigint) i));\n""",
    }


def took(script):
    """µs for the script, seen by one client."""
    pgbench(DATABASE, script, seconds=1)
    return median(1e6 / pgbench(DATABASE, script, seconds=SECONDS) for _ in range(ROUNDS))


def measured(claims):
    """Returns the time of each call among so many claims, in µs."""
    found = {}
    for what, script in calls(claims, HOT).items():
        found[f"{what}, by key, in memory"] = took(script)
    for what, script in calls(claims, claims).items():
        found[f"{what}, by key, anywhere"] = took(script)
    for what, script in ranges(claims).items():
        found[what] = took(script)
    found["list_leases of none"] = took(LIST)
    return found


def over_literal(claims, section):
    """Begin and commit in the server as in the section in_server, beside the literal protocol, for names and sources from anywhere. Returns a
    row for each size of a batch."""
    psql(DATABASE, f"""CREATE OR REPLACE FUNCTION bench.records(batch bigint, size int) RETURNS jsonb LANGUAGE sql AS $$
        SELECT jsonb_agg(jsonb_build_object(
                 'bucket', jsonb_build_object('type', 1, 'value', 'group-' || lpad((r.id / 1000)::text, 6, '0') || '/project-'
                                              || lpad(r.id::text, 9, '0') || '/' || batch || '/p' || i),
                 'subject', jsonb_build_object('type', 2, 'id', r.id / 1000),
                 'source', jsonb_build_object('type', 3, 'rails_primary_key_id', r.id)))
          FROM (SELECT batch % {claims} AS id) r, generate_series(1, size) i
        $$""")
    rows = []
    for size in BATCHES:
        say(f"size: {size} claims a batch, beside the literal protocol")
        a, b = beside_literal(DATABASE, size, LITERAL_ROUNDS)
        create, destroy = sum(a[:2]) / sum(b[:2]), sum(a[2:]) / sum(b[2:])
        rows.append([f"{claims:,}", size, f"{sum(a[:2]):.0f}", f"{sum(b[:2]):.0f}", f"{create:.2f}", f"{sum(a[2:]):.0f}", f"{sum(b[2:]):.0f}",
                     f"{destroy:.2f}"])
        if claims == SIZES[-1] * MILLION:
            section.at_most(f"size: create, {size} a batch, {SIZES[-1]} million: a / b", create, 0.45)
            section.at_most(f"size: destroy, {size} a batch, {SIZES[-1]} million: a / b", destroy, 0.45)
    return rows


def timed(sql):
    started = time.monotonic()
    out = psql(DATABASE, sql)
    return time.monotonic() - started, out


def bytes_a_claim(claims):
    return [int(psql(DATABASE, f"SELECT pg_relation_size('claims.{name}')")) / claims for name in ("claims", "claims_bucket", "claims_source")]


def check_on_standby():
    """Seconds that check() takes while the cluster is a standby."""
    say("size: check() on a standby")
    done = subprocess.run([HERE / "in-recovery.sh", "psql", "-XqAt", "-d", DATABASE, "-c", "\\timing on", "-c", CHECK],
                          text=True, capture_output=True)
    if done.returncode != 0:
        raise RuntimeError(f"no standby: {done.stderr.strip()}")
    return float(done.stdout.partition("Time: ")[2].split()[0]) / 1000


def vacuum_under_load(claims):
    """Seconds for a VACUUM of every page and index; cycles a second without one, and beside one after the other."""
    script = calls(claims, claims)["begin and commit, create and destroy"]
    alone = pgbench(DATABASE, script, clients=4, seconds=SECONDS)
    with Session(DATABASE, quiet=True) as session:
        session.process.stdin.write(f"{VACUUM} \\watch 0.01\n")
        beside = pgbench(DATABASE, script, clients=4, seconds=SECONDS)
        psql(DATABASE, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'VACUUM (%'")
    return timed(VACUUM)[0], alone, beside


def held_snapshot(claims, section):
    """Begin and list_leases before and after so many leases, under a snapshot that is held all the time."""
    begins = calls(claims, HOT)["begin and commit, create and destroy"]
    scripts = {"begin and commit, create and destroy": begins, "list_leases of none": LIST}
    with Session(DATABASE) as holder:
        holder.run("BEGIN ISOLATION LEVEL REPEATABLE READ")
        holder.run("SELECT count(*) FROM claims.cells")
        before = [took(script) for script in scripts.values()]
        say(f"size: a snapshot held for {HELD} leases")
        pgbench(DATABASE, begins, clients=8, transactions=max(1, HELD // 16))
        first = timed(LIST)[0]
        after = [took(script) for script in scripts.values()]
        holder.run("COMMIT")
    found = list(zip(scripts, before, after))
    section.tables.append((f"A snapshot held for {HELD} leases (as many as 500 a second make in half an hour); the first list after them took {first:.1f} s",
                           ["", "before, µs", "after, µs", "ratio"], [[name, f"{b:.0f}", f"{a:.0f}", f"{a / b:.2f}"] for name, b, a in found]))
    for name, b, a in found:
        section.at_most(f"size: {name} under a held snapshot, after / before", a / b, 1.2)


@on(PRELOADED)
# Keep the log small: the disk is for the claims.
@server_settings({**WITHOUT_FLUSHES, "max_wal_size": "2GB"})
def run():
    make()
    section = Section(
        TITLE,
        "One cell's claims in one table, loaded in the order of names and sources, which fills the pages of the indexes to 90 % (names in "
        "random order: about 70 %). One client, fsync off, so that flushes hide nothing; the library is preloaded. \"In memory\": names among the last "
        f"{HOT} rows; \"anywhere\": among all, of which shared_buffers has a part and the system's cache the rest. b is the literal protocol.")
    found, sizes, other, literal = [], [], [], []
    loaded = 0
    for millions in SIZES:
        claims = millions * MILLION
        for table in ("claims.claims", "literal.claims"):
            load(table, loaded + 1, claims)
        loaded = claims
        say(f"size: measuring among {claims} claims")
        literal += over_literal(claims, section)
        found.append(measured(claims))
        sizes.append([f"{claims:,}", *(f"{part:.0f}" for part in bytes_a_claim(claims))])
        checked, violations = timed(CHECK)
        if violations != "0":
            raise RuntimeError(f"claims.check() found {violations} violations among {claims} claims")
        say(f"size: check() took {checked:.0f} s")
        elsewhere = check_on_standby()
        vacuumed, alone, beside = vacuum_under_load(claims)
        other.append([f"{claims:,}", f"{checked:.1f}", f"{elsewhere:.1f}", f"{vacuumed:.1f}", f"{beside / alone:.2f}"])
    header = ["µs", *(f"{n * MILLION:,}" for n in SIZES), "last / first"]
    section.tables.append(("A call among so many claims", header, [
        [what, *(f"{f[what]:.0f}" for f in found), f"{found[-1][what] / found[0][what]:.2f}"] for what in found[0]]))
    section.tables.append(("Begin + commit in the server, names and sources from anywhere, µs",
                           ["claims", "claims a batch", "create: a", "create: b", "a / b", "destroy: a", "destroy: b", "a / b"], literal))
    section.tables.append(("Bytes a claim", ["claims", "table", "names", "sources"], sizes))
    section.tables.append(("Maintenance", ["claims", "check(), s", "on a standby, s", "VACUUM of every page, s", "cycles beside VACUUM / without"], other))
    for what in found[0]:
        if "in memory" in what or what == "list_leases of none":
            limit = 2 if what.startswith("list_leases") else 1.3
            section.at_most(f"size: {what}, {SIZES[-1]} / {SIZES[0]} million", found[-1][what] / found[0][what], limit)
    held_snapshot(loaded, section)
    return section
