"""The campaign of changes_campaign.sh: writers, readers, and the judgement."""
import collections
import random
import sys
import threading
import time

from psql_sessions import Session, fresh_database, psql

SECONDS = float(sys.argv[1])
DATABASE = "script_changes"
WRITERS, READERS, CELLS, NAMES = 8, 3, 4, 40
LEVELS = ["READ COMMITTED"] * 3 + ["REPEATABLE READ", "SERIALIZABLE"]
SETUP = f"""
CREATE EXTENSION claims;
SELECT claims.register_cell(n, 'postgres', 'cell ' || n) FROM generate_series(1, {CELLS}) n;
ALTER DATABASE {DATABASE} SET claims.change_feed = on;
CREATE TABLE places (reader int PRIMARY KEY, after text);
INSERT INTO places SELECT n, NULL FROM generate_series(1, {READERS}) n;
CREATE TABLE told (n bigint GENERATED ALWAYS AS IDENTITY, reader int, xid xid8, id bigint, op text, bucket_value text, old_cell_id bigint, new_cell_id bigint);
-- Takes, replaces or gives up a name for a cell, in a lease of its own that is committed at once.
CREATE FUNCTION act(cell bigint, name text, how int) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    claim jsonb := jsonb_build_array(jsonb_build_object('bucket', jsonb_build_object('type', 'ROUTES', 'value', name),
        'subject', jsonb_build_object('type', 'GROUP', 'id', how), 'source', jsonb_build_object('type', 'RAILS_TABLE_ROUTES', 'id', how)));
    bucket jsonb := jsonb_build_array(jsonb_build_object('bucket', jsonb_build_object('type', 'ROUTES', 'value', name)));
    lease uuid;
BEGIN
    SELECT b.lease_uuid INTO lease FROM claims.try_begin_update(cell, CASE WHEN how % 3 = 0 THEN '[]' ELSE claim END, CASE WHEN how % 3 = 1 THEN '[]' ELSE bucket END) b;
    IF lease IS NULL THEN
        RETURN 'conflict';
    END IF;
    PERFORM claims.commit_update(cell, lease);
    RETURN 'done';
END $$;
-- The next page of a reader; the page and the place behind it are kept together.
CREATE FUNCTION read_on(who int, page int) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    place text := (SELECT p.after FROM places p WHERE p.reader = who FOR UPDATE);
    c record;
    lines bigint := 0;
BEGIN
    FOR c IN SELECT * FROM claims.list_changes(place, page) LOOP
        INSERT INTO told (reader, xid, id, op, bucket_value, old_cell_id, new_cell_id)
        VALUES (who, c.xid, c.id, c.op, c.bucket_value, c.old_cell_id, c.new_cell_id);
        place := c.cursor;
        lines := lines + 1;
    END LOOP;
    UPDATE places p SET after = place WHERE p.reader = who;
    RETURN lines;
END $$;
"""


# Events that must each happen some times for the campaign to prove anything.
KINDS = ("savepoints", "long", "prepared", "killed writers", "rolled back", "killed readers", "committed")


class Clock:
    """The end of the campaign: after its time; on a slow machine when enough has happened, four minutes later at the latest."""

    def __init__(self):
        self.started = time.monotonic()

    def is_over(self, tally):
        seconds = time.monotonic() - self.started
        return seconds > SECONDS and (all(tally[kind] >= 5 for kind in KINDS) and tally["committed"] >= 3 * NAMES or seconds > SECONDS + 240)


def session_with_codes():
    """A session whose errors are SQLSTATEs."""
    return Session("-v", "VERBOSITY=sqlstate")


# SQLSTATEs that concurrent calls may get: temporary conflicts, and 25P02 after them.
EXPECTED = {"40001", "40P01", "55P03", "25P02"}


def failed(answers):
    """The SQLSTATEs of the errors among some answers."""
    return {line.split()[-1] for line in answers if "ERROR" in line}


def writer(number, clock, errors, tally):
    draw = random.Random(number)
    session, cell = session_with_codes(), number % CELLS + 1
    turn = 0
    while not clock.is_over(tally):
        turn += 1
        answers = session.ask(f"BEGIN ISOLATION LEVEL {draw.choice(LEVELS)}") or []
        savepoints = 0
        for _ in range(draw.randrange(1, 6)):
            step = draw.random()
            if step < 0.2:
                # In a transaction that has failed already there is no savepoint to go back to.
                answer = session.ask(f"SAVEPOINT s{savepoints + 1}") or []
                savepoints += not failed(answer)
                answers += answer
            elif step < 0.3 and savepoints:
                answers += session.ask(f"{draw.choice(['ROLLBACK TO', 'RELEASE'])} s{savepoints}") or []
                savepoints -= 1
                tally["savepoints"] += 1
            elif step < 0.4:
                # A transaction that has written delays all readers.
                answers += session.ask(f"SELECT pg_current_xact_id(); SELECT pg_sleep({draw.random() * 0.4:.3f})") or []
                tally["long"] += 1
            else:
                name = f"name-{draw.randrange(NAMES)}"
                answers += session.ask(f"SELECT act({cell}, '{name}', {draw.randrange(1000)})") or []
        end = draw.random()
        if end < 0.05:
            if draw.random() < 0.5:
                session.close()          # before the COMMIT
            else:
                session.send("COMMIT")   # or about then
                session.close()
            session = session_with_codes()
            tally["killed writers"] += 1
        elif end < 0.2:
            session.ask("ROLLBACK")
            tally["rolled back"] += 1
        elif end < 0.4:
            gid = f"changes-{number}-{turn}"
            prepared = session.ask(f"PREPARE TRANSACTION '{gid}'") or []
            time.sleep(draw.random() * 0.2)
            answers += [line for line in prepared if "ERROR" in line]
            if psql(f"SELECT count(*) FROM pg_prepared_xacts WHERE gid = '{gid}'") == "1":
                answers += session.ask(f"{draw.choice(['COMMIT', 'COMMIT', 'ROLLBACK'])} PREPARED '{gid}'") or []
                tally["prepared"] += 1
        else:
            session.ask("COMMIT")
            tally["committed"] += 1
        if failed(answers) - EXPECTED:
            errors.append(f"writer {number}: {answers}")
    session.close()


