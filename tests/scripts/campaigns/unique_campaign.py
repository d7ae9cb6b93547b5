"""The campaign of unique_campaign.sh: sessions that save, DDL beside them, terminated and killed backends, and the judgement."""
import collections
import os
import random
import re
import signal
import sys
import threading
import time

import unique_changes as changes
from psql_sessions import Session, fresh_database, psql

SECONDS, SEED = float(sys.argv[1]), sys.argv[2]
DATABASE = "script_unique_campaign"
SAVERS, ALTERERS = 5, 2
# SQLSTATEs of those who save: values that stand, deadlocks, old snapshots, locks, partitions that are not there, and a session that was terminated.
ALLOWED = {"23505", "40P01", "40001", "55P03", "23514", "42P01", "25P02", "57P01"}
# SQLSTATEs of DDL, besides: tables that are there, partitions that another session has just changed, savepoints of a transaction that has failed.
ALLOWED_FOR_DDL = ALLOWED | {"3B001", "42P07", "42P17", "42809", "55006", "55000", "42704", "42710", "42P06"}
DDL = ("create", "create and fill", "attach new", "attach moved", "make loose", "attach", "attach and roll back", "attach what is left", "drop loose",
       "detach", "detach concurrently", "detach and save", "detach and attach", "drop", "drop with an old snapshot", "drop and save",
       "drop and roll back", "drop prepared", "truncate", "truncate and save", "truncate a table", "truncate all partitions",
       "truncate and roll back", "drop a schema", "drop the unique and add it", "drop the unique and roll back", "change the type",
       "change the type of partitions", "purge")
SAVES = ("committed", "refused", "rolled back", "prepared", "savepoints", "terminated", "killed", "judged in passing")
KIND_OF_DDL = f"""SELECT k, CASE WHEN to_regclass('p' || k) IS NULL THEN 'none' ELSE coalesce(
    (SELECT CASE WHEN i.inhdetachpending THEN 'pending' ELSE 'partition' END FROM pg_inherits i WHERE i.inhrelid = to_regclass('p' || k)), 'loose') END
    FROM generate_series(0, {len(changes.KINDS) - 1}) k"""


def states(answer):
    """The SQLSTATEs of an answer."""
    return [found[1] for line in answer or () if (found := re.match(r"(?:ERROR|FATAL|PANIC): +(\w{5})", line))]


class Campaign:
    def __init__(self):
        self.started = time.monotonic()
        self.lock = threading.Lock()
        self.errors, self.tally, self.round = [], collections.Counter(), 0
        self.is_round_over = threading.Event()

    def is_over(self):
        seconds = time.monotonic() - self.started
        return bool(self.errors) or seconds > SECONDS and (not self.missing() or seconds > SECONDS + 240)

    def missing(self):
        return [what for what in DDL + SAVES if not self.tally[what]]

    def count(self, what):
        with self.lock:
            self.tally[what] += 1

    def fail(self, error):
        with self.lock:
            self.errors.append(error)
        self.is_round_over.set()


class Client:
    """A session that is opened again when it was terminated, and ends its prepared transactions."""

    def __init__(self, campaign, name, allowed):
        self.campaign, self.name, self.allowed, self.gids = campaign, name, allowed, 0
        self.draw = random.Random(f"{SEED} {campaign.round} {name}")
        self.session = None
        self.open()

    def open(self):
        if self.session:
            self.session.close()
        self.session = Session("-v", "VERBOSITY=sqlstate")
        self.ask("SET lock_timeout = '1s'; SET application_name = 'at work'")

    def ask(self, sql, allowed=frozenset()):
        """The SQLSTATEs of the answer; None where the connection is gone."""
        answer = self.session.ask(sql)
        found = states(answer)
        if set(found) - self.allowed - allowed:
            self.campaign.fail(f"{self.name}: {sql}: {answer}")
        return None if answer is None or "57P01" in found else found

    def end_prepared(self, how):
        """Ends the transaction that was prepared last, even if the session was terminated meanwhile."""
        gid = f"{self.campaign.round} {self.name} {self.gids}"
        time.sleep(self.draw.random() * 0.1)
        # A session that was terminated may have ended it, or not.
        while self.ask(f"{how} PREPARED '{gid}'", {"42704", "55000"}) != [] and not self.campaign.is_round_over.is_set() and is_there(gid):
            self.open()

    def prepare(self):
        self.gids += 1
        return f"PREPARE TRANSACTION '{self.campaign.round} {self.name} {self.gids}'"


