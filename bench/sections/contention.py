"""Names that other leases hold for a moment: claims.lease_wait beside a retry loop, the wake-up, fairness, and the price of the queue
for a begin that meets nobody."""

import heapq
import itertools
import json
import os
import random
import shutil
import subprocess
import sys
import venv
from collections import deque
from pathlib import Path

from lib import CELL_ROLES, HERE, PRELOADED, QUICK, Section, leading_to, median, psql, say

OWN_DATABASES = True
TITLE = "Waiting for a name"
CLIENT = HERE / "clients" / "contention.py"
# The number of names, and about how many of the begins meet an outstanding lease then.
NAMES = {400: 0.01, 40: 0.1, 5: 0.5, 1: 0.9}
HALF = 5
SECONDS = 2 if QUICK else 10
ROUNDS = 1 if QUICK else 5
BASES = [5] if QUICK else [1, 2, 5, 10, 20]
WAKE_ROUNDS = 100 if QUICK else 1000
FAIR_ROUNDS = 100 if QUICK else 1000
# The last commit before calls could wait for names.
BEFORE = "912cb26"


def target():
    return Path(os.environ.get("CLAIMS_TARGET", HERE / ".." / "target"))


def python():
    """A Python with the packages of requirements.txt."""
    folder, wanted = target() / "bench-python", (HERE / "requirements.txt").read_text()
    done = folder / "installed"
    if not done.exists() or done.read_text() != wanted:
        say("contention: installing the client's packages")
        venv.create(folder, with_pip=True, clear=True)
        subprocess.run([folder / "bin/python", "-m", "pip", "install", "--quiet", "-r", HERE / "requirements.txt"], check=True, stdout=sys.stderr)
        done.write_text(wanted)
    return folder / "bin/python"


def client(*arguments):
    done = subprocess.run([python(), CLIENT, *map(str, arguments)], text=True, capture_output=True, env=leading_to(PRELOADED))
    if done.returncode:
        raise RuntimeError(done.stderr[-2000:])
    return json.loads(done.stdout)


def at_service(sql):
    return psql("contention", sql, cluster=PRELOADED)


def make():
    psql("postgres", CELL_ROLES, cluster=PRELOADED)
    psql("postgres", "CREATE DATABASE contention TEMPLATE template0 ENCODING 'UTF8'", cluster=PRELOADED)
    at_service("CREATE EXTENSION claims; SELECT claims.register_cell(1, 'cell_1')")


def waits():
    return float(at_service("SELECT coalesce(sum(value), 0) FROM claims.metrics() WHERE name = 'claims_lease_waits_total'"))


def contend(mode, names, base):
    before = waits()
    found = client("contend", mode, names, SECONDS, base)
    met = waits() - before if mode == "wait" else found["met"]
    return {**found, "share": met / found["begins"]}


def perfect_queue(names, begin, held, clients=8, seconds=300):
    """Batches a second of clients that do the same, simulated, where nothing else is waited for: a begin of a free name takes `begin` ms, a
    waiter has the name at once when it is free again, and waiters whose call is refused then get their answers at the same time."""
    chance, owned, waiting, taken = random.Random(1), [False] * names, [deque() for _ in range(names)], [False] * names
    events, numbers, batches = [], itertools.count(), 0

    def then(at, client, name=None, creates=None):
        heapq.heappush(events, (at, next(numbers), client, name, creates))

    def serve(name, now, took):
        while waiting[name]:
            client, creates = waiting[name].popleft()
            if owned[name] != creates:
                taken[name] = True
                return then(now + took + held, client, name, creates)
            then(now + took, client)

    for client in range(clients):
        then(0, client)
    while events[0][0] < 1000 * seconds:
        now, _, client, name, creates = heapq.heappop(events)
        if name is None:
            name = chance.randrange(names)
            waiting[name].append((client, not owned[name]))
            if not taken[name]:
                serve(name, now, begin)
            continue
        taken[name] = False
        batches += 1
        if chance.random() < 0.5:
            owned[name] = creates
        then(now, client)
        serve(name, now, 0)
    return batches / seconds


