"""Several cells in one database, of which two are hostile. See hostile_cells.sh.

One act follows another, each in one of the sessions of the roles; transactions of several sessions are open at the same time. Around each act of
another role than cell 1's the committed claims of cell 1 are compared: they are the same rows before and after it. No answer to a hostile role
has a name that only cell 1 knows."""
import os
import random
import re
import sys
import time
from collections import Counter

from psql_sessions import Session, fresh_database

SECONDS = float(sys.argv[1])
SEED = int(os.environ.get("HOSTILE_SEED", random.randrange(10 ** 6)))
RANDOM = random.Random(SEED)
NAMES = [f"name{n}" for n in range(12)]
SECRET = "secret-"

SETUP = r"""
DO $$
DECLARE r text;
BEGIN
    FOREACH r IN ARRAY '{hostile_one,hostile_two,hostile_three}'::text[] LOOP
        IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = r) THEN EXECUTE 'CREATE ROLE ' || r; END IF;
    END LOOP;
END $$;
GRANT hostile_three TO hostile_two;
CREATE EXTENSION claims;
SELECT claims.register_cell(1, 'hostile_one', 'one'), claims.register_cell(2, 'hostile_two', 'two'), claims.register_cell(3, 'hostile_three', 'three');
CREATE SCHEMA one AUTHORIZATION hostile_one; CREATE SCHEMA two AUTHORIZATION hostile_two; CREATE SCHEMA three AUTHORIZATION hostile_three;
CREATE SCHEMA shared; GRANT ALL ON SCHEMA shared TO PUBLIC;
DO $$ BEGIN EXECUTE format('CREATE SERVER here FOREIGN DATA WRAPPER claims_service OPTIONS (host %L, port %L, dbname %L)',
    split_part(current_setting('unix_socket_directories'), ',', 1), current_setting('port'), current_database()); END $$;
CREATE USER MAPPING FOR PUBLIC SERVER here OPTIONS (user :'own_role');
SELECT claims.automatic_here(1);
SET SESSION AUTHORIZATION hostile_one;
CREATE TABLE one.users (id bigint PRIMARY KEY, name text UNIQUE, org int DEFAULT 1);
CREATE TABLE one.secrets (id bigint PRIMARY KEY, name text UNIQUE, org int DEFAULT 1);
SELECT claims.claim_attribute('one.users', 'name', 'USERNAMES', 'USER', 'id', 'RAILS_TABLE_USERS'),
       claims.claim_attribute('one.secrets', 'name', 'USERNAMES', 'USER', 'id', 'RAILS_TABLE_USERS', declaration => 'secrets');
INSERT INTO one.secrets SELECT 1000 + n, 'secret-' || n FROM generate_series(1, 20) n;
"""

OWNED = """SELECT coalesce(string_agg(concat_ws(' ', uuid, bucket_value, subject_id, source_type, source_id, status, lease_uuid), ','
                                      ORDER BY bucket_value COLLATE "C"), '') FROM claims.claims WHERE creator_id = 1"""
UNCLAIMED = """SELECT count(*) FROM (TABLE one.users UNION ALL TABLE one.secrets) u
                WHERE NOT EXISTS (SELECT FROM claims.claims c WHERE c.bucket_value = u.name AND c.creator_id = 1 AND c.status = 1
                                     AND c.source_id = u.id::text)"""


class Failure(Exception):
    pass


