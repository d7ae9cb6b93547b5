"""Helpers of the sections: psql, pgbench, medians, rows of the result."""

import contextlib
import os
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).resolve().parent
QUICK = os.environ.get("BENCH_QUICK", "") not in ("", "0")
BATCHES = [1, 10, 100, 1000]
CONNECTIONS = [1, 8]
LOADED = 20_000 if QUICK else 1_000_000
# The planner knows nothing of a table without a row, and plans made then are cached: the literal protocol scans the table from
# then on. To be fair to it, "empty" means a thousand claims. This extension on a table without any row is measured separately.
NEARLY_EMPTY = 1000
TABLES = ["empty", "million"]
STARTED = time.monotonic()

# For the same reason.
PLANNER = "enable_seqscan = off; enable_hashjoin = off; enable_mergejoin = off; jit = off"


def say(text):
    print(f"[{time.monotonic() - STARTED:5.0f} s] {text}", file=sys.stderr, flush=True)


def leading_to(cluster):
    """Returns the environment for another cluster, by its name; None: for the main one."""
    if cluster is None:
        return dict(os.environ)
    host, port = os.environ[f"CLUSTER_{cluster}"].rsplit(":", 1)
    return {**os.environ, "PGHOST": host, "PGPORT": port}


@contextlib.contextmanager
def on(cluster):
    """Sends statements for the main cluster to this one."""
    before = dict(os.environ)
    os.environ.update(leading_to(cluster))
    try:
        yield
    finally:
        os.environ.update(before)


# The server that preloads the library, as the documents recommend for a service.
PRELOADED = "counted"


def psql(database, sql, role="postgres", cluster=None):
    """The bare output of some SQL."""
    done = subprocess.run(
        ["psql", "-XqAt", "-v", "ON_ERROR_STOP=1", "-d", database, "-U", role],
        input=sql, text=True, capture_output=True, env=leading_to(cluster))
    if done.returncode != 0:
        raise RuntimeError(f"psql failed in {database}: {done.stderr.strip()}\n{sql[:400]}")
    return done.stdout.strip()


def pgbench(database, script, clients=1, role="cell_1", seconds=None, transactions=None, options="", log=None, cluster=None):
    """Transactions a second of one script. With log: the latency of each transaction in ms, too."""
    with tempfile.TemporaryDirectory(prefix="claims-bench-") as folder:
        path = Path(folder) / "script.sql"
        path.write_text(script)
        command = ["pgbench", "-n", "-M", "prepared", "-c", str(clients), "-j", str(min(clients, 2)), "-f", str(path),
                   "-U", role]
        command += ["-T", str(seconds)] if seconds else ["-t", str(transactions)]
        if log:
            command += ["-l", f"--log-prefix={folder}/log"]
        done = subprocess.run(command + [database], text=True, capture_output=True,
                              env={**leading_to(cluster), "PGOPTIONS": options})
        if done.returncode != 0 or " failed transactions: 0 " not in f" {done.stdout} ":
            raise RuntimeError(f"pgbench failed: {done.stderr[-2000:]}\n{done.stdout[-500:]}")
        tps = next(float(line.split()[2]) for line in done.stdout.splitlines() if line.startswith("tps ="))
        if not log:
            return tps
        latencies = [int(line.split()[2]) / 1000 for file in Path(folder).glob("log.*")
                     for line in file.read_text().splitlines()]
        return tps, latencies


# Roles for the cells, where an earlier section has not made them.
CELL_ROLES = "DO $$ BEGIN IF to_regrole('cell_1') IS NULL THEN CREATE ROLE cell_1 LOGIN; CREATE ROLE cell_2 LOGIN; END IF; END $$;"

# A flush to disk takes most of the time of a small call, and hides the rest. synchronous_commit does not help: what a cell relies
# on is flushed whatever it says.
WITHOUT_FLUSHES = {"fsync": "off"}


@contextlib.contextmanager
def server_settings(settings):
    """Runs the server with these settings, and restores the old ones afterwards."""
    def alter(change):
        for name in settings:
            psql("postgres", f"ALTER SYSTEM {change(name)}")
        psql("postgres", "SELECT pg_reload_conf()")

    alter(lambda name: f"SET {name} = '{settings[name]}'")
    try:
        yield
    finally:
        alter(lambda name: f"RESET {name}")


class Session:
    """A connection that stays open, with its open transaction; quiet: it will be terminated."""

    def __init__(self, database, role="postgres", quiet=False):
        self.process = subprocess.Popen(
            ["psql", "-XqAt", "-v", "ON_ERROR_STOP=1", "-d", database, "-U", role],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL if quiet else None, text=True, bufsize=1)

    def run(self, sql):
        self.process.stdin.write(f"{sql};\n\\echo done-with-it\n")
        lines = []
        while (line := self.process.stdout.readline()) != "done-with-it\n":
            if not line:
                raise RuntimeError(f"the session ended: {sql}")
            lines.append(line.rstrip("\n"))
        return "\n".join(lines)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.wait(timeout=30)


def program(name):
    """Returns the path of a client that scripts/bench has built."""
    return os.path.join(os.environ.get("CLAIMS_TARGET", HERE.parent / "target"), "release", name)


def in_turns(sides, rounds, measure):
    """Measures the sides in changing order, by `measure(side, turn)`. Returns the values of each."""
    found = {side: [] for side in sides}
    for turn in range(rounds):
        for side in list(sides) if turn % 2 == 0 else list(sides)[::-1]:
            found[side].append(measure(side, turn))
    return found


def median(values):
    return statistics.median(values)


def ratio_of(found, one, other):
    """The median of the ratios of two sides, round by round, so that other load of that time affects both."""
    return median(a / b for a, b in zip(found[one], found[other]))


# PL/pgSQL plans a statement five times before it keeps a plan. The first call of a session also loads the library, where it is not preloaded.
WARM_UP = 6


def cycles(database, schema, size, count, cluster=None):
    """µs for begin and commit of a create, and of a destroy, in a session that has done so before."""
    calls = (f"CALL bench.cycles_{schema}({size}, {number});" for number in (WARM_UP, count))
    return [float(took) for took in psql(database, "".join(calls), "cell_1", cluster=cluster).splitlines()[1].split()]


def percentile(values, share):
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


@dataclass
class Section:
    """A part of the report: tables of measurements, and checks against the requirements."""

    title: str
    text: str = ""
    tables: list = field(default_factory=list)   # (caption, header, rows)
    checks: list = field(default_factory=list)   # (what, value, wanted, met)

    def check(self, what, value, wanted, met, unit=""):
        self.checks.append((what, f"{value:.2f}{unit}", wanted, met))

    def at_most(self, what, value, limit, unit=""):
        self.check(what, value, f"at most {limit}{unit}", value <= limit, unit)

    def at_least(self, what, value, limit, unit=""):
        self.check(what, value, f"at least {limit}{unit}", value >= limit, unit)


def markdown_table(header, rows):
    """A table that reads well as plain text, too."""
    cells = [[str(cell) for cell in row] for row in [header, *rows]]
    widths = [max(len(row[i]) for row in cells) for i in range(len(header))]
    def line(row):
        return "| " + " | ".join(c.ljust(w) if i == 0 else c.rjust(w) for i, (c, w) in enumerate(zip(row, widths))) + " |"
    rule = "|" + "|".join("-" * (w + 2) if i == 0 else "-" * (w + 1) + ":" for i, w in enumerate(widths)) + "|"
    return "\n".join([line(cells[0]), rule, *map(line, cells[1:])])
