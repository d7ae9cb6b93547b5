"""A cell on MariaDB, with the tables and statements of contrib/cell/README.md: mysql_cell.py README DIRECTORY SERVER_USER SERVICE.

The functions track, judge and fence are the page's recipe. Everything else tries to break it: old snapshots, races in both orders, and a crash.
"""
import contextlib
import os
import re
import signal
import subprocess
import sys
import threading
import time
import uuid

import psycopg
import pymysql
from psycopg.types.json import Jsonb

readme, directory, server_user, service_dsn = sys.argv[1:]
DUPLICATE_KEY, LOCK_TIMEOUT, CHANGED_SINCE_SNAPSHOT = 1062, 1205, 1020
WAIT_LIMIT_SECONDS = 120


def expect(what, got, wanted):
    if got != wanted:
        sys.exit(f"FAILED: {what}\n  wanted: {wanted}\n  got:    {got}")
    print(f"ok: {what}", flush=True)


class Server:
    """A MariaDB with its data in DIRECTORY, which only its socket leads to."""

    def __init__(self):
        self.socket = f"{directory}/socket"
        as_user = [f"--user={server_user}"] if server_user else []
        self.command = ["mariadbd", "--no-defaults", *as_user, f"--datadir={directory}/data", f"--socket={self.socket}", "--skip-networking",
                        f"--pid-file={directory}/pid", "--skip-grant-tables", "--innodb-buffer-pool-size=32M"]
        subprocess.run(["mariadb-install-db", "--no-defaults", *as_user, f"--datadir={directory}/data", "--skip-test-db"],
                       check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.start()

    def start(self):
        self.log = open(f"{directory}/log", "a", encoding="utf-8")
        self.process = subprocess.Popen(self.command, stdout=self.log, stderr=self.log, stdin=subprocess.DEVNULL)
        until = time.monotonic() + WAIT_LIMIT_SECONDS
        while True:
            try:
                pymysql.connect(unix_socket=self.socket, user="root").close()
                return
            except pymysql.err.OperationalError:
                if time.monotonic() > until or self.process.poll() is not None:
                    sys.exit("FAILED: MariaDB does not start\n" + open(self.log.name, encoding="utf-8").read()[-3000:])
                time.sleep(0.1)

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def connect(self, isolation="REPEATABLE READ", *settings):
        connection = pymysql.connect(unix_socket=self.socket, user="root", database="cell", autocommit=False)
        with connection.cursor() as cursor:
            cursor.execute(f"SET SESSION TRANSACTION ISOLATION LEVEL {isolation}")
            for setting in ("innodb_lock_wait_timeout = 1", *settings):
                cursor.execute(f"SET SESSION {setting}")
        return connection


def rows(connection, statement, *arguments):
    with connection.cursor() as cursor:
        cursor.execute(statement, arguments)
        return cursor.fetchall()


def code(action):
    """The number of the error that an action raises, or 0."""
    try:
        action()
        return 0
    except pymysql.err.MySQLError as error:
        return error.args[0]


# --- the recipe -----------------------------------------------------------------------------------------------------

class GivenUp(Exception):
    """The lease was fenced: the local transaction must roll back."""


def track(connection, lease):
    rows(connection, "INSERT INTO cells_outstanding_leases (uuid) VALUES (%s)", lease.bytes)
    if rows(connection, "SELECT 1 FROM lease_fences WHERE lease_uuid = %s LOCK IN SHARE MODE", lease.bytes):
        raise GivenUp


def fence(connection, lease):
    rows(connection, "INSERT INTO cells_outstanding_leases (uuid) VALUES (%s)", lease.bytes)
    rows(connection, "DELETE FROM cells_outstanding_leases WHERE uuid = %s", lease.bytes)
    rows(connection, "INSERT INTO lease_fences (lease_uuid) VALUES (%s)", lease.bytes)


def judge(connection, lease, is_old):
    """`connection` is outside a transaction, and is so again afterwards."""
    try:
        if rows(connection, "SELECT 1 FROM cells_outstanding_leases WHERE uuid = %s", lease.bytes):
            return "commit"
        if rows(connection, "SELECT 1 FROM lease_fences WHERE lease_uuid = %s", lease.bytes):
            return "rollback"
    finally:
        connection.rollback()
    if is_old:
        try:
            fence(connection, lease)
            connection.commit()
        except pymysql.err.MySQLError as error:
            connection.rollback()
            if error.args[0] not in (DUPLICATE_KEY, LOCK_TIMEOUT):
                raise
    return "wait"


# --- the cell -------------------------------------------------------------------------------------------------------

service = psycopg.connect(service_dsn, autocommit=True)


def begin(name):
    lease = uuid.uuid4()
    claim = {"bucket": {"type": "ROUTES", "value": name}, "subject": {"type": "GROUP", "id": 1}, "source": {"type": "RAILS_TABLE_ROUTES", "id": 1}}
    service.execute("SELECT claims.begin_update(1, %s, '[]', %s)", (Jsonb([claim]), lease))
    return lease


def outcome(lease):
    return service.execute("SELECT claims.lease_outcome(1, %s)", (lease,)).fetchone()[0]


def recover(connection, is_old=False):
    """One pass of recovery: the verdicts by lease."""
    leases = [lease for (lease,) in service.execute("SELECT lease_uuid FROM claims.list_leases(1, NULL, 100)")]
    verdicts = {lease: judge(connection, lease, is_old) for lease in leases}
    ended = {verdict: [lease for lease in leases if verdicts[lease] == verdict] for verdict in ("commit", "rollback")}
    service.execute("SELECT * FROM claims.settle_leases(1, %s, %s)", (ended["commit"], ended["rollback"]))
    for lease in ended["commit"]:
        rows(connection, "DELETE FROM cells_outstanding_leases WHERE uuid = %s", lease.bytes)
    connection.commit()
    return verdicts


def create_tables(server):
    with pymysql.connect(unix_socket=server.socket, user="root") as connection:
        rows(connection, "CREATE DATABASE cell")
        rows(connection, "USE cell")
        recipe = re.search(r"^## MySQL and MariaDB$.*?^```sql\n(.*?)^```", open(readme, encoding="utf-8").read(), re.S | re.M).group(1)
        for statement in filter(str.strip, recipe.split(";")):
            rows(connection, statement)
        rows(connection, "CREATE TABLE routes (id bigint AUTO_INCREMENT PRIMARY KEY, path varchar(200) NOT NULL) ENGINE=InnoDB")
        connection.commit()


def check_saves(server):
    cell, other = server.connect(), server.connect()
    lease = begin("saved")
    rows(cell, "INSERT INTO routes (path) VALUES ('saved')")
    track(cell, lease)
    expect("an open transaction is not judged by its absence", recover(other), {lease: "wait"})
    expect("nor fenced, however old it is", (recover(other, is_old=True), rows(other, "SELECT count(*) FROM lease_fences")), ({lease: "wait"}, ((0,),)))
    other.rollback()
    cell.commit()
    expect("a saved lease is committed", (recover(other), outcome(lease)), ({lease: "commit"}, "committed"))
    expect("and forgotten", rows(other, "SELECT count(*) FROM cells_outstanding_leases"), ((0,),))
    other.rollback()

    lease = begin("failed")
    rows(cell, "INSERT INTO routes (path) VALUES ('failed')")
    track(cell, lease)
    cell.rollback()
    expect("a young lease waits", recover(other), {lease: "wait"})
    expect("an old one is fenced, and still waits", recover(other, is_old=True), {lease: "wait"})
    expect("the next pass gives it up", (recover(other, is_old=True), outcome(lease)), ({lease: "rollback"}, "rolled_back"))


def check_late_save(server, isolation, snapshot_isolation):
    """A fence is committed after a transaction has taken its snapshot: the transaction must see it when it tracks its lease."""
    settings = [f"innodb_snapshot_isolation = {snapshot_isolation}"] if snapshot_isolation else []
    cell, other = server.connect(isolation, *settings), server.connect()
    lease = begin(f"late {isolation} {snapshot_isolation}")
    rows(cell, "SELECT count(*) FROM routes")
    recover(other, is_old=True)
    late = "nothing"
    try:
        track(cell, lease)
    except GivenUp:
        late = "given up"
    except pymysql.err.MySQLError as error:
        late = "given up" if error.args[0] == CHANGED_SINCE_SNAPSHOT else error
    cell.rollback()
    expect(f"a late save is refused: {isolation} {snapshot_isolation}", late, "given up")
    expect("and its lease rolled back", (recover(other), outcome(lease)), ({lease: "rollback"}, "rolled_back"))


def check_plain_read(server):
    """The control: without the locking read an old snapshot hides the fence. So the test above can fail."""
    cell, other = server.connect(), server.connect()
    lease = uuid.uuid4()
    rows(cell, "SELECT count(*) FROM routes")
    fence(other, lease)
    other.commit()
    expect("a plain read of an old snapshot does not see a fence", rows(cell, "SELECT 1 FROM lease_fences WHERE lease_uuid = %s", lease.bytes), ())
    cell.rollback()


def waits_for_lock(connection):
    return rows(connection, "SELECT count(*) FROM information_schema.innodb_trx WHERE trx_state = 'LOCK WAIT'") != ((0,),)


def check_race(server, ends):
    """A save tracks its lease while a fence of it is not committed: it waits, and is refused exactly if the fence is committed."""
    cell, other, watcher = server.connect(), server.connect(), server.connect()
    rows(cell, "SET SESSION innodb_lock_wait_timeout = 100")
    lease = uuid.uuid4()
    fence(other, lease)
    result = []

    def save():
        try:
            track(cell, lease)
            cell.commit()
            result.append("saved")
        except GivenUp:
            cell.rollback()
            result.append("given up")

    saver = threading.Thread(target=save)
    saver.start()
    until = time.monotonic() + WAIT_LIMIT_SECONDS
    while not waits_for_lock(watcher) and not result and time.monotonic() < until:
        watcher.rollback()
        # The view is renewed ten times a second at most.
        time.sleep(0.15)
    expect("the save waits for the fence", result, [])
    getattr(other, ends)()
    saver.join()
    expect(f"the fence ends by {ends}", result, ["given up" if ends == "commit" else "saved"])
    expect("tracked or fenced, never both", rows(watcher, """SELECT (SELECT count(*) FROM cells_outstanding_leases WHERE uuid = %s)
      + (SELECT count(*) FROM lease_fences WHERE lease_uuid = %s)""", lease.bytes, lease.bytes), ((1,),))
    watcher.rollback()
    if ends == "rollback":
        expect("a saved lease is not fenced", code(lambda: fence(other, lease)), DUPLICATE_KEY)
        other.rollback()
    rows(other, "DELETE FROM cells_outstanding_leases")
    other.commit()


def check_crash(server):
    cell, other = server.connect(), server.connect()
    expect("each COMMIT is flushed", rows(cell, "SELECT @@innodb_flush_log_at_trx_commit"), ((1,),))
    cell.rollback()
    saved, lost = begin("before the crash"), begin("open at the crash")
    track(cell, saved)
    cell.commit()
    fenced = uuid.uuid4()
    fence(other, fenced)
    other.commit()
    # Last: its locking read locks the gap between two fences, into which a fence inserted after it may fall.
    track(cell, lost)
    server.kill()
    server.start()
    with contextlib.closing(server.connect()) as again:
        expect("after a crash", recover(again, is_old=True), {saved: "commit", lost: "wait"})
        expect("and a pass later", (recover(again), outcome(saved), outcome(lost)), ({lost: "rollback"}, "committed", "rolled_back"))
        expect("a fence outlives a crash", judge(again, fenced, False), "rollback")


def main():
    server = Server()
    try:
        create_tables(server)
        check_saves(server)
        has_snapshot_isolation = rows(server.connect(), "SHOW VARIABLES LIKE 'innodb_snapshot_isolation'")
        for isolation in ("READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"):
            for snapshot_isolation in ("OFF", "ON") if has_snapshot_isolation else ("",):
                check_late_save(server, isolation, snapshot_isolation)
        check_plain_read(server)
        for ends in ("commit", "rollback"):
            check_race(server, ends)
        check_crash(server)
    finally:
        server.kill()
        os.unlink(f"{directory}/pid") if os.path.exists(f"{directory}/pid") else None


main()
