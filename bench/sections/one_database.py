"""Unique across partitions of one database: beside a unique index in each partition, and beside the recipe of a second table."""

import time

from lib import QUICK, Section, in_turns, median, pgbench, psql, ratio_of, say

OWN_DATABASES = True
TITLE = "Unique in one database"
DATABASE = "one_database"
ROLE = "postgres"
PARTITIONS = [10, 1000]
CLIENTS = [1, 8]
ROUNDS = 3 if QUICK else 5
SECONDS = 1 if QUICK else 2
COPIED = 20_000 if QUICK else 1_000_000
COPY_ROUNDS = 1 if QUICK else 2
DROPPED = 20_000 if QUICK else 1_000_000
DROP_ROUNDS = 3
SIZED = 20_000 if QUICK else 200_000

SIDES = ["indexes", "unique", "recipe"]
TABLE = "CREATE TABLE {side}_{partitions} (id bigint NOT NULL, key text NOT NULL) PARTITION BY RANGE (id)"
PARTITION = "CREATE TABLE {side}_{partitions}_{nth} PARTITION OF {side}_{partitions} FOR VALUES FROM ({lower}) TO ({upper})"
# Each partition has so many ids.
IDS = 10**9

# The recipe that people use: a table of its own has the unique index, and triggers write it.
RECIPE = """
    CREATE TABLE {name}_keys (key text PRIMARY KEY);
    CREATE FUNCTION {name}_change() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        IF TG_OP <> 'INSERT' THEN DELETE FROM {name}_keys WHERE key = OLD.key; END IF;
        IF TG_OP <> 'DELETE' THEN INSERT INTO {name}_keys VALUES (NEW.key); END IF;
        RETURN NULL;
    END $$;
    CREATE TRIGGER change AFTER INSERT OR UPDATE OR DELETE ON {name} FOR EACH ROW EXECUTE FUNCTION {name}_change()"""


def add(side, partitions):
    """Makes the tables of one side."""
    name = f"{side}_{partitions}"
    statements = [TABLE.format(side=side, partitions=partitions)]
    statements += [PARTITION.format(side=side, partitions=partitions, nth=nth, lower=nth * IDS, upper=(nth + 1) * IDS)
                   for nth in range(partitions)]
    if side == "indexes":
        statements += [f"CREATE UNIQUE INDEX ON {name}_{nth} (key)" for nth in range(partitions)]
    elif side == "unique":
        statements.append(f"SELECT claims.add_unique('{name}', '{{{name}}}', 'key')")
    else:
        statements.append(RECIPE.format(name=name))
    psql(DATABASE, ";\n".join(statements))


def make():
    say("one database: the tables")
    psql("postgres", f"CREATE DATABASE {DATABASE} TEMPLATE template0 ENCODING 'UTF8'")
    psql(DATABASE, "CREATE EXTENSION claims")
    for partitions in PARTITIONS:
        for side in SIDES:
            add(side, partitions)


def ratio(found, side):
    return ratio_of(found, side, "indexes")


def saves(section):
    rows = []
    for what, options, numbers in (("", "", PARTITIONS), (", synchronous_commit off", "-c synchronous_commit=off", PARTITIONS[:1])):
        for partitions in numbers:
            for clients in CLIENTS:
                def took(side, turn):
                    say(f"one database: {side}, {partitions} partitions, {clients} clients{what}, round {turn + 1}")
                    script = (f"\\set id random(0, {partitions * IDS - 1})\n"
                              f"INSERT INTO {side}_{partitions} VALUES (:id, md5(random()::text));\n")
                    return 1e6 * clients / pgbench(DATABASE, script, clients, ROLE, SECONDS, options=options)
                found = in_turns(SIDES, ROUNDS, took)
                rows.append([f"{partitions}{what}", clients, *(f"{median(found[side]):.0f}" for side in SIDES),
                             f"{ratio(found, 'unique'):.2f}", f"{ratio(found, 'recipe'):.2f}"])
                if not options:
                    section.at_most(f"INSERT of one row, {partitions} partitions, {clients} clients: unique / indexes", ratio(found, "unique"), 1.5)
    section.tables.append(("INSERT of one row, µs", ["partitions", "clients", *SIDES, "unique / indexes", "recipe / indexes"], rows))


