"""Measured at the client: leases a second, every transaction durable."""

from lib import BATCHES, CONNECTIONS, QUICK, TABLES, Section, median, pgbench, say
from workload import SIDES, clean, script

ROUNDS = 1 if QUICK else 3
SECONDS = 1 if QUICK else 2


def measure(database, size, clients):
    """Leases a second of each side, medians of short rounds in turn."""
    found = {side: [] for side in SIDES}
    for turn in range(ROUNDS):
        order = list(SIDES) if turn % 2 == 0 else list(SIDES)[::-1]
        for side in order:
            # Each script makes two leases: one creates, one destroys.
            found[side].append(2 * pgbench(database, script(side, size), clients, seconds=SECONDS))
    clean(database)
    return {side: median(values) for side, values in found.items()}


def run():
    section = Section("End to end",
                      "Leases a second with pgbench (-M prepared), begin and commit each a durable transaction of its own. "
                      + "; ".join(f"{side}: {what}" for side, what in SIDES.items()) + ".")
    for database in TABLES:
        rows = []
        for clients in CONNECTIONS:
            for size in BATCHES:
                say(f"end to end, {database} table, {clients} connections, {size} claims a batch")
                got = measure(database, size, clients)
                rows.append([f"{clients} / {size}", *(f"{got[side]:.0f}" for side in SIDES),
                             *(f"{got['a'] / got[side]:.2f}" for side in "bcd")])
                if clients == 8:
                    section.at_least(f"8 connections, {size} a batch, {database} table: a / c", got["a"] / got["c"], 2 if size <= 10 else 1.6)
        section.tables.append((f"{database} table, leases a second",
                               ["connections / claims a batch", *SIDES, "a / b", "a / c", "a / d"], rows))
    return section