def is_there(gid):
    try:
        return psql(f"SELECT count(*) FROM pg_prepared_xacts WHERE gid = '{gid}'") != "0"
    except RuntimeError:
        return False


def saver(number, campaign):
    """Saves in transactions of some statements."""
    client = Client(campaign, f"saver {number}", ALLOWED)
    draw = client.draw
    while not campaign.is_round_over.is_set():
        begun = client.ask(f"BEGIN ISOLATION LEVEL {draw.choice(changes.LEVELS)}")
        found, savepoints = begun or [], 0
        for _ in range(draw.randrange(1, 6)):
            if draw.random() < 0.15:
                found += client.ask("SAVEPOINT s") or []
                savepoints += 1
            elif savepoints and draw.random() < 0.4:
                # A transaction that had failed already made no savepoint.
                client.ask(f"{draw.choice(('ROLLBACK TO', 'RELEASE'))} s", {"3B001"})
                savepoints -= 1
                campaign.count("savepoints")
            else:
                found += client.ask(changes.save(draw)) or []
        end = draw.random()
        if end < 0.1:
            client.ask("ROLLBACK")
            campaign.count("rolled back")
        elif end < 0.25:
            if client.ask(client.prepare()) == []:
                client.end_prepared(draw.choice(("COMMIT", "COMMIT", "ROLLBACK")))
                campaign.count("prepared")
        else:
            ended = client.ask("COMMIT")
            campaign.count("committed" if ended == [] else "refused")
            begun = None if ended is None else begun
        if begun is None:
            client.open()
    client.session.close()


def alterer(number, campaign):
    """Changes tables: what has not happened yet if it can, else at random."""
    client = Client(campaign, f"alterer {number}", ALLOWED_FOR_DDL)
    draw = client.draw
    while not campaign.is_round_over.is_set():
        try:
            kinds = dict(line.split("|") for line in psql(KIND_OF_DDL).splitlines())
        except RuntimeError:
            break
        offered = [changes.BY_STATE[state](draw, kind) for kind, state in kinds.items()] + [changes.of_tables(draw)]
        new = [choice for choices in offered for choice in choices if choice[0] in campaign.missing()]
        name, statements = draw.choice(new if new and draw.random() < 0.6 else draw.choice(offered))
        found = []
        for statement in statements:
            answer = client.ask(client.prepare() if statement == "PREPARE TRANSACTION" else statement)
            if answer is None:
                client.open()
                found = None
                break
            found += answer
            if statement == "PREPARE TRANSACTION" and not found:
                client.end_prepared(draw.choice(("COMMIT", "ROLLBACK")))
        if found == []:
            campaign.count(name)
        else:
            campaign.count("ddl refused")
            client.ask("ROLLBACK")
        time.sleep(draw.random() * 0.1)
    client.session.close()


def judge_in_passing(_, campaign):
    """Looks for values that stand twice beside everything."""
    client = Client(campaign, "judge", set())
    while not campaign.is_round_over.is_set():
        client.session.ask("BEGIN ISOLATION LEVEL REPEATABLE READ")
        # LOCK TABLE takes no snapshot.
        locked = client.session.ask("LOCK TABLE one, north.users, south.users, parts IN ACCESS SHARE MODE")
        found = client.session.ask("SELECT 'twice: ' || t FROM twice() t") if locked == [] else ["ERROR"]
        client.session.ask("ROLLBACK")
        if found == []:
            campaign.count("judged in passing")
        elif any(line.startswith("twice: ") for line in found or ()):
            campaign.fail(found)
        else:
            # A partition was dropped while it looked, or its session was terminated.
            client.open()
        time.sleep(0.05)
    client.session.close()


def terminator(_, campaign):
    """Terminates sessions."""
    draw = random.Random(f"{SEED} {campaign.round}")
    while not campaign.is_round_over.wait(draw.random()):
        try:
            if psql(f"SELECT pg_terminate_backend(pid) FROM ({AT_WORK} ORDER BY random() LIMIT 1) a") == "t":
                campaign.count("terminated")
        except RuntimeError:
            return


OTHERS = f"SELECT pid FROM pg_stat_activity WHERE datname = '{DATABASE}' AND pid <> pg_backend_pid() AND backend_type = 'client backend'"
AT_WORK = f"{OTHERS} AND application_name = 'at work'"


