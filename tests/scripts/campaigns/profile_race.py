"""The campaign of profile_race.sh: cells, administrators, routers, and the judgement."""
import collections
import random
import sys
import threading
import time
import uuid

from profile_race_names import (CELLS, CONTESTED, DATABASE, GRAVES, GUARDED, GUARDED_SUBJECT, LOOSE, MOVING, MOVING_SUBJECT, PINNED, PINNED_SUBJECT, PROFILES,
                                QUICK, SETUP, STRICT, quoted, spelled)
from psql_sessions import Session, fresh_database, psql

SECONDS = float(sys.argv[1])
# SQLSTATEs that concurrent calls may get: conflicts, locks, old snapshots.
EXPECTED = {"23505", "55P03", "40001", "25P02", "40P01"}

# Events that must happen, or the race proves nothing.
WANTED = ("create", "destroy", "replace", "rename", "refused", "replaced for ever", "profiles", "no profile", "reserve_names", "unreserve_names",
          "thefts", "no thefts", "transfers", "checks", "destroyed", "renamed", "corrected", "transferred", "released", "settled", "rolled back")


class Race:
    """State that all threads share."""

    def __init__(self):
        self.until = time.monotonic() + SECONDS
        self.errors, self.tally, self.reads = [], collections.Counter(), {}
        self.lock = threading.Lock()
        # For guarded families: the periods in which no cell could claim one, and the times at which a cell claimed one.
        self.guards, self.taken = [], []

    def is_on(self):
        """Returns whether the race continues: for its time, on a slow machine until all required events have happened, but not for ever."""
        now = time.monotonic()
        return now < self.until or (now < self.until + 240 and not all(self.tally[what] for what in WANTED))

    def may_wait(self):
        """Whether what has begun may still end by itself."""
        return time.monotonic() < self.until + 300

    def wrong(self, what):
        with self.lock:
            self.errors.append(what)

    def count(self, what, times=1):
        with self.lock:
            self.tally[what] += times

    def read(self, level, lines):
        for kind, reads, missed, first in (line.split("|") for line in lines):
            with self.lock:
                done, lost, example = self.reads.get((level, kind), (0, 0, ""))
                self.reads[level, kind] = (done + int(reads), lost + int(missed), example or first)

    def client(self, who):
        return Client(self, who)


class Client:
    """A session whose errors are SQLSTATEs. An unexpected one is a failure of the campaign."""

    def __init__(self, race, who):
        self.race, self.who = race, who
        self.session = Session("-v", "VERBOSITY=sqlstate")

    def ask(self, sql, *also):
        """The lines of an answer; None where it is an error that may be."""
        answer = self.session.ask(sql)
        if answer is None:
            self.race.wrong(f"{self.who}: the connection is gone after {sql}")
            return None
        codes = {line.split()[-1] for line in answer if line.startswith("ERROR")}
        if codes - EXPECTED - set(also):
            self.race.wrong(f"{self.who}: {sql}: {answer}")
        return None if codes else answer

    def begin(self, cell, creates="'[]'", destroys="'[]'"):
        """The lease, or None."""
        answer = self.ask(f"SELECT lease_uuid FROM claims.try_begin_update({cell}, {creates}, {destroys}, '{uuid.uuid4()}')")
        return answer[0] if answer and answer[0] else None

    def settle(self, cell, lease, how="commit"):
        """Settles a lease, sooner or later."""
        for _ in range(1000):
            if self.ask(f"SELECT claims.{how}_update({cell}, '{lease}')"):
                return True
            time.sleep(0.01)
        self.race.wrong(f"{self.who}: lease {lease} cannot be settled")
        return False

    def transfer(self, from_cell, to_cell, subject):
        """Moves the claims of a subject."""
        transfer = uuid.uuid4()
        subjects = f"""'[{{"type": "GROUP", "ids": [{subject}]}}]'"""
        calls = (f"SELECT finished FROM claims.prepare_transfer('{transfer}', {from_cell}, {to_cell}, {subjects}, 'race')",
                 f"SELECT true FROM claims.switch_transfer('{transfer}', 'race')", f"SELECT finished FROM claims.finish_transfer('{transfer}')")
        for call in calls:
            while self.ask(call) != ["t"] and self.race.may_wait():
                time.sleep(0.01)

    def close(self):
        self.session.close()


