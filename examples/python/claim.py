#!/usr/bin/env python3
"""Save a route in a cell's own database, with its name claimed in the shared one.

    claim.py SERVICE CELL CELL_ID NAME     claims NAME and saves it
    claim.py SERVICE CELL CELL_ID          recovers what a crash left behind

SERVICE and CELL are connection strings. The cell's database needs one table, which remembers the lease beside the row:
    CREATE TABLE routes (id bigserial PRIMARY KEY, path text NOT NULL UNIQUE, lease uuid NOT NULL UNIQUE);
"""
import sys
import time
import uuid

import psycopg
from psycopg.types.json import Jsonb


def begin(service, cell_id, creates, destroys=(), patience=5.0):
    """begin_update. Waits and asks again while every conflict is temporary (55P03).

    The uuid is ours and stays the same, so the call may be repeated as often as one likes, also by somebody else later.
    """
    lease = uuid.uuid4()
    until = time.monotonic() + patience
    while True:
        try:
            service.execute("SELECT claims.begin_update(%s, %s, %s, %s)",
                            (cell_id, Jsonb(list(creates)), Jsonb(list(destroys)), lease))
            return lease
        except psycopg.errors.LockNotAvailable:
            if time.monotonic() > until:
                raise
            time.sleep(0.05)


def save(service, cell, cell_id, name):
    """Claim, save, finish. An exception means: not saved, and the name is free again or will be."""
    with cell.transaction():
        (row_id,) = cell.execute("SELECT nextval('routes_id_seq')").fetchone()
        lease = begin(service, cell_id, [{
            "bucket": {"type": "ROUTES", "value": name},
            "subject": {"type": "GROUP", "id": row_id},
            "source": {"type": "RAILS_TABLE_ROUTES", "rails_primary_key_id": row_id}}])
        try:
            cell.execute("INSERT INTO routes (id, path, lease) VALUES (%s, %s, %s)", (row_id, name, lease))
        except psycopg.Error:
            service.execute("SELECT claims.rollback_update(%s, %s)", (cell_id, lease))
            raise
    # The row is saved. If this call is lost, recovery makes up for it.
    service.execute("SELECT claims.commit_update(%s, %s)", (cell_id, lease))


def recover(service, cell, cell_id):
    """Finishes every lease that is still open, the way the cell's own table says.

    Run it when no other process of the cell is saving: a transaction that is still open would be taken for a failed one.
    """
    counts = {"committed": 0, "rolled back": 0}
    for (lease,) in service.execute("SELECT lease_uuid FROM claims.list_leases(%s, max_results => 1000)", (cell_id,)):
        saved = cell.execute("SELECT 1 FROM routes WHERE lease = %s", (lease,)).fetchone()
        call = "commit_update" if saved else "rollback_update"
        service.execute(f"SELECT claims.{call}(%s, %s)", (cell_id, lease))
        counts["committed" if saved else "rolled back"] += 1
    return counts


def main():
    service_dsn, cell_dsn, cell_id, *names = sys.argv[1:]
    # autocommit at the service: the lease must stand before the local transaction ends, and outlive its failure.
    with psycopg.connect(service_dsn, autocommit=True) as service, psycopg.connect(cell_dsn, autocommit=True) as cell:
        if not names:
            print(recover(service, cell, int(cell_id)))
        for name in names:
            try:
                save(service, cell, int(cell_id), name)
                print(f"{name}: saved")
            except psycopg.errors.UniqueViolation as error:
                sys.exit(f"{name}: {error.diag.message_primary}\n{error.diag.message_detail}")


if __name__ == "__main__":
    main()
