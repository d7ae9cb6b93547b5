"""The campaign of requests_campaign.sh: front ends, back ends that are killed and stopped, and the judgement.

A back end is a psql of its own, driven through a pipe. Every effect is a row in `effects`, written in the transaction that
settles; the table has no unique key, so that what is done twice is seen.
"""
import os
import random
import signal
import sys
import threading
import time
import uuid

from psql_sessions import Session, fresh_database, psql

SECONDS = float(sys.argv[1])
DATABASE = "script_campaign"
SETUP = """
CREATE EXTENSION claims;
CREATE TABLE effects (request bigint, entity text, request_type text, process uuid, at timestamptz DEFAULT clock_timestamp(), n bigint GENERATED ALWAYS AS IDENTITY);
"""


# Ends of taken requests; each must happen some times for the campaign to prove anything.
FATES = ("done", "killed", "late")


class Clock:
    """The end of the campaign: after its time; on a slow machine when every fate has occurred, four minutes later at the latest."""

    def __init__(self):
        self.started = time.monotonic()

    def is_over(self, tally, later=0):
        seconds = time.monotonic() - self.started - later
        return seconds > SECONDS and (all(tally.get(fate, 0) >= 5 for fate in FATES) or seconds > SECONDS + 240)


def front_end(number, clock, errors, tally):
    draw = random.Random(number)
    session = Session()
    made = 0
    while not clock.is_over(tally):
        entity = f"f{number}-e{made // 3 if draw.random() < 0.3 else draw.randrange(made // 3 + 1)}"
        statement = f"SELECT claims.enqueue_request('work', '{entity}', '{'create' if draw.random() < 0.35 else 'update'}')"
        end = "ROLLBACK" if draw.random() < 0.1 else "COMMIT"
        answer = session.ask(f"BEGIN; {statement}; {end}")
        if answer is None:
            errors.append("a front end lost its connection")
            return
        made += 1
        if any("ERROR" in line and "create request already" not in line for line in answer):
            errors.append(f"front end: {answer}")
        time.sleep(draw.random() * 0.01)
    session.close()


def back_end(number, clock, errors, tally):
    """Works until it is stopped; now and then it dies in the middle, or sleeps past its hold."""
    draw = random.Random(1000 + number)
    session = Session()
    while not clock.is_over(tally, later=1):
        process = uuid.UUID(int=draw.getrandbits(128))
        hold = draw.random() < 0.5
        outcome = one_take(session, process, hold, draw, errors)
        tally[outcome] = tally.get(outcome, 0) + 1
        if outcome == "killed":
            session.close()
            session = Session()
        elif outcome == "nothing":
            time.sleep(0.01)
    session.close()


def one_take(session, process, hold, draw, errors):
    ask = session.ask
    take = f"SELECT id, entity, request_type FROM claims.take_requests('work', '{process}'{', 0, $$250 ms$$' if hold else ''})"
    begin = ask("BEGIN") if not hold else []
    rows = ask(take)
    if begin is None or rows is None:
        return "killed"
    if any("ERROR" in row for row in rows):
        errors.append(f"take: {rows}")
    requests = [row.split("|") for row in rows if row.count("|") == 2]
    if not requests:
        ask("COMMIT" if not hold else "SELECT")
        return "nothing"
    fate = draw.random()
    if fate < 0.05:
        session.process.send_signal(signal.SIGKILL)
        session.process.wait()
        return "killed"
    if hold:
        if fate < 0.12:
            session.process.send_signal(signal.SIGSTOP)
            time.sleep(0.4)
            session.process.send_signal(signal.SIGCONT)
        elif fate < 0.2:
            ask(f"SELECT claims.extend_requests('{process}', '500 ms')")
        begin = ask("BEGIN")
    values = ", ".join(f"({r[0]}, '{r[1]}', '{r[2]}', '{process}')" for r in requests)
    ask(f"INSERT INTO effects (request, entity, request_type, process) VALUES {values}")
    settled = ask(f"SELECT claims.settle_requests('{process}')")
    if settled is None:
        return "killed"
    if fate > 0.97:
        session.process.send_signal(signal.SIGKILL)
        session.process.wait()
        return "killed"
    late = any("has expired" in line or "no request in hand" in line for line in settled)
    if any("ERROR" in line for line in settled) and not late and not any("aborted" in line for line in settled):
        errors.append(f"settle: {settled}")
    ask("ROLLBACK" if late else "COMMIT")
    return "late" if late else "done"