def reader(number, clock, errors, tally):
    """Reads on; every now and then it dies, in the middle of a page, before it has kept its place, or after."""
    draw = random.Random(1000 + number)
    session = session_with_codes()
    while not clock.is_over(tally):
        level, page = draw.choice(LEVELS), draw.choice([1, 3, 20, 1000])
        call = f"BEGIN ISOLATION LEVEL {level}; SELECT read_on({number}, {page})"
        if draw.random() < 0.1:
            session.send(call if draw.random() < 0.5 else call + "; COMMIT")
            time.sleep(draw.random() * 0.01)
            session.close()
            session = session_with_codes()
            tally["killed readers"] += 1
            continue
        answer = session.ask(call)
        session.ask("COMMIT")
        if answer is None or failed(answer) - EXPECTED:
            errors.append(f"reader {number}: {answer}")
        time.sleep(draw.random() * 0.03)
    session.close()


def drain(number):
    """Reads until nothing that is committed is missing."""
    until = time.monotonic() + 300
    while time.monotonic() < until:
        if psql(f"SELECT read_on({number}, 1000)") != "0":
            continue
        if psql("SELECT count(*) FROM claims.changes WHERE xid >= pg_snapshot_xmin(pg_current_snapshot())") == "0" and psql(f"SELECT read_on({number}, 1000)") == "0":
            return
        time.sleep(0.05)
    raise RuntimeError("the end of the feed does not come")


Change = collections.namedtuple("Change", "xid id op name old new")


def changes(sql):
    return [Change(int(x), int(i), op, name, old, new) for x, i, op, name, old, new in (line.split("|") for line in psql(sql).splitlines())]


def judge(errors):
    columns = "xid, id, op, bucket_value, old_cell_id, new_cell_id"
    stored = changes(f"SELECT {columns} FROM claims.changes ORDER BY xid, id")
    for number in range(1, READERS + 1):
        got = changes(f"SELECT {columns} FROM told WHERE reader = {number} ORDER BY n")
        if got != stored:
            missed, odd = set(stored) - set(got), set(got) - set(stored)
            errors.append(f"reader {number} got {len(got)} changes of {len(stored)}: missed {sorted(missed)[:5]}, not there {sorted(odd)[:5]}, "
                          f"{len(got) - len(set(got))} twice, {'in order' if got == sorted(got) else 'out of order'}")
    # From the feed alone: whose each name was at any time. Later changes of a name have greater ids.
    owners, turns = {}, 0
    for change in sorted(stored, key=lambda change: change.id):
        owner = owners.get(change.name, "")
        fits = {"create": not change.old and change.new, "destroy": change.old and not change.new, "replace": change.old and change.old == change.new}
        if change.old != owner or not fits.get(change.op):
            errors.append(f"{change} where the owner is {owner or 'nobody'}")
        turns += change.op == "create"
        owners[change.name] = change.new
    end = dict(line.split("|") for line in psql("SELECT bucket_value, cell_id FROM claims.records WHERE status = 'ACTIVE'").splitlines())
    owned = {name: owner for name, owner in owners.items() if owner}
    if owned != end:
        errors.append(f"the feed ends with {sorted(owned.items() - end.items())[:5]}, the table has {sorted(end.items() - owned.items())[:5]}")
    violations = psql("SELECT count(*) FROM claims.check()")
    if violations != "0":
        errors.append(f"check() finds {violations} violations")
    inverted = sum(stored[n].id < stored[n - 1].id for n in range(1, len(stored)))
    return len(stored), turns, inverted


def main():
    fresh_database(DATABASE, SETUP)
    errors, tally = [], collections.Counter()
    clock = Clock()
    threads = [threading.Thread(target=writer, args=(n, clock, errors, tally)) for n in range(WRITERS)]
    threads += [threading.Thread(target=reader, args=(n, clock, errors, tally)) for n in range(1, READERS + 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for gid in psql("SELECT gid FROM pg_prepared_xacts").splitlines():
        psql(f"COMMIT PREPARED '{gid}'")
    # Backends of killed clients may still be running.
    while psql(f"SELECT count(*) FROM pg_stat_activity WHERE datname = '{DATABASE}' AND pid <> pg_backend_pid() AND backend_type = 'client backend'") != "0":
        time.sleep(0.05)
    for number in range(1, READERS + 1):
        drain(number)
    total, turns, inverted = judge(errors)
    print(f"{total} changes, {turns} times a name was taken, {inverted} places where an older transaction comes first; {dict(tally)}")
    for what in KINDS:
        if not tally[what]:
            errors.append(f"nothing of this happened: {what}")
    if not (turns > NAMES and inverted):
        errors.append("too little happened: this proves nothing")
    if errors:
        sys.exit("\n".join(["FAILED:", *map(str, errors[:20])]))


main()
