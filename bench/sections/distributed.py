"""The cost of a call on distributed tables of a Citus cluster, compared with tables in one database: time, and the number of messages to other
nodes. Skipped without Citus."""

import os
import re
import subprocess
import time

from lib import BATCHES, CELL_ROLES, QUICK, Section, leading_to, median, pgbench, psql, say
from workload import functions, records

OWN_DATABASES = True
TITLE = "Distributed tables"
NODES = ["spread0", "spread1", "spread2"]
DATABASE = "spread"
ROUNDS = 3 if QUICK else 9
CYCLES = {1: 100, 10: 50, 100: 10, 1000: 4}
CLIENTS, SECONDS = 8, 2 if QUICK else 10
WANTED = {1: 4, 10: 5, 100: 4, 1000: 2}
# Citus sends these to all nodes of a transaction before it waits for the first answer.
AT_ONCE = ("SAVEPOINT", "RELEASE", "ROLLBACK", "SET", "PREPARE", "COMMIT")


def make():
    say("a Citus cluster of three nodes, and a database of one")
    for node in NODES:
        psql("postgres", CELL_ROLES + f"CREATE DATABASE {DATABASE} TEMPLATE template0 ENCODING 'UTF8'", cluster=node)
        psql(DATABASE, "CREATE EXTENSION citus", cluster=node)
    coordinator, *workers = (os.environ[f"CLUSTER_{node}"].rsplit(":", 1) for node in NODES)
    psql(DATABASE, f"SELECT citus_set_coordinator_host('{coordinator[0]}', {coordinator[1]})", cluster=NODES[0])
    for host, port in workers:
        psql(DATABASE, f"SELECT citus_add_node('{host}', {port})", cluster=NODES[0])
    psql("postgres", CELL_ROLES + f"CREATE DATABASE {DATABASE} TEMPLATE template0 ENCODING 'UTF8'")
    for cluster in (NODES[0], None):
        psql(DATABASE, "CREATE EXTENSION claims; SELECT claims.register_cell(1, 'cell_1')", cluster=cluster)
    psql(DATABASE, "SELECT claims.distribute(reason => 'a bench')", cluster=NODES[0])


def calls(size, number):
    """A save of `size` new names: two calls, each a transaction of its own, as a cell makes them."""
    batch = f"'{records(size)}'".replace("@", f"{size}-{number}")
    return [f"SELECT claims.begin_update(1, {batch}) AS lease \\gset", "SELECT claims.commit_update(1, :'lease') \\g /dev/null"]


def once(cluster, size, start):
    """ms for begin and for commit, medians of one session on a node."""
    lines = ["\\timing on"] + [line for number in range(start, start + CYCLES[size] + 1) for line in calls(size, number)]
    done = subprocess.run(["psql", "-XqAt", "-v", "ON_ERROR_STOP=1", "-d", DATABASE, "-U", "cell_1"], input="\n".join(lines),
                          text=True, capture_output=True, env=leading_to(cluster))
    if done.returncode:
        raise RuntimeError(done.stderr)
    # The session's first save makes connections and plans.
    took = [float(line.split()[1]) for line in done.stdout.splitlines() if line.startswith("Time:")][2:]
    return median(took[::2]), median(took[1::2])


def messages(size):
    """Returns, for begin and for commit, the messages to other nodes, and how often the call waits for an answer."""
    warm, counted = (calls(size, f"counted{n}") for n in (1, 2))
    lines = warm + ["SET citus.log_remote_commands = on;", counted[0], "\\warn -- settled", counted[1]]
    done = subprocess.run(["psql", "-XqAt", "-v", "ON_ERROR_STOP=1", "-d", DATABASE, "-U", "postgres"], input="\n".join(lines),
                          text=True, capture_output=True, env=leading_to(NODES[0]))
    if done.returncode:
        raise RuntimeError(done.stderr)
    return [trips(part) for part in done.stderr.split("-- settled")]


def trips(log):
    sent = re.findall(r"NOTICE:  issuing (\w+)[^\n]*\n(?:(?!NOTICE:).*\n)*?DETAIL:  on server \S+@(\S+)", log)
    waits, before = 0, (None, set())
    for word, node in sent:
        if word in AT_ONCE and word == before[0] and node not in before[1]:
            before[1].add(node)
            continue
        waits += 1
        before = (word, {node})
    return len(sent), waits


def run():
    section = Section(TITLE, "")
    if NODES[0] not in {name.removeprefix("CLUSTER_") for name in os.environ}:
        say("skipped: this PostgreSQL does not have Citus")
        section.text = "Skipped: this PostgreSQL does not have Citus."
        return section
    make()
    started = int(time.time())
    rows = []
    for size in BATCHES:
        say(f"distributed: {size} claims a batch")
        found = {"one": [], "spread": []}
        for turn in range(ROUNDS):
            for name in ("one", "spread") if turn % 2 else ("spread", "one"):
                place = started * 1000 + turn * 100000
                found[name].append(once(None if name == "one" else NODES[0], size, place))
        one, spread = ([median(column) for column in zip(*found[name])] for name in ("one", "spread"))
        ratio = sum(spread) / sum(one)
        begin, commit = messages(size)
        rows.append([size, f"{one[0]:.2f} + {one[1]:.2f}", f"{spread[0]:.2f} + {spread[1]:.2f}", f"{ratio:.1f}",
                     f"{begin[1]} + {commit[1]}", f"{begin[0]} + {commit[0]}"])
        section.at_most(f"distributed: {size} claims a batch, three nodes / one", ratio, WANTED[size])
    work = []
    for size in (1, 10, 100):
        say(f"distributed: {CLIENTS} clients, {size} claims a batch")
        rates = {"one": [], "spread": []}
        for turn in range(3):
            for name in ("one", "spread") if turn % 2 else ("spread", "one"):
                cluster = None if name == "one" else NODES[0]
                rates[name].append(pgbench(DATABASE, functions("claims", size), CLIENTS, seconds=SECONDS, cluster=cluster))
        one, spread = median(rates["one"]), median(rates["spread"])
        work.append([size, f"{one * 2:.0f}", f"{spread * 2:.0f}", f"{one / spread:.1f}"])
    section.text = ("One connection, begin and commit as two transactions that are flushed, ms (medians). All nodes are on this "
                    "machine, so this shows the cost of three nodes, not their additional capacity. Waits: how often the call waits for an answer of another "
                    "node.")
    section.tables.append(("begin + commit", ["claims a batch", "one node", "three nodes", "ratio", "waits", "messages"], rows))
    section.tables.append((f"leases a second with {CLIENTS} clients, which take all of this machine: the ratio is how much more work a call makes in all",
                           ["claims a batch", "one node", "three nodes", "ratio"], work))
    return section