def contention(section):
    say(f"contention: the retry loop with pauses from {BASES} ms")
    rates = {base: median(contend("retry", HALF, base)["rate"] for _ in range(ROUNDS)) for base in BASES}
    base = max(rates, key=rates.get)
    rows = []
    for names, share in NAMES.items():
        found = {"wait": [], "retry": []}
        for turn in range(ROUNDS):
            # In changing order, so that what else the machine does meets both.
            for mode in list(found)[:: 1 if turn % 2 else -1]:
                found[mode].append(contend(mode, names, base))
            say(f"contention: {share:.0%}, pair {turn + 1} of {ROUNDS}")
        ratio = {what: median(a[what] / b[what] for a, b in zip(found["wait"], found["retry"])) for what in ("rate", "answers", "p99")}
        if names == max(NAMES):
            alone = {what: median(one[what] for one in found["wait"]) for what in ("p50", "held")}
        ceiling = perfect_queue(names, alone["p50"], alone["held"])
        for mode, name in (("wait", "lease_wait"), ("retry", "tenacity")):
            middle = {what: median(one[what] for one in found[mode]) for what in ("share", "rate", "p50", "p99", "taken", "late")}
            rows.append([f"{names}, {name}", f"{middle['share']:.0%}", f"{middle['rate']:.0f}", f"{middle['p50']:.1f}", f"{middle['p99']:.1f}",
                         f"{middle['taken'] / SECONDS:.0f}", f"{middle['late'] / SECONDS:.1f}"])
        rows.append([f"{names}, a perfect queue, simulated", "", f"{ceiling:.0f}", "", "", "", ""])
        if names == HALF:
            best = ceiling / median(one["rate"] for one in found["retry"])
            section.at_least(f"50 % meet a lease: batches a second, lease_wait / retry (a perfect queue / retry: {best:.2f})", ratio["rate"], 1.2)
            section.at_least("50 % meet a lease: batches a second, lease_wait / a perfect queue",
                             median(one["rate"] for one in found["wait"]) / ceiling, 0.9)
            section.at_least("50 % meet a lease: answers a second, also refusals for good, lease_wait / retry", ratio["answers"], 1.5)
            section.at_most("50 % meet a lease: 99th percentile, lease_wait / retry", ratio["p99"], 0.5)
    section.tables.append((f"eight clients; a second, and milliseconds until a begin has succeeded; tenacity from {base} ms", [
        "names", "met a lease", "batches", "median", "99 %", "refused for good", "gave up"], rows))


def wake(section):
    say(f"contention: {WAKE_ROUNDS} wake-ups")
    found = client("wake", WAKE_ROUNDS)
    section.tables.append(("milliseconds from the answer to rollback_update until the waiter has its lease", ["median", "99 %"],
                           [[f"{found['p50']:.2f}", f"{found['p99']:.2f}"]]))
    section.at_most("wake-up: median after the COMMIT", found["p50"], 2, " ms")


def fair(section):
    say(f"contention: {FAIR_ROUNDS} rounds of eight waiters")
    found = client("fair", FAIR_ROUNDS)
    section.tables.append((f"how often each of eight waiters on one name was served in {FAIR_ROUNDS} rounds",
                           [f"client {n}" for n in range(1, 9)] + ["largest difference at any time"], [[*found["served"], found["widest"]]]))
    section.at_most("fairness: the largest difference between two waiters, at any time", found["widest"], 1)


def instructions(root):
    """Instructions of a begin of one name, counted by callgrind in a backend of its own."""
    done = subprocess.run(["bash", HERE / "instructions.sh", root], text=True, capture_output=True)
    if done.returncode:
        raise RuntimeError(done.stderr[-2000:])
    return int(done.stdout.split()[-1])


def without_waiters(section):
    if shutil.which("valgrind") is None:
        say("contention: no valgrind, so the begin is not compared with that of before")
        return
    root, now = target() / "before" / BEFORE, HERE.parent
    if not root.exists():
        # --force: git may remember one that was there before target/ was removed.
        subprocess.run(["git", "-C", now, "worktree", "add", "--force", "--detach", root, BEFORE], check=True, stdout=sys.stderr)
    say(f"contention: building {BEFORE}")
    environment = {name: value for name, value in os.environ.items() if name != "CLAIMS_TARGET"}
    subprocess.run([root / "scripts/build"], cwd=root, env=environment, check=True, stdout=sys.stderr)
    found = {name: instructions(where) for name, where in (("before", root), ("now", now))}
    section.tables.append((f"instructions of a begin of one new name, where nobody waits; before: {BEFORE}, whose begin differs in other ways, too", ["before", "now", "ratio"],
                           [[found["before"], found["now"], f"{found['now'] / found['before']:.4f}"]]))
    section.at_most("a begin without waiters: instructions, now / before calls could wait", found["now"] / found["before"], 1.01)


def run():
    make()
    section = Section(
        TITLE,
        "The server preloads the library. Eight clients (Python, psycopg, each a process) draw one of some names, begin a lease that creates "
        "or destroys it, hold the lease for 5 ms, and settle it: half of them are rolled back. The fewer the names, the more begins meet an outstanding lease. "
        "lease_wait: `claims.lease_wait` is 2 s. "
        "tenacity: no wait; the client repeats a begin after 55P03, by tenacity with wait_random_exponential (full jitter) up to 100 ms, for 2 s; the first "
        "pause is the one with which it does best with 5 names. In pairs, in changing order; medians. A perfect queue is simulated: the same clients with the "
        "times of a begin and of a held lease with 400 names; nothing else takes time. A refusal for good is an answer, too: the name is as the caller "
        "wanted it already. Eight waiters meet more of them, because a retry loop is mostly asleep meanwhile.")
    for part in (contention, wake, fair, without_waiters):
        part(section)
    violations = at_service("SELECT count(*) FROM claims.check()")
    if violations != "0":
        raise RuntimeError(f"claims.check() found violations: {violations}")
    return section
