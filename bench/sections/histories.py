"""Histories of a subject and of a name among many rows of the audit log, and what the index that finds them costs an audited commit."""

import os

from lib import PRELOADED, QUICK, Section, median, on, psql, say
from workload import make_database

OWN_DATABASES = True
ROWS = int(os.environ.get("BENCH_AUDIT_ROWS", 100_000 if QUICK else 10_000_000))
PORTION = 100_000
LEASES = 200
ROUNDS = 11
DATABASE = "histories"


def fill():
    """Rows of other subjects. Their keys are hashes of another kind: a history finds none of them."""
    psql(DATABASE, f"""
        SET synchronous_commit = off;
        DO $$ BEGIN FOR p IN 0..{ROWS // PORTION - 1} LOOP
          INSERT INTO claims.audit_log (at, id, cell_id, what, lease_uuid, session_role, application_name, ops, bucket_types, bucket_values,
                                        subjects, sources, search_keys)
          SELECT '2026-01-01'::timestamptz + n * interval '0.1 s', n, 1, 'committed', gen_random_uuid(), 'cell_1', 'a cell', '{{create}}', '{{ROUTES}}',
                 ARRAY['name' || n], ARRAY['USER ' || n], ARRAY['RAILS_TABLE_USERS ' || n], ARRAY[hashint8extended(n, 1), hashint8extended(n, 2)]
            FROM generate_series(p * {PORTION} + 1, (p + 1) * {PORTION}) n;
          COMMIT;
        END LOOP; END $$;
        SELECT gin_clean_pending_list('claims.audit_log_search');
        VACUUM ANALYZE claims.audit_log""")


def lease(number):
    """A lease of one name of USER 42."""
    return (f"SELECT claims.commit_update(1, claims.begin_update(1, '[{{\"bucket\": {{\"type\": \"ROUTES\", \"value\": \"own{number}\"}}, "
            f"\"subject\": {{\"type\": \"USER\", \"id\": 42}}, \"source\": {{\"type\": \"RAILS_TABLE_USERS\", \"id\": {number}}}}}]'));")


def took(call):
    """ms, and the number of rows."""
    out = psql(DATABASE, "\\timing on\n" + f"SELECT count(*) FROM {call};\n" * ROUNDS).splitlines()
    times = [float(line.split()[1]) for line in out if line.startswith("Time:")]
    return median(times[1:]), int(next(line for line in out if line.strip().isdigit()))


@on(PRELOADED)
def run():
    make_database(DATABASE, 0)
    section = Section("Histories", f"`subject_history` and `bucket_history` among {ROWS:,} rows of the audit log; the subject has {LEASES} of them. The library is "
                      "preloaded, and the tables of claims are small.")
    say(f"histories: {ROWS} rows")
    fill()
    psql(DATABASE, "SET claims.audit = 'settled'; " + "".join(map(lease, range(LEASES))))
    calls = {"subject_history": "claims.subject_history('USER', '42')", "bucket_history": "claims.bucket_history('ROUTES', 'own7')"}
    rows = []
    for name, call in calls.items():
        pending, _ = took(call)
        rows.append([name, pending, call])
    psql(DATABASE, "SELECT gin_clean_pending_list('claims.audit_log_search')")
    table = []
    for name, pending, call in rows:
        merged, found = took(call)
        table.append([name, found, f"{pending:.1f}", f"{merged:.1f}"])
        section.at_most(f"{name} among {ROWS:,} audited rows, ms", merged, 100)
        section.at_most(f"{name} before its keys are merged, ms", pending, 100)
    section.tables.append(("ms for a call", ["", "rows", "keys pending", "keys merged"], table))
    return section