def drain():
    """One back end without faults finishes the remaining requests, within a generous time."""
    session = Session()
    until = time.monotonic() + 300
    while time.monotonic() < until:
        process = uuid.uuid4()
        session.ask("BEGIN")
        rows = session.ask(f"SELECT id, entity, request_type FROM claims.take_requests('work', '{process}')")
        requests = [row.split("|") for row in rows if row.count("|") == 2]
        if requests:
            values = ", ".join(f"({r[0]}, '{r[1]}', '{r[2]}', '{process}')" for r in requests)
            session.ask(f"INSERT INTO effects (request, entity, request_type, process) VALUES {values}")
            session.ask(f"SELECT claims.settle_requests('{process}')")
        session.ask("COMMIT")
        if not requests:
            if psql("SELECT count(*) FROM claims.requests WHERE status = 'in-progress'") == "0":
                session.close()
                return
            time.sleep(0.1)


JUDGEMENT = {
    "every request is complete": "SELECT count(*) FROM claims.requests WHERE status <> 'complete'",
    "no effect is missing": "SELECT count(*) FROM claims.requests r WHERE NOT EXISTS (SELECT FROM effects e WHERE e.request = r.id)",
    "no effect was committed twice": "SELECT count(*) - count(DISTINCT request) FROM effects",
    "no effect without a request": "SELECT count(*) FROM effects e WHERE NOT EXISTS (SELECT FROM claims.requests r WHERE r.id = e.request)",
    "the one whose effect it is has settled it": "SELECT count(*) FROM effects e JOIN claims.requests r ON r.id = e.request WHERE r.process_id <> e.process",
    # An update that was done before anybody had asked for the create is in order.
    "creates come before updates": """SELECT count(*) FROM effects u JOIN effects c ON c.entity = u.entity AND c.request_type = 'create'
        JOIN claims.requests r ON r.id = c.request WHERE u.request_type = 'update' AND u.n < c.n AND u.request > c.request""",
    "updates of an entity in order": """SELECT count(*) FROM effects a JOIN effects b ON b.entity = a.entity AND b.request_type = 'update'
        WHERE a.request_type = 'update' AND a.request < b.request AND a.n > b.n""",
    "nothing is blocked or marked": "SELECT count(*) FROM claims.requests WHERE blocked OR unblock",
}


def main():
    fresh_database(DATABASE, SETUP)
    clock, errors, tally = Clock(), [], {}
    threads = [threading.Thread(target=front_end, args=(n, clock, errors, tally)) for n in range(2)]
    threads += [threading.Thread(target=back_end, args=(n, clock, errors, tally)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    # A killed client's server process may still be ending.
    while psql(f"SELECT count(*) FROM pg_stat_activity WHERE datname = '{DATABASE}' AND pid <> pg_backend_pid() AND backend_type = 'client backend'") != "0":
        time.sleep(0.05)
    drain()
    failed = bool(errors)
    for error in errors[:10]:
        print("FAILED:", error)
    for what, question in JUDGEMENT.items():
        wrong = int(psql(question))
        failed |= wrong > 0
        print(f"{'ok' if wrong == 0 else 'FAILED'}: {what}" + (f" ({wrong} are not)" if wrong else ""))
    print(f"{psql('SELECT count(*) FROM claims.requests')} requests; takes: {dict(sorted(tally.items()))}")
    wanted = all(tally.get(fate, 0) >= 3 for fate in FATES)
    if not wanted:
        failed = True
        print("FAILED: not every fate occurred three times")
    os.environ["PGDATABASE"] = "postgres"
    psql(f"DROP DATABASE {DATABASE} WITH (FORCE)")
    sys.exit(1 if failed else 0)


main()
