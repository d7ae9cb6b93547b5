"""Statements of unique_campaign.py: what its sessions save, and the DDL beside them."""

KINDS = range(5)
DEEP = 5
LEVELS = ["READ COMMITTED"] * 3 + ["REPEATABLE READ", "SERIALIZABLE"]
TABLES = ("one", "north.users", "south.users", "parts")
VALUES = [f"v{n}" for n in range(60)]
ADD_UNIQUE = "SELECT claims.add_unique('keys', '{one, north.users, south.users, parts}', 'key')"
# The column stands elsewhere in each table.
TENANT = {"north": "CREATE TABLE north.users (id int, kind int, key text)", "south": "CREATE TABLE south.users (key varchar(40), gone int, kind int, id int)"}
SETUP = f"""
CREATE EXTENSION claims;
CREATE SCHEMA north; CREATE SCHEMA south; {TENANT['north']}; {TENANT['south']}; ALTER TABLE south.users DROP gone;
CREATE TABLE one (id int PRIMARY KEY, kind int, key text);
CREATE TABLE parts (id int, kind int, key text) PARTITION BY LIST (kind);
{"".join(f"CREATE TABLE p{kind} PARTITION OF parts FOR VALUES IN ({kind});" for kind in KINDS)}
CREATE TABLE deep PARTITION OF parts FOR VALUES IN ({DEEP}) PARTITION BY RANGE (id);
CREATE TABLE deep_low PARTITION OF deep DEFAULT;
CREATE TABLE deep_high PARTITION OF deep FOR VALUES FROM (15) TO (30);
{ADD_UNIQUE};

-- The values that stand twice. A partition belongs to its table as of the caller's snapshot, which it has taken with all tables locked: the plan of
-- a query on the partitioned table itself would have partitions that are newer.
CREATE FUNCTION twice() RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
    all_rows text;
BEGIN
    WITH RECURSIVE tree AS (
        SELECT unnest('{{one, north.users, south.users, parts}}'::regclass[])::oid AS oid
        UNION ALL SELECT i.inhrelid FROM tree JOIN pg_inherits i ON i.inhparent = tree.oid WHERE NOT i.inhdetachpending)
    SELECT string_agg(format('SELECT key::text, %L AS place FROM ONLY %s', c.oid::regclass, c.oid::regclass), ' UNION ALL ') INTO all_rows
      FROM tree JOIN pg_class c USING (oid) WHERE c.relkind = 'r';
    RETURN QUERY EXECUTE format('SELECT key || '' in '' || string_agg(place, '' and '') FROM (%s) r GROUP BY key HAVING count(*) > 1', all_rows);
END $$;
-- What becomes of a value that is saved, without saving it.
CREATE FUNCTION attempt(value text, target regclass) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format('INSERT INTO %s (id, kind, key) VALUES (-1, {DEEP}, %L)', target, value);
    SET CONSTRAINTS ALL IMMEDIATE;
    RAISE EXCEPTION 'saved';
EXCEPTION WHEN unique_violation THEN RETURN 'refused';
    WHEN raise_exception THEN RETURN 'saved';
END $$;
"""


def save(draw):
    """A statement of a session that saves."""
    table, other = draw.sample(TABLES, 2)
    row, kind, value, second = draw.randrange(30), draw.randrange(DEEP + 1), draw.choice(VALUES), draw.choice(VALUES)
    partition = f"p{draw.choice(KINDS)}"
    return draw.choice((
        f"INSERT INTO {table} (id, kind, key) VALUES ({row}, {kind}, '{value}')",
        f"INSERT INTO {table} (id, kind, key) VALUES ({row}, {kind}, '{value}')",
        f"INSERT INTO {partition} (id, kind, key) VALUES ({row}, {partition[1:]}, '{value}')",
        f"INSERT INTO one VALUES ({row}, {kind}, '{value}') ON CONFLICT (id) DO UPDATE SET key = excluded.key",
        f"MERGE INTO north.users u USING (VALUES ({row}, {kind}, '{value}')) v (id, kind, key) ON u.id = v.id "
        "WHEN MATCHED THEN UPDATE SET key = v.key WHEN NOT MATCHED THEN INSERT (id, kind, key) VALUES (v.id, v.kind, v.key)",
        f"UPDATE {table} SET key = '{value}' WHERE id = {row}",
        f"UPDATE {table} SET key = CASE key WHEN '{value}' THEN '{second}' ELSE '{value}' END WHERE key IN ('{value}', '{second}')",
        f"UPDATE {table} SET key = '{second}' WHERE key = '{value}'; UPDATE {other} SET key = '{value}' WHERE key = '{second}'",
        f"UPDATE parts SET kind = {kind} WHERE id = {row}",
        f"UPDATE parts SET kind = {kind}, key = '{second}' WHERE key = '{value}'",
        f"WITH gone AS (DELETE FROM {table} WHERE id = {row} RETURNING id, kind, key) INSERT INTO {other} (id, kind, key) SELECT id, kind, key FROM gone",
        f"DELETE FROM {table} WHERE id = {row}",
        f"DELETE FROM {table} WHERE key IN ('{value}', '{second}')",
        "SET CONSTRAINTS ALL IMMEDIATE",
        "SET CONSTRAINTS ALL DEFERRED",
    ))


def rows(draw, kind):
    """Rows for a table that is to be a partition."""
    return f"INSERT INTO p{kind} VALUES " + ", ".join(f"({draw.randrange(30)}, {kind}, '{value}')" for value in draw.sample(VALUES, draw.randrange(1, 4)))


