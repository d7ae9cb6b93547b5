"""Verification of a cell's claims: all in order, one wrong among them, and the plain way beside it."""

import os
import time

from lib import LOADED, QUICK, Section, median, psql, say

ROUNDS = 1 if QUICK else 3
BATCH = 1000
TYPE = "RAILS_TABLE_ROUTES"

# The plain way, for a cell that has only list_records: everything in pages, each compared with the rows of its range.
PLAIN = f"""
CREATE FUNCTION plain() RETURNS TABLE (moved bigint, wrong bigint) LANGUAGE plpgsql AS $$
DECLARE
    after text; page_rows bigint; page_wrong bigint; first bigint := 0; last bigint;
BEGIN
    moved := 0; wrong := 0;
    PERFORM dblink_connect('plain', 'verification');
    CREATE TEMP TABLE page (source_id bigint, value text, subject_id text, cursor text) ON COMMIT DROP;
    LOOP
        TRUNCATE page;
        INSERT INTO page SELECT * FROM dblink('plain', format(
            'SELECT source_id::bigint, bucket_value, subject_id, cursor FROM claims.list_records(1, ''{TYPE}'', %L, {BATCH})', after))
            AS p (source_id bigint, value text, subject_id text, cursor text);
        SELECT count(*), max(p.source_id) INTO page_rows, last FROM page p;
        SELECT p.cursor INTO after FROM page p ORDER BY p.source_id DESC LIMIT 1;
        IF page_rows < {BATCH} THEN last := 9223372036854775807; END IF;
        SELECT count(*) INTO page_wrong FROM page p
          FULL JOIN (SELECT r.id, r.path, r.grp::text FROM routes r WHERE r.id > first AND r.id <= last) e
            ON (e.id, e.path, e.grp) = (p.source_id, p.value, p.subject_id)
         WHERE e.id IS NULL OR p.source_id IS NULL;
        moved := moved + page_rows; wrong := wrong + page_wrong; first := last;
        EXIT WHEN page_rows < {BATCH};
    END LOOP;
    PERFORM dblink_disconnect('plain');
    RETURN NEXT;
END $$;"""


def make():
    for name in ("verified", "verifying"):
        psql("postgres", f"CREATE DATABASE {name} TEMPLATE template0 ENCODING 'UTF8'")
        psql(name, "CREATE EXTENSION claims; SELECT claims.register_cell(1, 'postgres')")
    psql("postgres", "ALTER DATABASE verified SET track_functions = 'all'")
    say(f"verification: {LOADED} claims at the service, and the rows that call for them in the cell")
    rows = f"SELECT i AS id, 'group-' || i % 1000 || '/project-' || i AS path, i % 1000 AS grp FROM generate_series(1, {LOADED}) i"
    psql("verified", f"""
        SET synchronous_commit = off;
        INSERT INTO claims.claims (bucket_type, bucket_value, subject_type, subject_id, source_type, source_id, creator_id, status,
                                   created_at, updated_at)
        SELECT 1, path, 2, grp, 3, id, 1, 1, now() - interval '1 day', now() - interval '1 day' FROM ({rows}) r""")
    psql("verifying", f"""
        SET synchronous_commit = off;
        CREATE TABLE routes (id bigint PRIMARY KEY, path text UNIQUE, grp int);
        INSERT INTO routes {rows};
        INSERT INTO claims.claimed_attributes (table_name, attribute, bucket_type, subject_type, subject_key, source_type, source_key)
        VALUES ('routes', 'path', 'ROUTES', 'GROUP', 'grp', '{TYPE}', 'id');
        CREATE EXTENSION dblink;
        CREATE SERVER verification FOREIGN DATA WRAPPER claims_service
            OPTIONS (host '{os.environ["PGHOST"]}', port '{os.environ["PGPORT"]}', dbname 'verified');
        CREATE USER MAPPING FOR PUBLIC SERVER verification OPTIONS (user 'postgres');
        {PLAIN}""")
    for name in ("verified", "verifying"):
        psql(name, "VACUUM ANALYZE")


def timed(sql):
    started = time.monotonic()
    out = psql("verifying", sql)
    return time.monotonic() - started, out


def calls():
    """Calls of digest_records and verify_records at the service so far."""
    time.sleep(0.2)   # a session reports when it ends
    out = psql("verified", """SELECT coalesce(sum(calls) FILTER (WHERE funcname = 'digest_records'), 0),
        coalesce(sum(calls) FILTER (WHERE funcname = 'verify_records'), 0) FROM pg_stat_user_functions WHERE schemaname = 'claims'""")
    return [int(number) for number in out.split("|")]


def verify(expected, correct="false"):
    """Seconds, and rows moved: a digest is one row, a comparison sends at most a batch of records and brings the differences."""
    before = calls()
    seconds, out = timed(f"SELECT * FROM claims.verify(1, 'verification', '{TYPE}', {BATCH}, correct => {correct})")
    if out != expected:
        raise RuntimeError(f"verify said {out}, not {expected}")
    digests, comparisons = (now - then for now, then in zip(calls(), before))
    return seconds, digests + (comparisons - 1) * BATCH + 2 if comparisons else digests


def plain(wrong):
    seconds, out = timed("SELECT * FROM plain()")
    if out != f"{LOADED}|{wrong}":
        raise RuntimeError(f"the plain way found {out}")
    return seconds, LOADED


def middle(runs):
    runs = list(runs)
    return median(seconds for seconds, _ in runs), runs[-1][1]


def damage():
    psql("verified", f"UPDATE claims.claims SET subject_id = 'wrong', updated_at = now() - interval '1 day' WHERE source_id = '{LOADED // 3}'")


def run():
    make()
    say("verification: in order")
    in_order = middle(verify(f"{LOADED}|0|0|0|0|0|0|t") for _ in range(ROUNDS))
    say("verification: one wrong")
    def one_wrong():
        damage()
        return verify(f"{LOADED}|0|1|0|1|0|0|t", "true")
    corrected = middle(one_wrong() for _ in range(ROUNDS))
    say("verification: the plain way")
    plainly = middle(plain(0) for _ in range(ROUNDS))
    section = Section("Verification",
                      f"A cell with {LOADED} rows verifies their claims at the service, another database of the same cluster, through "
                      f"claims.verify() with batch_size {BATCH}. The plain way lists all claims in pages of {BATCH} and compares each page with "
                      "the rows of its range; it corrects nothing. Rows moved are counted in both directions.")
    def row(name, run):
        return [name, f"{run[0]:.2f}", f"{run[1]}", f"{run[0] / plainly[0]:.2f}", f"1 : {plainly[1] / run[1]:.0f}"]
    section.tables.append(("seconds and rows", ["", "seconds", "rows moved", "time / plain", "rows : plain"], [
        row("all in order", in_order), row("one wrong, found and corrected", corrected), row("the plain way", plainly)]))
    section.at_most("verification in order: rows moved / rows of the plain way", in_order[1] / plainly[1], 0.001 if not QUICK else 0.01)
    section.at_most("verification in order: time / plain way", in_order[0] / plainly[0], 1)
    section.at_most("one wrong claim: time / all in order", corrected[0] / in_order[0], 1.5)
    return section