class Actor:
    """A role with its session, which may have an open transaction."""

    def __init__(self, cell, schema):
        self.cell, self.schema = cell, schema
        self.role = "hostile_" + schema
        self.session = Session()
        self.is_open = False
        self.ask(f"\\set VERBOSITY sqlstate\nSET SESSION AUTHORIZATION {self.role}; SET lock_timeout = '200ms'; SET statement_timeout = '20s'; "
                 "SET client_min_messages = error")

    def ask(self, sql):
        lines = self.session.ask(sql)
        if lines is None:
            raise Failure(f"the session of {self.role} has ended after: {sql}")
        return "\n".join(lines)

    def table(self):
        return RANDOM.choice([f"{self.schema}.t{RANDOM.randrange(3)}", f"shared.{self.schema}"])

    def write(self, table, ids):
        name, number = RANDOM.choice(NAMES), RANDOM.choice(ids)
        return RANDOM.choice([
            f"INSERT INTO {table} VALUES ({number}, '{name}') ON CONFLICT DO NOTHING",
            f"UPDATE {table} SET name = '{name}' WHERE id = {number}",
            f"UPDATE {table} SET id = id + 10 WHERE id = {number}",
            f"DELETE FROM {table} WHERE id = {number}",
            f"DELETE FROM {table} WHERE name = '{name}'",
        ])

    def transaction(self):
        """Begins or ends a transaction, or does a part of one."""
        if not self.is_open:
            self.is_open = True
            return "BEGIN"
        kind = RANDOM.randrange(5)
        if kind < 2:
            self.is_open = False
            return RANDOM.choice(["COMMIT", "COMMIT", "ROLLBACK"])
        return ["SAVEPOINT s", "ROLLBACK TO s", "SET CONSTRAINTS ALL IMMEDIATE"][kind - 2]

    def own_act(self):
        """An act of cell 1."""
        if RANDOM.random() < 0.3:
            return self.transaction()
        return self.write("one.users", range(1, 12))

    def hostile_act(self):
        if RANDOM.random() < 0.2:
            return self.transaction()
        table, name, number = self.table(), RANDOM.choice(NAMES), RANDOM.randrange(1, 12)
        source = RANDOM.choice(["RAILS_TABLE_USERS", "RAILS_TABLE_USERS", "RAILS_TABLE_PROJECTS"])
        cell = RANDOM.choice([1, self.cell, self.cell])
        claim = (f'{{"bucket":{{"type":"USERNAMES","value":"{name}"}},"subject":{{"type":"USER","id":{number}}},'
                 f'"source":{{"type":"{source}","rails_primary_key_id":{number}}}}}')
        other = RANDOM.choice(["hostile_one", "hostile_two", "hostile_three"])
        declaration = RANDOM.choice(["name", "other"])
        return RANDOM.choice([
            f"CREATE TABLE {table} (id bigint PRIMARY KEY, name text, org int DEFAULT 1)",
            lambda: self.write(table, range(1, 12)), lambda: self.write(table, range(1, 12)), lambda: self.write(table, range(1, 12)),
            lambda: self.write(RANDOM.choice(["one.users", "one.secrets", "shared.given"]), range(1, 12)),
            f"SELECT claims.claim_attribute('{RANDOM.choice([table, table, table, 'one.users', 'shared.given'])}', 'name', 'USERNAMES', 'USER', "
            f"'id', '{source}', declaration => '{declaration}')",
            f"SELECT claims.unclaim_attribute('{RANDOM.choice([table, 'one.users', 'shared.given'])}', 'name')",
            f"SELECT claims.set_enforcement('{RANDOM.choice([table, 'one.users'])}', 'name', "
            f"'{RANDOM.choice(['off', 'observe', 'enforce'])}', 'test', {RANDOM.choice([50, 100])})",
            f"ALTER TABLE {table} OWNER TO {other}",
            f"ALTER TABLE {table} RENAME TO {'t' + str(RANDOM.randrange(3))}",
            f"ALTER TABLE {table} RENAME COLUMN name TO was",
            f"DROP TABLE {table}",
            f"SELECT claims.commit_update({cell}, claims.begin_update({cell}, '[{claim}]'))",
            f"SELECT claims.commit_update({cell}, claims.begin_update({cell}, '[]', '[{claim}]'))",
            f"SELECT claims.begin_pending({cell}, 'here')",
            f"SELECT claims.expected_records('{source}')",
            f"SELECT * FROM claims.digest_expected('{source}')",
            "SELECT * FROM claims.claimed_columns",
            f"SELECT * FROM claims.list_discrepancies({cell}, 'here', '{source}', recent => '0')",
            f"SELECT * FROM claims.preview_import({cell}, 'here', '{source}')",
            f"SELECT * FROM claims.import_collisions({cell}, '{source}')",
            f"SELECT * FROM claims.verify({cell}, 'here', '{source}', recent => '0', correct => true)",
            f"SELECT claims.begin_verification({cell}, '{source}', true)",
            f"CALL claims.import_claims({cell}, 'here', '{source}')",
            f"SELECT * FROM claims.list_records({cell})",
            f"SELECT * FROM claims.verify_records({self.cell}, '{source}', NULL, NULL, '[{claim}]', '0', true)",
            f"SELECT * FROM claims.import_records({self.cell}, '[{claim}]')",
            f"SELECT claims.prepare_transfer(1, {self.cell}, '[{{\"type\":\"USER\",\"id\":{number}}}]')",
            f"SELECT claims.automatic_here({self.cell})", "SELECT claims.automatic(NULL, NULL)", f"SELECT claims.automatic({self.cell}, 'here')",
            "SELECT * FROM claims.last_conflicts()", "SELECT * FROM claims.verification_progress",
        ])