def copied(side, partitions, first, number):
    """Copies rows into one partition of ten, or into all. Returns the seconds that it took."""
    rows = (f"SELECT i::bigint * {partitions * IDS // number}, md5('{first}-' || i) FROM generate_series(1, {number - 1}) i")
    psql(DATABASE, f"COPY ({rows}) TO '/tmp/claims-bench-one-database.csv'")
    began = time.monotonic()
    psql(DATABASE, f"COPY {side}_{partitions} FROM '/tmp/claims-bench-one-database.csv'")
    return time.monotonic() - began


def copy(section):
    rows = []
    for partitions in PARTITIONS:
        def took(side, turn):
            say(f"one database: COPY, {side}, {partitions} partitions, round {turn + 1}")
            return copied(side, partitions, f"copy-{turn}", COPIED)
        # The recipe takes longest.
        found = {**in_turns(SIDES[:2], COPY_ROUNDS, took), "recipe": [took("recipe", 0)]}
        rows.append([partitions, *(f"{median(found[side]):.1f}" for side in SIDES),
                     f"{ratio(found, 'unique'):.2f}", f"{ratio(found, 'recipe'):.2f}"])
        section.at_most(f"COPY of {COPIED} rows, {partitions} partitions: unique / indexes", ratio(found, "unique"), 3)
    section.tables.append((f"COPY of {COPIED} rows, s", ["partitions", *SIDES, "unique / indexes", "recipe / indexes"], rows))


def drop(section):
    """DROP of a partition with many rows, beside one of the same without. The claims of the rows take no part in it, and files take longer the larger
    they are: with more rows the ratio is smaller. A partition is made anew for each round."""
    def took(side, turn):
        say(f"one database: DROP of a partition, {side}, round {turn + 1}")
        name, nth = f"{side}_10", 10 + turn
        psql(DATABASE, PARTITION.format(side=side, partitions=10, nth=nth, lower=nth * IDS, upper=(nth + 1) * IDS))
        if side == "indexes":
            psql(DATABASE, f"CREATE UNIQUE INDEX ON {name}_{nth} (key)")
        psql(DATABASE, f"INSERT INTO {name}_{nth} SELECT {nth * IDS} + i, md5('drop-{turn}-' || i) FROM generate_series(1, {DROPPED}) i")
        began = time.monotonic()
        psql(DATABASE, f"DROP TABLE {name}_{nth}")
        return time.monotonic() - began
    sides = SIDES[:2]
    found = in_turns(sides, DROP_ROUNDS, took)
    section.tables.append((f"DROP of a partition with {DROPPED} rows, ms (with a client that connects)", [*sides, "unique / indexes"],
                           [[*(f"{1000 * median(found[side]):.0f}" for side in sides), f"{ratio(found, 'unique'):.2f}"]]))
    section.at_most(f"DROP of a partition with {DROPPED} rows: unique / indexes", ratio(found, "unique"), 2)


def size(section):
    """Bytes a row: of the table with its index, or of the claims."""
    psql(DATABASE, "CREATE TABLE sized (id bigint NOT NULL, key text NOT NULL); SELECT claims.add_unique('sized', '{sized}', 'key')")
    of_claims = "(SELECT sum(pg_total_relation_size(c)) FROM unnest('{claims.claims}'::regclass[]) c)"
    before = int(psql(DATABASE, f"SELECT {of_claims}"))
    rows = SIZED
    psql(DATABASE, f"INSERT INTO sized SELECT i, md5('sized-' || i) FROM generate_series(1, {rows}) i")
    claims = (int(psql(DATABASE, f"SELECT {of_claims}")) - before) / rows
    table = int(psql(DATABASE, "SELECT pg_total_relation_size('sized')")) / rows
    psql(DATABASE, "CREATE UNIQUE INDEX ON sized (key)")
    index = int(psql(DATABASE, "SELECT pg_indexes_size('sized')")) / rows
    section.tables.append(("bytes a row, of 32 letters and digits", ["table", "unique index", "claims"], [[f"{table:.0f}", f"{index:.0f}", f"{claims:.0f}"]]))


def run():
    make()
    section = Section(
        TITLE,
        "A table with an id and a text of 32 letters and digits, partitioned by ranges of ids. indexes: each partition has a unique index on the text, "
        "which lets a value stand once in each. unique: claims.add_unique. recipe: a second table with the texts as primary key, which a trigger in "
        "PL/pgSQL writes. pgbench -M prepared for single rows. In changing order; medians, and medians of the ratios of each round.")
    for part in (saves, copy, drop, size):
        part(section)
    if psql(DATABASE, "SELECT count(*) FROM claims.check()") != "0":
        raise RuntimeError("claims.check() found violations")
    return section
