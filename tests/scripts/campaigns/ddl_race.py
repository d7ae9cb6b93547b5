"""The campaign of ddl_race.sh: cells that begin and commit leases, an application in the same database, and sessions that alter tables."""
import json
import os
import random
import re
import sys
import threading
import time
import uuid

from ddl_race_changes import CHANGES, Missed, Undone, restore
from psql_sessions import Session, fresh_database, psql

SECONDS = float(sys.argv[1])
DATABASE = "script_ddl_race"
CELLS = (2, 3, 4)
NAMES = [f"name{n}" for n in range(60)]
KINDS = range(6)
SETUP = """
CREATE EXTENSION claims;
DO $$ BEGIN CREATE EXTENSION amcheck; EXCEPTION WHEN undefined_file OR feature_not_supported THEN NULL; END $$;
SELECT claims.register_cell(c, current_user, 'cell ' || c) FROM generate_series(1, 4) c;
CREATE TABLE plain (id bigint PRIMARY KEY, name text UNIQUE);
CREATE TABLE parts (kind int, id bigint, name text, PRIMARY KEY (kind, id)) PARTITION BY LIST (kind);
CREATE INDEX ON parts (name);
SELECT claims.claim_attribute(t, 'name', 'ROUTES', 'GROUP', 'id', 'RAILS_TABLE_ROUTES', 'id') FROM unnest('{plain,parts}'::regclass[]) t;
SELECT claims.automatic_here(1);
ALTER DATABASE script_ddl_race SET claims.change_feed = on;
""" + "".join(f"CREATE TABLE part{kind} PARTITION OF parts FOR VALUES IN ({kind});" for kind in KINDS)
# What a cell and a save may get: conflicts, locks, no partition for a row, a deadlock with DDL.
ALLOWED = {"23505", "55P03", "23514", "40P01", "40001", "P0002"}
# What DDL may get: locks, a deadlock, an object that another session uses or has just dropped.
ALLOWED_FOR_DDL = {"55P03", "40P01", "55006", "42P01"}


def states(answer):
    """The SQLSTATEs of an answer. XX stands for a lost connection."""
    if answer is None:
        return ["XX"]
    return [found[1] for line in answer if (found := re.match(r"(?:ERROR|FATAL|PANIC): +(\w{5})", line))]


class Campaign:
    def __init__(self):
        self.started = time.monotonic()
        self.lock = threading.Lock()
        self.owners, self.errors, self.tally = {}, [], {}

    def is_over(self):
        seconds = time.monotonic() - self.started
        wanted = [name for name, _, _ in CHANGES] + ["committed", "saved"]
        return bool(self.errors) or seconds > SECONDS and (all(self.tally.get(what) for what in wanted) or seconds > SECONDS + 240)

    def count(self, what):
        with self.lock:
            self.tally[what] = self.tally.get(what, 0) + 1

    def fail(self, error):
        with self.lock:
            self.errors.append(error)

    def owns(self, name, cell):
        """Records that a cell was told that it owns a name."""
        with self.lock:
            if self.owners.setdefault(name, cell) != cell:
                self.errors.append(f"{name} is owned by cells {self.owners[name]} and {cell}")

    def gives_up(self, name):
        with self.lock:
            self.owners.pop(name, None)


def open_session():
    return Session("-v", "VERBOSITY=sqlstate")


def record(name):
    return {"bucket": {"type": "ROUTES", "value": name}, "subject": {"type": "GROUP", "id": 1}, "source": {"type": "RAILS_TABLE_ROUTES", "id": name}}


def settle(session, cell, lease, campaign, how):
    """Settles a lease. A table that is locked is no answer."""
    while True:
        answer = session.ask(f"SELECT claims.{how}_update({cell}, '{lease}')")
        found = states(answer)
        if not found:
            return True
        if found[0] not in ("55P03", "40P01"):
            campaign.fail(f"{how} of cell {cell}: {answer}")
            return False
        time.sleep(0.01)


def cell(number, campaign):
    """Begins and settles leases over names that all cells and the application want."""
    draw, session, own = random.Random(number), open_session(), set()
    while not campaign.is_over():
        destroys = draw.sample(sorted(own), min(len(own), draw.randrange(4)))
        creates = [name for name in draw.sample(NAMES, draw.randrange(1, 5)) if name not in own]
        if not creates and not destroys:
            continue
        lease = uuid.UUID(int=draw.getrandbits(128), version=4)
        batch = [json.dumps([record(name) for name in creates]), json.dumps([{"bucket": record(name)["bucket"]} for name in destroys])]
        answer = session.ask(f"SELECT claims.begin_update({number}, '{batch[0]}', '{batch[1]}', '{lease}')")
        found = states(answer)
        if found:
            if found[0] not in ALLOWED:
                campaign.fail(f"begin of cell {number}: {answer}")
            campaign.count("refused")
            continue
        how = "commit" if draw.random() < 0.8 else "rollback"
        if how == "commit":
            for name in destroys:
                campaign.gives_up(name)
        if settle(session, number, lease, campaign, how) and how == "commit":
            own = own.union(creates).difference(destroys)
            for name in creates:
                campaign.owns(name, number)
            campaign.count("committed")
    session.close()
    for name in own:
        campaign.owns(name, number)