def claim(type_name, name, number=1, subject=1):
    return f"claim('{type_name}', {quoted(name)}, {number}, {subject})"


def bucket(type_name, name):
    return f"bucket('{type_name}', {quoted(name)})"


# --- cells ------------------------------------------------------------------------------------------------------------

def cell(race, number, seed):
    """Claims, gives up, replaces and renames names of the contested families; settles late, and one way or the other."""
    draw, client = random.Random(seed), race.client(f"cell {number}")
    while race.is_on():
        client.ask(f"SET claims.wait_timeout = {draw.choice([0, 0, 0, 30])}")
        type_name = draw.choice([STRICT, LOOSE])
        new = spelled(draw, draw.choice(CONTESTED))
        owned = client.ask("SELECT coalesce(c.display_value, c.bucket_value) FROM claims.claims c JOIN claims.bucket_types t ON t.id = c.bucket_type "
                           f"WHERE c.creator_id = {number} AND t.name = '{type_name}' AND c.status = 1 AND c.source_id = '1' ORDER BY random() LIMIT 1")
        what = draw.choice(["create", "create", "destroy", "destroy", "replace", "rename"]) if owned else "create"
        creates = {"create": claim(type_name, new), "replace": owned and claim(type_name, owned[0]), "rename": claim(type_name, new)}.get(what, "'[]'")
        destroys = "'[]'" if what == "create" else bucket(type_name, owned[0])
        lease = client.begin(number, creates, destroys)
        if lease is None:
            race.count("refused")
            continue
        race.count(what)
        if draw.random() < 0.3:
            time.sleep(draw.random() * 0.02)
        client.settle(number, lease, draw.choice(["commit", "commit", "commit", "rollback"]))
    client.close()


def replacer(race):
    """Replaces the names that are always claimed by themselves, by the cell that they are at."""
    draw, client = random.Random(5), race.client("replacer")
    while race.is_on():
        type_name, name = draw.choice([STRICT, LOOSE, QUICK]), draw.choice(MOVING)
        at = client.ask(f"SELECT cell_id FROM claims.get_record('{type_name}', {quoted(name)})")
        lease = client.begin(at[0], claim(type_name, name, 2000, MOVING_SUBJECT), bucket(type_name, name)) if at else None
        if lease:
            client.settle(at[0], lease, draw.choice(["commit", "rollback"]))
            race.count("replaced for ever")
        time.sleep(draw.random() * 0.05)
    client.close()


# --- administrators ---------------------------------------------------------------------------------------------------

def profiles(race):
    """Changes profiles, and whether look-alikes are refused."""
    draw, client = random.Random(6), race.client("profiles")
    client.ask("SET claims.wait_timeout = 100")
    while race.is_on():
        type_name = draw.choice([STRICT, LOOSE, LOOSE, QUICK, QUICK, QUICK, QUICK])
        confusables = "reject" if type_name == STRICT else draw.choice(["allow", "reject"])
        call = f"set_profile('{type_name}', '{draw.choice(PROFILES[type_name])}', 'race', '{confusables}'"
        if draw.random() < 0.2:
            race.count("dry runs", client.ask(f"SELECT count(*) FROM claims.{call})") is not None)
        else:
            end = draw.choice(["COMMIT"] * 9 + ["ROLLBACK"])
            done = client.ask(f"BEGIN; SELECT count(*) FROM claims.{call}, false)")
            if draw.random() < 0.2:
                time.sleep(draw.random() * 0.02)
            client.ask(end)
            race.count("profiles" if done and end == "COMMIT" else "no profile")
        time.sleep(draw.random() * 0.01)
    client.close()


def reserver(race):
    """Reserves names of the contested families, and sets them free."""
    draw, client = random.Random(7), race.client("reserver")
    while race.is_on():
        type_name = draw.choice([STRICT, LOOSE])
        names = "ARRAY[" + ", ".join(quoted(spelled(draw, draw.choice(CONTESTED))) for _ in range(draw.randrange(1, 3))) + "]"
        call = draw.choice(["reserve_names", "unreserve_names"])
        if call == "unreserve_names" and draw.random() < 0.8:
            names = f"ARRAY(SELECT coalesce(display_value, bucket_value) FROM claims.reserved_names WHERE bucket_type = '{type_name}' AND reason = 'race' ORDER BY random() LIMIT 3)"
        done = client.ask(f"BEGIN; SELECT claims.{call}('{type_name}', {names}, 'race')")
        if draw.random() < 0.2:
            time.sleep(draw.random() * 0.02)
        client.ask(draw.choice(["COMMIT"] * 9 + ["ROLLBACK"]))
        race.count(call if done and done != ["0"] else f"no {call}")
        time.sleep(draw.random() * 0.01)
    client.close()


