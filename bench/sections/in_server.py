"""Begin and commit inside the server: the extension against the literal protocol."""

from lib import BATCHES, QUICK, TABLES, Section, cycles, psql, say
from workload import COUNTS, beside_literal, clean, make_database

ROUNDS = 6 if QUICK else 25


def measure_fresh(size):
    """The extension alone, on a table that never held a row before the session."""
    make_database(f"fresh_{size}", 0)
    took = cycles(f"fresh_{size}", "claims", size, COUNTS[size] * 5)
    psql("postgres", f"DROP DATABASE fresh_{size}")
    return took


def run():
    section = Section("Begin and commit in the server",
                      "One connection, many leases in one transaction, µs a call (medians). a is this extension, b the "
                      "literal protocol. Each session makes six leases first, which are not measured. Created claims are destroyed again, "
                      "by another transaction, so the tables keep their size: \"empty\" is a "
                      f"thousand claims, because the literal protocol makes bad plans for a table without rows.")
    cost = {}
    for database in TABLES:
        rows = []
        for size in BATCHES:
            say(f"in the server, {database} table, {size} claims a batch")
            a, b = beside_literal(database, size, ROUNDS, after_round=lambda: clean(database))
            create, destroy = sum(a[:2]) / sum(b[:2]), sum(a[2:]) / sum(b[2:])
            cost[database, size] = sum(a)
            pair = lambda v: f"{v[0]:.0f} + {v[1]:.0f}"
            rows.append([size, pair(a[:2]), pair(b[:2]), f"{create:.2f}", pair(a[2:]), pair(b[2:]), f"{destroy:.2f}"])
            wanted = 0.4 if database == "empty" and size in (10, 100) else 0.45
            section.at_most(f"create, {size} a batch, {database} table: a / b", create, wanted)
            section.at_most(f"destroy, {size} a batch, {database} table: a / b", destroy, 0.45)
        section.tables.append((f"{database} table, begin + commit", ["claims a batch", "create: a", "create: b", "a / b",
                                                                     "destroy: a", "destroy: b", "a / b"], rows))
    for size in BATCHES:
        section.at_most(f"{size} a batch: million / empty table", cost["million", size] / cost["empty", size], 1.3)
    rows = []
    for size in BATCHES:
        say(f"in the server, fresh database, {size} claims a batch")
        fresh = sum(measure_fresh(size))
        rows.append([size, f"{fresh:.0f}", f"{cost['empty', size]:.0f}", f"{fresh / cost['empty', size]:.2f}"])
        section.at_most(f"{size} a batch: fresh database / empty table", fresh / cost["empty", size], 1.3)
    section.tables.append(("this extension right after CREATE EXTENSION, no row and no statistics, all four calls",
                           ["claims a batch", "fresh", "empty table", "fresh / empty"], rows))
    return section
