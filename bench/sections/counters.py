"""The cost of counters in a begin: equal cycles on a server that preloads the library, and so counts, and on one that does not."""

from lib import CELL_ROLES, HERE, PRELOADED, QUICK, Section, cycles, median, psql, say

CYCLES = 500
ROUNDS = 10 if QUICK else 120
OWN_DATABASES = True


def make(cluster):
    psql("postgres", CELL_ROLES, cluster=cluster)
    psql("postgres", "CREATE DATABASE counters TEMPLATE template0 ENCODING 'UTF8'", cluster=cluster)
    psql("counters", "CREATE EXTENSION claims; SELECT claims.register_cell(1, 'cell_1')", cluster=cluster)
    psql("counters", (HERE / "sql/cycles.sql").read_text().replace("{schema}", "claims"), cluster=cluster)


def once(cluster):
    """µs for a begin, and for begin plus commit, of one claim in the server."""
    begin, commit = cycles("counters", "claims", 1, CYCLES, cluster)[:2]
    return begin, begin + commit


def run():
    clusters = {"counted": PRELOADED, "not counted": None}
    for cluster in clusters.values():
        make(cluster)
    found = {name: [] for name in clusters}
    say(f"counters: {ROUNDS} pairs")
    for turn in range(ROUNDS + 1):
        # In changing order, so that what else the machine does meets both. The first round only warms up.
        for name in list(clusters)[:: 1 if turn % 2 else -1]:
            took = once(clusters[name])
            if turn:
                found[name].append(took)
        if turn % 20 == 0:
            for cluster in clusters.values():
                psql("counters", "VACUUM claims.claims; VACUUM claims.claim_leases; VACUUM claims.lease_outcomes", cluster=cluster)
    begin, both = (median(a[what] / b[what] for a, b in zip(found["counted"], found["not counted"])) for what in (0, 1))
    section = Section("The cost of counters",
                      f"One connection, {CYCLES} leases of one claim in one transaction, {ROUNDS} times on each of two servers: one that preloads the library, "
                      "and so counts begins, settlements and their times, and one that does not. The ratio is the median over the pairs.")
    rows = [[what, *(f"{median(row[place] for row in found[name]):.1f}" for name in clusters), f"{ratio:.3f}"]
            for place, what, ratio in ((0, "begin, µs", begin), (1, "begin + commit, µs", both))]
    section.tables.append(("one claim", ["", *clusters, "ratio"], rows))
    section.at_most("counters: begin where it counts / where it does not", begin, 1.01)
    return section
