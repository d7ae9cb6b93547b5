#!/usr/bin/env python3
"""The process side of a cell whose database does not have the extension: saves under leases, and recovery.

    from claims_cell import claimed
    with claimed(service, cell, cell_id, creates=[claim], destroys=[bucket]):
        cell.execute("INSERT …")

    claims_cell.py SERVICE CELL CELL_ID             runs recovery every minute, until it is ended
    claims_cell.py SERVICE CELL CELL_ID --once      runs it once

SERVICE and CELL are connection strings: of the shared database, as the cell's role, and of the cell's database, in which cell.sql was run. Needs
psycopg 3. README.md beside this file describes the protocol.
"""
import argparse
import collections
import contextlib
import logging
import random
import time
import uuid

import psycopg
from psycopg.pq import TransactionStatus
from psycopg.types.json import Jsonb

log = logging.getLogger("claims_cell")

# Bounds of one pass of recovery: leases that one call asks for, and pages that one pass reads.
PAGE = 100
MAX_PAGES = 1000
# Seconds: the first pause after a conflict that may pass, and the longest one.
FIRST_PAUSE, LONGEST_PAUSE = 0.01, 0.5


@contextlib.contextmanager
def claimed(service, cell, cell_id, creates=(), destroys=(), wait=5.0):
    """Runs the block in one local transaction of `cell`, under a lease for `creates` and `destroys`; yields the lease's uuid.

    Both connections must be in autocommit mode and outside a transaction. The block writes the cell's rows, and must neither commit nor roll back. If
    it raises, nothing is saved and the names are given back. Conflicts that may pass (55P03) are tried again for `wait` seconds; what remains is
    raised: psycopg.errors.UniqueViolation where a name is taken. If the connection is lost at COMMIT, the error is raised, and recovery finds out
    whether the rows were saved.
    """
    for connection in (service, cell):
        if not connection.autocommit or connection.info.transaction_status != TransactionStatus.IDLE:
            raise ValueError("claimed() needs connections in autocommit mode, outside a transaction")
    lease = uuid.uuid4()
    committing = False
    try:
        with cell.transaction():
            (xid,) = cell.execute("SELECT pg_current_xact_id()::text").fetchone()
            _begin(service, (cell_id, Jsonb(list(creates)), Jsonb(list(destroys)), lease, xid), wait)
            yield lease
            cell.execute("SELECT claims_cell.track_lease(%s)", (lease,))
            committing = True
    except BaseException as error:
        # A COMMIT that the server has answered by an error has saved nothing. Without an answer it may have.
        answered = isinstance(error, psycopg.Error) and error.sqlstate is not None and not cell.broken
        if not committing or answered:
            _try(service, "SELECT claims.rollback_update(%s, %s)", (cell_id, lease))
        raise
    if _try(service, "SELECT claims.commit_update(%s, %s)", (cell_id, lease)):
        _try(cell, "SELECT claims_cell.forget_leases(%s)", ([lease],))


def _begin(service, request, wait):
    """Begins the lease. The uuid stays the same, so a call whose answer was lost can be repeated."""
    until = time.monotonic() + wait
    pause = FIRST_PAUSE
    while True:
        try:
            service.execute("SELECT claims.begin_update(%s, %s, %s, %s, %s::text::xid8)", request)
            return
        except psycopg.errors.LockNotAvailable:
            if time.monotonic() + pause > until:
                raise
        time.sleep(random.uniform(0.5, 1) * pause)
        pause = min(2 * pause, LONGEST_PAUSE)


def _try(connection, statement, values):
    """Executes a statement whose work recovery does if it fails. Returns whether it succeeded."""
    try:
        connection.execute(statement, values)
        return True
    except psycopg.Error as error:
        log.warning("left to recovery: %s", error)
        return False


