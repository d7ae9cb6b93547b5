"""The ways in which a save by claimed() can end: SERVICE CELL FOLDER. Run by plain_cell_campaign.sh, as cell 1, before its campaign."""
import contextlib
import sys

import psycopg

sys.path.insert(0, sys.argv[3])
import claims_cell
from plain_cell_campaign import bucket, claim


class Cut(psycopg.Connection):
    """A connection that is lost after the server has committed, before it answers."""

    @contextlib.contextmanager
    def transaction(self, *arguments):
        with super().transaction(*arguments):
            yield
        self.close()
        raise psycopg.OperationalError("server closed the connection unexpectedly")


class Mute(psycopg.Connection):
    """A connection to the service over which no lease can be settled."""

    def execute(self, statement, *arguments, **options):
        if "commit_update" in statement or "rollback_update" in statement:
            raise psycopg.OperationalError("the service does not answer")
        return super().execute(statement, *arguments, **options)


def connect(dsn, kind=psycopg.Connection):
    return kind.connect(dsn, autocommit=True)


def save(service, cell, row_id, name, then=None):
    """Saves a row, and returns the class of the error, or None."""
    try:
        with claims_cell.claimed(service, cell, 1, [claim(name, row_id)], wait=0.1):
            cell.execute("INSERT INTO routes (id, path) VALUES (%s, %s)", (row_id, name))
            if then:
                then()
    except Exception as error:
        return type(error).__name__


def expect(what, got, wanted):
    if got != wanted:
        sys.exit(f"FAILED: {what}\n  wanted: {wanted}\n  got:    {got}")
    print(f"ok: {what}")


def main():
    service, cell = connect(sys.argv[1]), connect(sys.argv[2])

    def state(name):
        """The claim's status, the number of rows, and the number of tracked leases."""
        status = service.execute("SELECT status FROM claims.get_record('ROUTES', %s)", (name,)).fetchone()
        rows = cell.execute("SELECT count(*) FROM routes WHERE path = %s", (name,)).fetchone()
        tracked = cell.execute("SELECT count(*) FROM claims_cell.tracked_leases()").fetchone()
        return (status and status[0], rows[0], tracked[0])

    def recover():
        """Three passes: two at which leases count as stale, since the first one only fences."""
        for _ in range(3):
            claims_cell.recover(service, cell, 1, "0")

    expect("a save", (save(service, cell, 1, "a"), state("a")), (None, ("ACTIVE", 1, 0)))
    expect("of a name that is taken", save(service, cell, 2, "a"), "UniqueViolation")
    expect("that the application gives up", (save(service, cell, 3, "b", lambda: 1 / 0), state("b")), ("ZeroDivisionError", (None, 0, 0)))
    cell.execute("CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'no' USING ERRCODE = '23514'; END $$")
    cell.execute("CREATE CONSTRAINT TRIGGER refuse AFTER INSERT ON routes DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (NEW.path = 'd') EXECUTE FUNCTION refuse()")
    expect("that COMMIT refuses", (save(service, cell, 4, "d"), state("d")), ("CheckViolation", (None, 0, 0)))
    cell.execute("DROP FUNCTION refuse() CASCADE")

    expect("whose COMMIT is not answered", (save(service, connect(sys.argv[2], Cut), 5, "e"), state("e")), ("OperationalError", ("LEASE_CREATING", 1, 1)))
    recover()
    expect("its lease is committed by recovery", state("e"), ("ACTIVE", 1, 0))
    expect("whose lease the service cannot commit", (save(connect(sys.argv[1], Mute), cell, 6, "f"), state("f")), (None, ("LEASE_CREATING", 1, 1)))
    recover()
    expect("that is committed by recovery", state("f"), ("ACTIVE", 1, 0))
    expect("whose lease the service cannot roll back", (save(connect(sys.argv[1], Mute), cell, 7, "g", lambda: 1 / 0), state("g")),
           ("ZeroDivisionError", ("LEASE_CREATING", 0, 0)))
    recover()
    expect("that is rolled back by recovery", state("g"), (None, 0, 0))
    expect("that recovery runs beside, however stale", (save(service, cell, 8, "h", lambda: claims_cell.recover(service, connect(sys.argv[2]), 1, "0")), state("h")),
           (None, ("ACTIVE", 1, 0)))

    def give_up():
        (lease,) = service.execute("SELECT lease_uuid FROM claims.list_leases(1)").fetchone()
        connect(sys.argv[2]).execute("SELECT claims_cell.fence_leases(%s)", ([lease],))

    expect("whose lease was given up", (save(service, cell, 9, "i", give_up), state("i")), ("ObjectNotInPrerequisiteState", (None, 0, 0)))

    # A lease that the service has rolled back although it is tracked here: an orphan, reported and kept.
    lost = cell.execute("SELECT gen_random_uuid()").fetchone()[0]
    service.execute("SELECT claims.rollback_update(1, %s)", (lost,))
    cell.execute("SELECT claims_cell.track_lease(%s)", (lost,))
    expect("an orphan", claims_cell.recover(service, cell, 1)["orphaned"], 1)
    cell.execute("SELECT claims_cell.forget_leases(%s)", ([lost],))
    with cell.transaction():
        expect("within a transaction", save(service, cell, 10, "j"), "ValueError")
    expect("a name that is given back", (state("a")[0], _delete(service, cell, 1, "a"), state("a")), ("ACTIVE", None, (None, 0, 0)))


def _delete(service, cell, row_id, name):
    with claims_cell.claimed(service, cell, 1, [], [bucket(name)]):
        cell.execute("DELETE FROM routes WHERE id = %s", (row_id,))


main()
