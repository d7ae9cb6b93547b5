"""A process of plain_cell_campaign.sh that saves: SERVICE CELL CELL_ID SECONDS FOLDER. Creates, renames and deletes routes under leases, by claimed()."""
import random
import sys
import time

import psycopg

sys.path.insert(0, sys.argv[-1])
import claims_cell

NAMES = [f"n{number}" for number in range(40)]


def claim(name, row_id):
    return {"bucket": {"type": "ROUTES", "value": name}, "subject": {"type": "GROUP", "id": row_id},
            "source": {"type": "RAILS_TABLE_ROUTES", "id": row_id}}


def bucket(name):
    return {"bucket": {"type": "ROUTES", "value": name}}


def step(service, cell, cell_id):
    """Makes one random change. Its row is read before the transaction, so the change may find it gone."""
    row = cell.execute("SELECT id, path FROM routes ORDER BY random() LIMIT 1").fetchone()
    what = random.choice(["create", "create", "rename", "delete", "fail"]) if row else "create"
    isolation = random.choice([psycopg.IsolationLevel.READ_COMMITTED, psycopg.IsolationLevel.REPEATABLE_READ, psycopg.IsolationLevel.SERIALIZABLE])
    cell.isolation_level = isolation
    name = random.choice(NAMES)
    try:
        if what in ("create", "fail"):
            (row_id,) = cell.execute("SELECT nextval('routes_id_seq')").fetchone()
            with claims_cell.claimed(service, cell, cell_id, [claim(name, row_id)], wait=0.2):
                cell.execute("INSERT INTO routes (id, path) VALUES (%s, %s)", (row_id, name))
                if what == "fail":
                    raise ValueError("the application changes its mind")
        elif what == "rename" and name != row[1]:
            with claims_cell.claimed(service, cell, cell_id, [claim(name, row[0])], [bucket(row[1])], wait=0.2):
                if cell.execute("UPDATE routes SET path = %s WHERE id = %s AND path = %s", (name, *row)).rowcount == 0:
                    raise ValueError("the row is gone")
        elif what == "delete":
            with claims_cell.claimed(service, cell, cell_id, [], [bucket(row[1])], wait=0.2):
                if cell.execute("DELETE FROM routes WHERE id = %s AND path = %s", row).rowcount == 0:
                    raise ValueError("the row is gone")
        return 1
    except (ValueError, psycopg.Error):
        if cell.broken or service.broken:
            raise
        return 0


def main():
    service_dsn, cell_dsn, cell_id, seconds = sys.argv[1:5]
    until = time.monotonic() + float(seconds)
    saved = 0
    while time.monotonic() < until:
        try:
            with psycopg.connect(service_dsn, autocommit=True) as service, psycopg.connect(cell_dsn, autocommit=True) as cell:
                while time.monotonic() < until:
                    saved += step(service, cell, int(cell_id))
        except (psycopg.Error, ValueError):
            time.sleep(0.05)
    print(saved)


if __name__ == "__main__":
    main()