def recover(service, cell, cell_id, stale_after="10 minutes"):
    """Runs one pass of recovery, and returns what it did: processed, committed, rolled_back, pending, orphaned.

    It is safe beside processes that save and beside other passes. Each call of the cell and of the service is a transaction of its own: a lease
    is rolled back only after its fence is committed here.
    """
    done = collections.Counter(processed=0, committed=0, rolled_back=0, pending=0, orphaned=0)
    outstanding = set()
    after = None
    for _ in range(MAX_PAGES):
        page = service.execute(
            "SELECT lease_uuid, created_at::text, cell_xid::text, cursor FROM claims.list_leases(%s, %s, %s)", (cell_id, after, PAGE)).fetchall()
        if not page:
            break
        after = page[-1][3]
        done["processed"] += len(page)
        outstanding.update(lease for lease, *_ in page)
        leases = [{"lease_uuid": str(lease), "created_at": at, "cell_xid": xid} for lease, at, xid, _ in page]
        verdicts = collections.defaultdict(list)
        for lease, verdict in cell.execute("SELECT * FROM claims_cell.judge_leases(%s, %s::interval)", (Jsonb(leases), stale_after)):
            verdicts[verdict].append(lease)
        settled = service.execute("SELECT lease_uuid, outcome, settled FROM claims.settle_leases(%s, %s::uuid[], %s::uuid[])",
                                  (cell_id, verdicts["commit"], verdicts["rollback"])).fetchall()
        for lease, outcome, now in settled:
            if now:
                done[outcome] += 1
            if outcome in ("committed", "rolled_back"):
                outstanding.discard(lease)
        committed = [lease for lease, outcome, _ in settled if outcome == "committed"]
        cell.execute("SELECT claims_cell.forget_leases(%s)", (committed,))
    done["pending"] = len(outstanding)
    done["orphaned"] = _forget_confirmed(service, cell, cell_id)
    cell.execute("SELECT claims_cell.purge_fences()")
    return dict(done)


def _forget_confirmed(service, cell, cell_id):
    """Forgets tracked leases that the service has committed, and returns how many it has rolled back or does not know.

    Data was saved under those, and their names may be another cell's by now: README.md says what to do.
    """
    orphans, after = [], None
    for _ in range(MAX_PAGES):
        page = [lease for (lease,) in cell.execute("SELECT lease_uuid FROM claims_cell.tracked_leases(%s, %s)", (after, PAGE))]
        if not page:
            break
        after = page[-1]
        outcomes = service.execute("SELECT u, claims.lease_outcome(%s, u) FROM unnest(%s::uuid[]) AS u", (cell_id, page)).fetchall()
        cell.execute("SELECT claims_cell.forget_leases(%s)", ([lease for lease, outcome in outcomes if outcome == "committed"],))
        orphans += [lease for lease, outcome in outcomes if outcome in (None, "rolled_back")]
    if orphans:
        log.warning("%d saved leases are not committed at the service: %s", len(orphans), ", ".join(map(str, orphans[:100])))
    return len(orphans)


def run(service_dsn, cell_dsn, cell_id, every=60.0, stale_after="10 minutes", once=False):
    """Runs recovery every `every` seconds, give or take a quarter so that cells do not call at the same moment. A failed pass is logged, and
    repeated at the next time."""
    bounds = {"autocommit": True, "connect_timeout": 10, "options": "-c statement_timeout=60s -c lock_timeout=10s"}
    while True:
        try:
            with psycopg.connect(service_dsn, **bounds) as service, psycopg.connect(cell_dsn, **bounds) as cell:
                done = recover(service, cell, cell_id, stale_after)
            level = logging.INFO if any(count for what, count in done.items()) else logging.DEBUG
            log.log(level, "recovery: %s", ", ".join(f"{what} {count}" for what, count in done.items()))
        except psycopg.Error as error:
            log.error("recovery failed, nothing is lost: %s", error)
            if once:
                raise
        if once:
            return
        time.sleep(every * random.uniform(0.75, 1.25))


def main():
    arguments = argparse.ArgumentParser(description="Recovery of a cell whose database does not have the extension.")
    arguments.add_argument("service", help="connection string of the shared database, as the cell's role")
    arguments.add_argument("cell", help="connection string of the cell's database")
    arguments.add_argument("cell_id", type=int)
    arguments.add_argument("--every", type=float, default=60.0, metavar="SECONDS", help="how often it runs (default: 60)")
    arguments.add_argument("--stale-after", default="10 minutes", metavar="INTERVAL",
                           help="age of a lease whose local transaction is not known, from which it is given up (default: 10 minutes)")
    arguments.add_argument("--once", action="store_true", help="run once; exit with an error if that fails")
    given = arguments.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    run(given.service, given.cell, given.cell_id, given.every, given.stale_after, given.once)


if __name__ == "__main__":
    main()
