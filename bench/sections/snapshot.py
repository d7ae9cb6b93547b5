"""Begin and commit after many cycles while one snapshot is held open, as a long report does."""

from lib import PRELOADED, QUICK, Section, Session, WITHOUT_FLUSHES, median, on, pgbench, psql, say, server_settings
from workload import make_database, script

CYCLES = 8_000 if QUICK else 200_000
ROUNDS = 3
SECONDS = 1 if QUICK else 3
LIST = "\\timing on\nSELECT count(*) FROM claims.list_leases(1);\n"


def lease_time():
    """µs for begin plus commit of one claim, seen by one client."""
    return median(1e6 / (2 * pgbench("snapshot", script("a", 1), seconds=SECONDS)) for _ in range(ROUNDS))


def list_time():
    """ms for list_leases, which has nothing to list."""
    out = psql("snapshot", LIST * 5, "cell_1")
    return median(float(line.split()[1]) for line in out.splitlines() if line.startswith("Time:"))


@on(PRELOADED)
def run():
    make_database("snapshot", 0)
    section = Section("Under a snapshot held open",
                      f"A REPEATABLE READ transaction in the same database keeps its snapshot for {CYCLES} leases of one claim. "
                      "fsync is off here, so that flushes hide nothing; the library is preloaded.")
    with server_settings(WITHOUT_FLUSHES), Session("snapshot") as holder:
        holder.run("BEGIN ISOLATION LEVEL REPEATABLE READ")
        holder.run("SELECT count(*) FROM claims.claims")
        say("snapshot held open: before")
        before, list_before = lease_time(), list_time()
        say(f"snapshot held open: {CYCLES} leases")
        pgbench("snapshot", script("a", 1), clients=8, transactions=CYCLES // 16)
        say("snapshot held open: after")
        after, list_after = lease_time(), list_time()
        holder.run("COMMIT")
    section.tables.append(("before and after", ["", "before", "after", "after / before"], [
        ["begin + commit, µs", f"{before:.0f}", f"{after:.0f}", f"{after / before:.2f}"],
        ["list_leases of none, ms", f"{list_before:.2f}", f"{list_after:.2f}", f"{list_after / list_before:.2f}"]]))
    section.at_most(f"begin + commit: after / before {CYCLES} leases", after / before, 1.5)
    return section