def of_no_table(draw, kind):
    """DDL where the table of a partition does not exist. Each is (name, statements)."""
    table, attach = f"p{kind}", f"ALTER TABLE parts ATTACH PARTITION p{kind} FOR VALUES IN ({kind})"
    like, values = f"CREATE TABLE {table} (LIKE parts)", draw.sample(VALUES, 10)
    from_table = draw.choice(TABLES[:3])
    listed = ", ".join(f"'{value}'" for value in values)
    moved = f"WITH gone AS (DELETE FROM {from_table} WHERE key IN ({listed}) RETURNING id, key) INSERT INTO {table} SELECT id, {kind}, key FROM gone"
    return [("create", [f"CREATE TABLE {table} PARTITION OF parts FOR VALUES IN ({kind})"]),
            ("create and fill", ["BEGIN", f"CREATE TABLE {table} PARTITION OF parts FOR VALUES IN ({kind})", rows(draw, kind), "COMMIT"]),
            ("attach new", ["BEGIN", like, rows(draw, kind), attach, save(draw), "COMMIT"]),
            ("attach moved", ["BEGIN", like, moved, attach, "COMMIT"]),
            ("make loose", [like, rows(draw, kind)])]


def of_loose(draw, kind):
    """DDL where the table of a partition is not attached."""
    attach = f"ALTER TABLE parts ATTACH PARTITION p{kind} FOR VALUES IN ({kind})"
    # Most values stand elsewhere by now.
    standing = " UNION ALL ".join(f"SELECT key FROM {table}" for table in TABLES)
    delete = f"DELETE FROM p{kind} WHERE kind IS DISTINCT FROM {kind} OR key IN ({standing})"
    return [("attach as it is", [attach]),
            ("attach", [delete, attach]),
            ("attach and roll back", ["BEGIN", delete, attach, save(draw), "ROLLBACK"]),
            ("attach what is left", ["BEGIN", delete, attach, save(draw), "COMMIT"]),
            ("drop loose", [f"DROP TABLE p{kind}"])]


def of_partition(draw, kind):
    """DDL where the table of a partition is attached."""
    table, detach = f"p{kind}", f"ALTER TABLE parts DETACH PARTITION p{kind}"
    repeat = ["BEGIN ISOLATION LEVEL REPEATABLE READ", "SELECT FROM one LIMIT 1"]
    return [("detach", [detach]),
            ("detach concurrently", [f"{detach} CONCURRENTLY"]),
            ("detach concurrently", [f"{detach} CONCURRENTLY"]),
            ("detach and save", ["BEGIN", save(draw), detach, save(draw), "COMMIT"]),
            ("detach and attach", ["BEGIN", detach, rows(draw, kind), f"ALTER TABLE parts ATTACH PARTITION {table} FOR VALUES IN ({kind})", "COMMIT"]),
            ("drop", [f"DROP TABLE {table}"]),
            ("drop with an old snapshot", repeat + [f"DROP TABLE {table}", "COMMIT"]),
            ("drop and save", ["BEGIN", save(draw), f"DROP TABLE {table}", save(draw), "COMMIT"]),
            ("drop and roll back", ["BEGIN", save(draw), "SAVEPOINT s", f"DROP TABLE {table}", save(draw), "ROLLBACK TO s", save(draw), "COMMIT"]),
            ("drop prepared", ["BEGIN", f"DROP TABLE {table}", "PREPARE TRANSACTION"]),
            ("truncate", [f"TRUNCATE {table}"]),
            ("truncate and save", ["BEGIN", save(draw), f"TRUNCATE {table}", save(draw), "COMMIT"])]


def of_pending(_, kind):
    """DDL where DETACH CONCURRENTLY was stopped between its two transactions."""
    return [("finalize", [f"ALTER TABLE parts DETACH PARTITION p{kind} FINALIZE"]), ("drop pending", [f"DROP TABLE p{kind}"])]


def of_tables(draw):
    """DDL on the tables of the unique, and on the unique itself."""
    again = ["SELECT claims.drop_unique('keys', 'campaign')", ADD_UNIQUE]
    tenant = draw.choice(("north", "south"))
    return [("truncate a table", [f"TRUNCATE {draw.choice(TABLES[:3])}"]),
            ("truncate all partitions", ["TRUNCATE parts"]),
            ("truncate and roll back", ["BEGIN", f"TRUNCATE {draw.choice(TABLES)}", save(draw), "ROLLBACK"]),
            ("drop a schema", ["BEGIN", f"DROP SCHEMA {tenant} CASCADE", f"CREATE SCHEMA {tenant}", TENANT[tenant], save(draw), *again, "COMMIT"]),
            ("drop the unique and add it", ["BEGIN", *again, "COMMIT"]),
            ("drop the unique and roll back", ["BEGIN", save(draw), again[0], "ROLLBACK"]),
            ("change the type", [f"ALTER TABLE south.users ALTER key TYPE {draw.choice(('text', 'varchar(40)'))}"]),
            ("change the type of partitions", ["ALTER TABLE parts ALTER key TYPE text USING key || ''"]),
            ("purge", ["SELECT claims.purge_uniques(5)"])]


# By how the table of a partition is.
BY_STATE = {"none": of_no_table, "loose": of_loose, "partition": of_partition, "pending": of_pending}
