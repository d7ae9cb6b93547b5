"""The databases, and the pgbench scripts of the four sides that are compared."""

import json

from lib import CELL_ROLES, HERE, LOADED, NEARLY_EMPTY, PLANNER, cycles, median, psql, say

SIDES = {
    "a": "this extension",
    "b": "the literal protocol, plpgsql functions",
    "c": "the literal protocol, statements sent by the client",
    "d": "floor: two transactions of one one-row INSERT",
}


# The leases of one call of the procedures in sql/cycles.sql, by the size of their batches.
COUNTS = {1: 400, 10: 100, 100: 20, 1000: 4}


def add_literal(name):
    """Adds the literal protocol to a database that has the extension, and the procedures that measure both."""
    psql(name, (HERE / "sql/literal.sql").read_text())
    for schema in ("claims", "literal"):
        psql(name, (HERE / "sql/cycles.sql").read_text().replace("{schema}", schema))


def beside_literal(database, size, rounds, after_round=lambda: None):
    """Medians over rounds, of the extension and of the literal protocol: begin and commit of a create, begin and commit of a destroy, in µs."""
    blocks = {"claims": [], "literal": []}
    for turn in range(rounds):
        # One after the other, in changing order, so that noise meets both. The first round only warms up.
        for schema in ("claims", "literal") if turn % 2 else ("literal", "claims"):
            took = cycles(database, schema, size, COUNTS[size])
            if turn:
                blocks[schema].append(took)
        after_round()
    return [[median(column) for column in zip(*blocks[schema])] for schema in ("claims", "literal")]


def make_database(name, loaded):
    """A database with both implementations; loaded with claims and analyzed, or as fresh as CREATE EXTENSION leaves it."""
    say(f"database {name}" + (f": loading {loaded} claims into each side" if loaded else ""))
    psql("postgres", CELL_ROLES + f"CREATE DATABASE {name} TEMPLATE template0 ENCODING 'UTF8'")
    # A fresh database measures only this extension, without settings of the planner.
    for setting in PLANNER.split(";") if loaded else ():
        psql("postgres", f"ALTER DATABASE {name} SET {setting}")
    psql(name, "CREATE EXTENSION claims")
    add_literal(name)
    psql(name, """
        SELECT claims.register_cell(1, 'cell_1');
        SELECT claims.register_cell(2, 'cell_2');
        CREATE TABLE bench.floor (n bigint);
        GRANT INSERT ON bench.floor TO PUBLIC;""")
    if loaded:
        for schema in ("claims", "literal"):
            psql(name, f"""
                SET synchronous_commit = off;
                DO $$ BEGIN FOR g IN 1..{loaded // 1000} LOOP
                  PERFORM {schema}.commit_update(1, {schema}.begin_update(1, bench.records(g * 1000000, 1000)));
                  COMMIT;
                END LOOP; END $$;""", role="cell_1")
        psql(name, "VACUUM ANALYZE")


def make_all():
    make_database("empty", NEARLY_EMPTY)
    make_database("million", LOADED)
    psql("postgres", "CHECKPOINT")


def clean(database):
    psql(database, "VACUUM claims.claims; VACUUM claims.claim_leases; VACUUM literal.claims; VACUUM literal.claim_leases")


def records(size):
    """One batch as JSON text. @ stands for the number that makes its names new."""
    return json.dumps([{"bucket": {"type": 1, "value": f"@/p{i}"}, "subject": {"type": 2, "id": 9970},
                        "source": {"type": 3, "rails_primary_key_id": i}} for i in range(1, size + 1)])


def array(texts):
    return "'{" + ",".join(texts) + "}'"


# Odd, so that they never meet the loaded ones, which are multiples of a million.
NEW_NAMES = "\\set r random(1, 500000000) * 2 + 1\n"


def functions(schema, size):
    """Sides a and b: a batch is created and committed, then destroyed and committed, so that the table stays as it is."""
    batch = f"replace('{records(size)}', '@', :r)::jsonb"
    return (NEW_NAMES
            + f"SELECT {schema}.begin_update(1, {batch}) AS lease \\gset\n"
            + f"SELECT {schema}.commit_update(1, :lease);\n"
            + f"SELECT {schema}.begin_update(1, '[]', {batch}) AS lease \\gset\n"
            + f"SELECT {schema}.commit_update(1, :lease);\n")


def statements(size):
    """Side c: the same with the client's own statements, several rows a statement."""
    names = f"replace({array(f'@/p{i}' for i in range(1, size + 1))}, '@', :r)::text[]"
    numbers = f"{array(str(i) for i in range(1, size + 1))}::text[]"
    batch = f"replace('{records(size)}', '@', :r)::jsonb"
    return (NEW_NAMES + f"""BEGIN;
INSERT INTO literal.claim_leases (creator_id, payload) VALUES (1, jsonb_build_object('create_records', {batch})) RETURNING uuid AS lease \\gset
INSERT INTO literal.claims (bucket_type, bucket_value, subject_type, subject_id, source_type, source_id, creator_id, lease_uuid, status) SELECT 1, name, 2, '9970', 3, number, 1, :lease, 2 FROM unnest({names}, {numbers}) AS u (name, number);
COMMIT;
BEGIN;
UPDATE literal.claims SET lease_uuid = NULL, status = 1, updated_at = now() WHERE lease_uuid = :lease;
DELETE FROM literal.claim_leases WHERE uuid = :lease AND creator_id = 1;
COMMIT;
BEGIN;
INSERT INTO literal.claim_leases (creator_id, payload) VALUES (1, jsonb_build_object('destroy_records', {batch})) RETURNING uuid AS lease \\gset
UPDATE literal.claims SET lease_uuid = :lease, status = 3, updated_at = now() WHERE bucket_type = 1 AND bucket_value = ANY ({names}) AND creator_id = 1 AND status = 1;
COMMIT;
BEGIN;
DELETE FROM literal.claims WHERE lease_uuid = :lease AND status = 3;
DELETE FROM literal.claim_leases WHERE uuid = :lease AND creator_id = 1;
COMMIT;
""")


def script(side, size):
    if side == "a":
        return functions("claims", size)
    if side == "b":
        return functions("literal", size)
    if side == "c":
        return statements(size)
    return "INSERT INTO bench.floor VALUES (1);\n" * 4