def application(number, campaign):
    """Saves rows of both tables. A name of a partition is in no other one."""
    draw, session = random.Random(100 + number), open_session()
    while not campaign.is_over():
        statements = []
        for _ in range(draw.randrange(1, 4)):
            kind, row, name = draw.choice(KINDS), draw.randrange(30), draw.choice(NAMES)
            statements.append(draw.choice((
                f"INSERT INTO plain (id, name) VALUES ({row}, '{name}') ON CONFLICT (id) DO UPDATE SET name = excluded.name",
                f"DELETE FROM plain WHERE id = {row}",
                f"INSERT INTO parts (kind, id, name) VALUES ({kind}, {1000 * kind + row + 1000}, 'part{kind}-{row}') ON CONFLICT DO NOTHING",
                f"UPDATE parts SET name = 'part{kind}-{row}-b' WHERE kind = {kind} AND id = {1000 * kind + row + 1000}",
                f"DELETE FROM parts WHERE kind = {kind} AND id = {1000 * kind + row + 1000}")))
        answer = session.ask(f"BEGIN; {'; '.join(statements)}; COMMIT")
        found = [state for state in states(answer) if state != "25P02"]
        if any(state not in ALLOWED for state in found):
            campaign.fail(f"save: {statements}: {answer}")
        campaign.count("not saved" if found else "saved")
    session.close()


def changes(number, campaign):
    """Alters tables: each kind of change once, then at random. Only the first session does what PostgreSQL cannot do twice at once."""
    draw, session = random.Random(200 + number), open_session()
    mine = [change for change in CHANGES if number == 0 or not change[1]]
    first = draw.sample(mine, len(mine))
    while not campaign.is_over():
        name, _, change = first.pop() if first else draw.choice(mine)

        def ask(sql):
            answer = session.ask(sql)
            found = states(answer)
            if found:
                if any(state not in ALLOWED_FOR_DDL and state != "25P02" for state in found):
                    campaign.fail(f"{name}: {sql}: {answer}")
                session.ask("ROLLBACK")
                raise Undone
            return answer

        try:
            change(ask, draw, number)
            campaign.count(name)
        except Undone:
            campaign.count("ddl refused")
        except Missed as missed:
            campaign.fail(str(missed))
        time.sleep(draw.random() * 0.1)
    session.close()


JUDGEMENT = {
    "every committed row has its claim": """SELECT count(*) FROM (SELECT name FROM plain UNION ALL SELECT name FROM parts) r
        WHERE NOT EXISTS (SELECT FROM claims.claims c WHERE c.bucket_type = 1 AND c.bucket_value = r.name AND c.creator_id = 1 AND c.status = 1)""",
    "no lease is left": "SELECT count(*) FROM claims.claim_leases",
    "check() finds nothing": "SELECT count(*) FROM claims.check()",
    "no two claims of a name": "SELECT count(*) - count(DISTINCT (bucket_type, bucket_value)) FROM (SELECT bucket_type, bucket_value FROM claims.claims OFFSET 0) c",
}
AMCHECK = """SELECT coalesce(sum(length(bt_index_check(i.indexrelid, true)::text)), 0) + (SELECT count(*) FROM
    unnest('{claims.claims,claims.claim_leases,claims.lease_outcomes,claims.change_sets}'::regclass[]) t CROSS JOIN LATERAL verify_heapam(t))
    FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_am m ON m.oid = c.relam WHERE m.amname = 'btree'
     AND i.indrelid IN ('claims.claims'::regclass, 'claims.claim_leases'::regclass, 'claims.lease_outcomes'::regclass,
         'claims.change_sets'::regclass)"""


def main():
    fresh_database(DATABASE, SETUP)
    campaign = Campaign()
    work = [(cell, number) for number in CELLS] + [(application, number) for number in range(3)] + [(changes, number) for number in range(2)]
    threads = [threading.Thread(target=what, args=(number, campaign)) for what, number in work]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    restore(psql)
    if psql("SELECT count(*) FROM pg_extension WHERE extname = 'amcheck'") == "1":
        JUDGEMENT["amcheck finds nothing"] = AMCHECK
    failed = bool(campaign.errors)
    for error in campaign.errors[:10]:
        print("FAILED:", error)
    for what, question in JUDGEMENT.items():
        wrong = int(psql(question))
        failed |= wrong > 0
        print(f"{'ok' if wrong == 0 else 'FAILED'}: {what}" + (f" ({wrong})" if wrong else ""))
    told = {f"{name} {number}" for name, number in campaign.owners.items()}
    stored = set(psql("SELECT bucket_value || ' ' || creator_id FROM claims.claims WHERE creator_id > 1 AND status = 1").split("\n")) - {""}
    failed |= told != stored
    print(f"{'ok' if told == stored else 'FAILED'}: each cell owns what it was told" + (f" (not {sorted(told ^ stored)})" if told != stored else ""))
    missing = [name for name, _, _ in CHANGES if not campaign.tally.get(name)]
    failed |= bool(missing)
    print(dict(sorted(campaign.tally.items())), f"without {missing}" if missing else "")
    if not failed:
        os.environ["PGDATABASE"] = "postgres"
        psql(f"DROP DATABASE {DATABASE} WITH (FORCE)")
    sys.exit(1 if failed else 0)


main()