def administrator(actors):
    """A mistake of an administrator, or a deliberate act that gives a hostile role something."""
    if any(actor.is_open for actor in actors):
        return None
    hostile = RANDOM.choice(actors[1:])
    table = hostile.table()
    create = f"CREATE TABLE IF NOT EXISTS {table} (id bigint PRIMARY KEY, name text, org int DEFAULT 1);"
    declare = f"SELECT claims.claim_attribute('{table}', 'name', 'USERNAMES', 'USER', 'id', 'RAILS_TABLE_USERS');"
    as_hostile = f"SET SESSION AUTHORIZATION {hostile.role};"
    given = "shared.given"
    return RANDOM.choice([
        # a declaration that is older than automatic mode
        f"BEGIN; SELECT claims.automatic(NULL, NULL); {as_hostile} {create} {declare} RESET SESSION AUTHORIZATION; "
        "SELECT claims.automatic_here(1); COMMIT",
        # a table of cell 1 that gets a hostile owner, with rows
        f"BEGIN; CREATE TABLE {given} (id bigint PRIMARY KEY, name text, org int DEFAULT 1); ALTER TABLE {given} OWNER TO hostile_one; "
        f"SELECT claims.claim_attribute('{given}', 'name', 'USERNAMES', 'USER', 'id', 'RAILS_TABLE_USERS', declaration => 'given'); COMMIT; "
        f"INSERT INTO {given} SELECT n, 'given' || n FROM generate_series(21, 23) n; ALTER TABLE {given} OWNER TO {hostile.role}",
    ])


def run():
    counts, started, checker = Counter(), time.monotonic(), Session()

    def read(query):
        lines = checker.ask(query)
        if lines is None or any("ERROR" in line for line in lines):
            raise Failure(f"cannot read the claims: {lines}")
        return "\n".join(lines)

    actors = [Actor(1, "one"), Actor(2, "two"), Actor(3, "three")]
    while time.monotonic() - started < SECONDS:
        if RANDOM.random() < 0.03:
            act = administrator(actors)
            if act is not None:
                admin = Session()
                admin.ask("\\set VERBOSITY sqlstate\nSET client_min_messages = error; SET lock_timeout = '200ms'; SET ROLE NONE")
                admin.ask(act)
                admin.close()
            continue
        actor = RANDOM.choice(actors)
        if actor.cell == 1:
            answer = actor.ask(actor.own_act())
            counts["of cell 1" + (" refused" if "ERROR" in answer else "")] += 1
            if read(UNCLAIMED) != "0":
                raise Failure("a row of cell 1 has no claim of its own")
            continue
        before = read(OWNED)
        act = actor.hostile_act()
        act = act() if callable(act) else act
        answer = actor.ask(act)
        after = read(OWNED)
        if before != after:
            raise Failure(f"{actor.role} has changed claims of cell 1 by: {act}\n{answer}\nbefore: {before}\nafter:  {after}")
        if SECRET in answer:
            raise Failure(f"{actor.role} has read names of cell 1 by: {act}\n{answer}")
        if re.search("XX[0-9]{3}", answer):
            raise Failure(f"internal error for {actor.role} by: {act}\n{answer}")
        counts["hostile" + (" refused" if "ERROR" in answer else "")] += 1
        if "cannot claim names for cell" in answer or "42501" in answer:
            counts["42501"] += 1
    for session in [checker, *(actor.session for actor in actors)]:
        session.close()
    print(", ".join(f"{what}: {count}" for what, count in sorted(counts.items())))
    if min(counts["42501"], counts["hostile"], counts["of cell 1"]) < 5:
        raise Failure("too little has happened")


print(f"seed {SEED} (HOSTILE_SEED)", flush=True)
fresh_database("hostile_cells", SETUP.replace(":'own_role'", "'" + os.environ.get("PGUSER", "postgres") + "'"))
try:
    run()
except Failure as failure:
    print(f"FAILED: {failure}")
    sys.exit(1)
print("ok: no claim of cell 1 was lost, freed or changed by another cell, and none of its rows was read")