def ways_to_go(client, draw, name, number, race):
    """A claim of cell 1 of a guarded name goes, in one of the ways in which claims go; which one, or None where it stays."""
    way = draw.choice(["destroyed", "renamed", "corrected", "transferred", "released", "settled"])
    if way in ("destroyed", "renamed", "settled"):
        creates = claim(STRICT, f"plain-{draw.randrange(10**9)}", 3000) if way == "renamed" else "'[]'"
        lease = client.begin(1, creates, bucket(STRICT, name))
        if not lease:
            return None
        if way != "settled":
            return client.settle(1, lease) and way
        while client.ask(f"SELECT outcome FROM claims.settle_leases(1, ARRAY['{lease}']::uuid[], '{{}}')") != ["committed"] and race.may_wait():
            time.sleep(0.01)
        return way
    if way == "corrected":
        call = (f"SELECT v.outcome FROM claims.get_record('{STRICT}', {quoted(name)}) r, "
                "claims.verify_records(1, 'RAILS_TABLE_ROUTES', '3999', '4000', '[]', '0', true, ARRAY[r.uuid]) v")
        return way if client.ask(call) == ["corrected"] else None
    client.transfer(1, GRAVES[number] if way == "released" else 2, GUARDED_SUBJECT + number)
    if way == "released":
        while client.ask(f"SELECT claims.release_records({GRAVES[number]}, 'race')") != ["1"] and race.may_wait():
            time.sleep(0.01)
        return way
    while not (lease := client.begin(2, "'[]'", bucket(STRICT, name))) and race.may_wait():
        time.sleep(0.01)
    return way if lease and client.settle(2, lease) else None


def guard(race, number):
    """Reserves a name while a look-alike is claimed, and has that claim destroyed: from then on no cell gets a look-alike."""
    draw, client = random.Random(30 + number), race.client("guard")
    family = GUARDED[number]
    while race.is_on():
        name, reserved = spelled(draw, family), spelled(draw, family)
        lease = client.begin(1, claim(STRICT, name, 4000, GUARDED_SUBJECT + number))
        if not lease:
            continue
        if draw.random() < 0.2:
            # Reserved while the lease is outstanding, which is then rolled back.
            is_reserved = client.ask(f"SELECT claims.reserve_names('{STRICT}', ARRAY[{quoted(reserved)}], 'guard')") == ["1"]
            client.settle(1, lease, "rollback")
            way = "rolled back"
        else:
            client.settle(1, lease)
            is_reserved = client.ask(f"SELECT claims.reserve_names('{STRICT}', ARRAY[{quoted(reserved)}], 'guard')") == ["1"]
            while not (way := ways_to_go(client, draw, name, number, race)) and race.may_wait():
                time.sleep(0.01)
        if is_reserved and way:
            race.count(way)
            began = time.monotonic()
            time.sleep(0.05 + draw.random() * 0.1)
            race.guards.append((family, reserved, way, began, time.monotonic()))
            while client.ask(f"SELECT claims.unreserve_names('{STRICT}', ARRAY[{quoted(reserved)}], 'guard')") is None and race.may_wait():
                time.sleep(0.01)
        time.sleep(draw.random() * 0.05)
    client.close()


def thief(race, seed):
    """Asks for guarded names all the time."""
    draw, client = random.Random(seed), race.client("thief")
    while race.is_on():
        family = draw.choice(GUARDED)
        name, began = spelled(draw, family), time.monotonic()
        lease = client.begin(3, claim(STRICT, name, 5000))
        if lease:
            race.taken.append((family, name, began, time.monotonic()))
            client.settle(3, lease, "rollback")
        race.count("thefts" if lease else "no thefts")
        time.sleep(draw.random() * 0.01)
    client.close()


