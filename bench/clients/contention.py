"""Clients of the section "contention". Each prints JSON.

contend MODE NAMES SECONDS BASE_MS: eight processes of one cell draw one of NAMES, begin a lease that creates or destroys it, hold the lease
for a moment, and settle it: half of them are rolled back. MODE wait: claims.lease_wait. MODE retry: no wait, and tenacity repeats a begin after
a conflict that is temporary, with exponential backoff from BASE_MS and full jitter.
wake ROUNDS: milliseconds from the answer to a rollback until the waiter has its lease.
fair ROUNDS: how often each of eight clients was served that wait for one name."""

import json
import multiprocessing
import os
import queue
import random
import sys
import threading
import time
import uuid

import psycopg
import tenacity
from psycopg.errors import LockNotAvailable, NoDataFound, UniqueViolation

CLIENTS = 8
HOLD = 0.005
PATIENCE = 2
LONGEST_PAUSE = 0.1
DATABASE = "contention"
BEGIN = "SELECT claims.begin_update(1, %s::jsonb, %s::jsonb)"


def connect(*settings):
    connection = psycopg.connect(dbname=DATABASE, user="cell_1", autocommit=True, prepare_threshold=1)
    for setting in settings:
        connection.execute(setting)
    return connection


def begin(connection, name, creates=True):
    bucket = {"bucket": {"type": 1, "value": name}}
    claim = {**bucket, "subject": {"type": 2, "id": 1}, "source": {"type": 3, "id": 1}}
    records = [[claim], []] if creates else [[], [bucket]]
    return connection.execute(BEGIN, [json.dumps(side) for side in records]).fetchone()[0]


def settle(connection, lease, way):
    connection.execute(f"SELECT claims.{way}_update(1, %s)", [lease])


def percentile(values, share):
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else 0.0


# --- contend ---------------------------------------------------------------------------------------------------------

class Client:
    def __init__(self, me, mode, base, owned, run):
        self.owned, self.run = owned, run
        self.random = random.Random(me)
        self.waits = mode == "wait"
        self.connection = connect(*([f"SET claims.lease_wait = '{PATIENCE}s'"] if self.waits else []))
        self.retrying = tenacity.Retrying(
            retry=tenacity.retry_if_exception_type(LockNotAvailable), reraise=True,
            wait=tenacity.wait_random_exponential(multiplier=base, max=LONGEST_PAUSE), stop=tenacity.stop_after_delay(PATIENCE))
        self.begins = self.met = self.taken = self.late = 0
        self.took, self.held = [], []

    def once(self, name, creates, attempt):
        try:
            return begin(self.connection, name, creates)
        except LockNotAvailable:
            self.met += attempt == 1
            raise

    def begin(self, name, creates):
        if self.waits:
            return self.once(name, creates, 1)
        for attempt in self.retrying:
            with attempt:
                return self.once(name, creates, attempt.retry_state.attempt_number)

    def work(self, end):
        while time.monotonic() < end:
            self.begins += 1
            number = self.random.randrange(len(self.owned))
            creates = not self.owned[number]
            before = time.perf_counter()
            try:
                lease = self.begin(f"{self.run}/{number}", creates)
            except (UniqueViolation, NoDataFound) as refused:
                # Another client has settled the name, and may not have said so yet. To ask for the same again would only keep it from that.
                self.owned[number] = isinstance(refused, UniqueViolation)
                self.taken += 1
                continue
            except LockNotAvailable:
                self.late += 1
                continue
            began = time.perf_counter()
            self.took.append(1000 * (began - before))
            time.sleep(HOLD)
            commits = self.random.random() >= 0.5
            settle(self.connection, lease, "commit" if commits else "rollback")
            self.held.append(1000 * (time.perf_counter() - began))
            if commits:
                self.owned[number] = creates


def contend(mode, names, seconds, base_ms):
    owned = multiprocessing.Array("b", int(names), lock=False)
    ready, results = multiprocessing.Barrier(CLIENTS), multiprocessing.Queue()
    run = uuid.uuid4().hex

    def one(me):
        client = Client(me, mode, float(base_ms) / 1000, owned, run)
        ready.wait()
        client.work(time.monotonic() + float(seconds))
        results.put([client.begins, client.met, client.taken, client.late, client.took, client.held])

    processes = [multiprocessing.Process(target=one, args=[me]) for me in range(CLIENTS)]
    for process in processes:
        process.start()
    found = [results.get() for _ in processes]
    for process in processes:
        process.join()
    begins, met, taken, late = (sum(one[at] for one in found) for at in range(4))
    took, held = ([ms for one in found for ms in one[at]] for at in (4, 5))
    return {"begins": begins, "met": met, "taken": taken, "late": late, "rate": len(took) / float(seconds),
            "answers": (len(took) + taken) / float(seconds), "p50": percentile(took, 0.5), "p99": percentile(took, 0.99),
            "held": percentile(held, 0.5)}


# --- wake and fair ---------------------------------------------------------------------------------------------------

class Waiter(threading.Thread):
    """A session that begins whenever it is asked to."""

    def __init__(self, client, answers):
        super().__init__(daemon=True)
        self.client, self.answers, self.asked = client, answers, queue.SimpleQueue()
        self.connection = connect("SET claims.lease_wait = '60s'")
        self.start()

    def run(self):
        while name := self.asked.get():
            lease = begin(self.connection, name)
            self.answers.put((time.perf_counter(), self, lease))


def wait_for_waiters(observer, count):
    while observer.execute("SELECT count(*) FROM claims.lease_waiters").fetchone()[0] != count:
        time.sleep(0.0005)


def admin():
    return psycopg.connect(dbname=DATABASE, user="postgres", autocommit=True, prepare_threshold=1)


def wake(rounds):
    answers, observer, holder = queue.SimpleQueue(), admin(), connect()
    waiter, took = Waiter(0, answers), []
    for number in range(int(rounds)):
        name = f"wake/{os.getpid()}/{number}"
        lease = begin(holder, name)
        waiter.asked.put(name)
        wait_for_waiters(observer, 1)
        # At any moment of the 50 ms after which a waiter looks by itself.
        time.sleep(random.uniform(0, 0.05))
        settle(holder, lease, "rollback")
        ended = time.perf_counter()
        got, _, lease = answers.get()
        took.append(1000 * (got - ended))
        settle(holder, lease, "rollback")
    return {"p50": percentile(took, 0.5), "p99": percentile(took, 0.99)}


def fair(rounds):
    """Each client has two sessions. With the one that has the lease it settles; with the other one it waits again by then."""
    answers, observer, holder = queue.SimpleQueue(), admin(), connect()
    name = f"fair/{os.getpid()}"
    pairs = [[Waiter(client, answers), Waiter(client, answers)] for client in range(CLIENTS)]
    served, widest = [0] * CLIENTS, 0
    lease = begin(holder, name)
    settler = holder
    for client, (first, _) in enumerate(pairs):
        first.asked.put(name)
        wait_for_waiters(observer, client + 1)
    for _ in range(int(rounds)):
        settle(settler, lease, "rollback")
        _, session, lease = answers.get()
        served[session.client] += 1
        widest = max(widest, max(served) - min(served))
        settler = session.connection
        next(other for other in pairs[session.client] if other is not session).asked.put(name)
        wait_for_waiters(observer, CLIENTS)
    return {"served": served, "widest": widest}


if __name__ == "__main__":
    call, *arguments = sys.argv[1:]
    print(json.dumps({"contend": contend, "wake": wake, "fair": fair}[call](*arguments)))