def wait_for(question, wanted):
    """Waits for an answer, also for a server that starts anew."""
    until = time.monotonic() + 120
    while time.monotonic() < until:
        try:
            if psql(question) == wanted:
                return
        except RuntimeError:
            pass
        time.sleep(0.05)
    raise RuntimeError(f"not within 120 seconds: {question}")


def kill_backend():
    """Kills a backend that does something, if there is one: the server then starts anew. Returns whether it did."""
    started = psql("SELECT pg_postmaster_start_time(), min(backend_start) FROM pg_stat_activity WHERE backend_type = 'checkpointer'")
    busy = psql(f"SELECT pid FROM ({AT_WORK} AND state <> 'idle' ORDER BY random() LIMIT 1) a")
    if not busy:
        return False
    try:
        os.kill(int(busy), signal.SIGKILL)
    except ProcessLookupError:
        return False
    wait_for(f"""SELECT '{started}' <> concat_ws('|', pg_postmaster_start_time(), min(backend_start)) AND count(*) = 1
                   FROM pg_stat_activity WHERE backend_type = 'checkpointer'""", "t")
    return True


def run_round(campaign):
    campaign.round += 1
    campaign.is_round_over.clear()
    work = [(saver, n) for n in range(SAVERS)] + [(alterer, n) for n in range(ALTERERS)] + [(judge_in_passing, 0), (terminator, 0)]
    threads = [threading.Thread(target=what, args=(number, campaign)) for what, number in work]
    for thread in threads:
        thread.start()
    campaign.is_round_over.wait(2 + 2 * random.Random(f"{SEED} {campaign.round}").random())
    # Every other round ends while everybody is at work.
    if campaign.round % 2 and not campaign.errors:
        campaign.tally["killed"] += kill_backend()
    campaign.is_round_over.set()
    for thread in threads:
        thread.join()
    # Backends of sessions that have ended may still be running.
    wait_for(f"SELECT count(*) FROM ({OTHERS}) a", "0")
    for at, gid in enumerate(psql("SELECT gid FROM pg_prepared_xacts").splitlines()):
        psql(f"{('COMMIT', 'ROLLBACK')[(campaign.round + at) % 2]} PREPARED '{gid}'")
    for kind in [line.split("|")[0] for line in psql(KIND_OF_DDL).splitlines() if line.endswith("|pending")]:
        psql(f"ALTER TABLE parts DETACH PARTITION p{kind} FINALIZE")


def judge(campaign):
    """The judgement with nobody beside it."""
    for wrong in psql("SELECT 'twice: ' || t FROM twice() t UNION ALL SELECT 'check(): ' || c::text FROM claims.check() c").splitlines():
        campaign.fail(f"round {campaign.round}: {wrong}")
    values = ", ".join(f"('{value}')" for value in changes.VALUES)
    question = f"""WITH standing AS MATERIALIZED (SELECT key FROM one UNION ALL SELECT key FROM north.users UNION ALL SELECT key FROM south.users
                                                  UNION ALL SELECT key FROM parts)
        SELECT v, t, CASE WHEN v IN (SELECT key FROM standing) THEN 'refused' ELSE 'saved' END AS wanted, attempt(v, t::regclass)
          FROM (VALUES {values}) v (v), unnest('{{one, north.users, parts}}'::text[]) t"""
    for value, table, wanted, got in (line.split("|") for line in psql(question).splitlines()):
        campaign.tally[f"values {wanted}"] += 1
        if got != wanted:
            campaign.fail(f"round {campaign.round}: {value}, saved in {table}, should be {wanted}, and is {got}")


def main():
    fresh_database(DATABASE, changes.SETUP)
    campaign = Campaign()
    while not campaign.is_over():
        run_round(campaign)
        judge(campaign)
    print(f"seed {SEED}, {campaign.round} rounds, {time.monotonic() - campaign.started:.0f} s: {dict(sorted(campaign.tally.items()))}")
    if missing := campaign.missing():
        campaign.fail(f"nothing of this happened: {missing}")
    if campaign.errors:
        sys.exit("\n".join(["FAILED:", *map(str, campaign.errors[:20])]))
    os.environ["PGDATABASE"] = "postgres"
    psql(f"DROP DATABASE {DATABASE} WITH (FORCE)")


main()