def mover(race):
    """Moves names that are always claimed from cell to cell and back."""
    draw, client = random.Random(8), race.client("mover")
    here, there = 1, 2
    while race.is_on():
        client.transfer(here, there, MOVING_SUBJECT)
        race.count("transfers")
        here, there = there, here
        time.sleep(0.2 + draw.random() * 0.3)
    client.close()


# --- who looks --------------------------------------------------------------------------------------------------------

def reader(race, level, seconds):
    client = race.client(f"reader in {level}")
    names = [f"ARRAY[{', '.join(map(quoted, names))}]" for names in (PINNED, MOVING)]
    while race.is_on():
        lines = client.ask(f"BEGIN ISOLATION LEVEL {level}; SELECT * FROM read_for('{seconds} s', {', '.join(names)}); COMMIT")
        race.read(level, lines or [])
    client.close()


def checker(race):
    client = race.client("checker")
    while race.is_on():
        problems = client.ask("SELECT problem, bucket_type, bucket_value, detail FROM claims.check()") or []
        problems += client.ask("SELECT * FROM look_alikes()") or []
        for problem in problems:
            race.wrong(f"while it ran: {problem}")
        race.count("checks")
        time.sleep(0.1)
    client.close()


# --- the judgement ----------------------------------------------------------------------------------------------------

def settle_all():
    """Returns the errors of failed threads."""
    for number in CELLS:
        psql(f"SELECT claims.rollback_update({number}, lease_uuid) FROM claims.list_leases({number}, NULL, 100000)")


def judge(race):
    for problem in psql("SELECT 'check(): ' || concat_ws(' ', problem, bucket_type, bucket_value, detail) FROM claims.check() UNION ALL SELECT * FROM look_alikes()").splitlines():
        race.wrong(f"at the end: {problem}")
    for (level, kind), (reads, missed, first) in sorted(race.reads.items()):
        print(f"{level}: {kind} read {reads} times and missed {missed}")
        if missed:
            race.wrong(f"{level}: {kind} missed {missed} of {reads} names that were claimed, first {first}")
    for family, name, began, ended in race.taken:
        for guarded, reserved, way, from_, until in race.guards:
            if guarded == family and from_ < began and ended < until:
                race.wrong(f"{name} was claimed although {reserved} was reserved, after a claim that had looked like it was {way}")
    # Every claim is found by its original spelling, and no cell has a reserved name.
    lost = psql("SELECT concat_ws(' ', r.bucket_type, r.bucket_value) FROM claims.records r WHERE NOT EXISTS "
                "(SELECT FROM claims.get_record(r.bucket_type, coalesce(r.display_value, r.bucket_value)) g WHERE g.uuid = r.uuid)")
    owned = psql("SELECT concat_ws(' ', bucket_type, bucket_value) FROM claims.reserved_names n JOIN claims.records r USING (bucket_type, bucket_value)")
    for what, names in (("is not found", lost), ("is reserved and owned", owned)):
        for name in names.splitlines():
            race.wrong(f"at the end: {name} {what}")


def main():
    fresh_database(DATABASE, SETUP)
    for type_name in (STRICT, LOOSE, QUICK):
        for names, number, subject in ((PINNED, 1000, PINNED_SUBJECT), (MOVING, 2000, MOVING_SUBJECT)):
            for name in names:
                psql(f"SELECT claims.commit_update(1, claims.begin_update(1, {claim(type_name, name, number, subject)}))")
    race = Race()
    work = [(cell, number, number + 10 * turn) for number in CELLS for turn in range(1)]
    work += [(replacer,), (profiles,), (reserver,), (mover,), (checker,), (thief, 20), (guard, 0), (guard, 1)]
    work += [(reader, "READ COMMITTED", 1), (reader, "READ COMMITTED", 1), (reader, "REPEATABLE READ", 0.2)]
    threads = [threading.Thread(target=what, args=(race, *arguments)) for what, *arguments in work]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    settle_all()
    judge(race)
    print(f"{len(race.guards)} times guarded, {len(race.taken)} names taken when they were not; {dict(race.tally)}")
    for what in WANTED:
        if not race.tally[what]:
            race.wrong(f"nothing of this happened: {what}")
    if race.errors:
        counted = collections.Counter(race.errors)
        sys.exit("\n".join(["FAILED:", *(f"{error} ({times} times)" for error, times in counted.most_common(40))]))


main()
