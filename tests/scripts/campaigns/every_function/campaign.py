"""The campaign of every_function.sh: makes the calls, has psql send them, and judges what came of each.

One psql for each role and database reads a file of calls, each in a transaction of its own that is rolled back, and says before each which it is.
"""
import collections
import os
import random
import re
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from values import ODD, odd, plausible

ALLOWED, FOLDER, SECONDS = sys.argv[1], sys.argv[2], float(sys.argv[3])
DATABASES = ["service", "cell"]
UNPRIVILEGED = ["nobody", "noinherit", "one", "two", "member", "reader", "monitor", "worker", "table_owner"]
ROLES = [*UNPRIVILEGED, "admin", "owner", "superuser"]
# Roles for which other roles have tried all that they execute, and from how many seconds on they try all of it, too.
SAMPLED, TRYING, LONG = ["two", "member", "admin", "owner"], ["one", "reader", "monitor", "worker"], 60
# The cells that a role may act for.
CELLS = {"one": ["1"], "member": ["1"], "two": ["2", "3"]}
STATEMENT_TIMEOUT = os.environ.get("EVERY_STATEMENT_TIMEOUT", "60s")
CATALOG = """
SELECT p.oid::regprocedure, p.pronamespace::regnamespace || '.' || quote_ident(p.proname), p.proname, p.prokind, p.prorettype::regtype IN ('trigger', 'event_trigger'), p.proisstrict,
       array_to_string(p.proargnames[1:p.pronargs], ','), (SELECT string_agg(format_type(y, NULL), ',' ORDER BY n) FROM unnest(p.proargtypes) WITH ORDINALITY a (y, n))
  FROM pg_depend d JOIN pg_extension e ON e.oid = d.refobjid AND d.refclassid = 'pg_extension'::regclass JOIN pg_proc p ON d.classid = 'pg_proc'::regclass AND p.oid = d.objid
 WHERE e.extname = 'claims' AND d.deptype = 'e' ORDER BY p.proname COLLATE "C", p.oid"""


@dataclass
class Function:
    signature: str
    path: str
    name: str
    kind: str
    is_trigger: bool
    is_strict: bool
    arguments: list[tuple[str, str]]

    def call(self, values):
        given = ", ".join(f"({value})::{kind}" for (_, kind), value in zip(self.arguments, values))
        return f"{'CALL' if self.kind == 'p' else 'SELECT'} {self.path}({given})"

    def plausible(self):
        return [plausible(self.name, argument, kind) for argument, kind in self.arguments]


@dataclass
class Call:
    function: Function
    values: list[str]
    is_plausible: bool = False
    before: tuple[str, ...] = ()
    answer: str = "lost"        # the SQLSTATE, 00000 for success; lost: nothing was heard of it
    message: str = ""

    def named(self):
        return {argument: value for (argument, _), value in zip(self.function.arguments, self.values)}

    def is_answered_by_planner(self):
        """Returns whether PostgreSQL answers NULL to a NULL argument of a strict function without checking the right to execute it."""
        return self.function.is_strict and "NULL" in self.values


def psql(database, *options, role="postgres", **more):
    command = ["psql", "-Xq", "-U", role if role == "postgres" else f"every_{role}", "-d", f"every_{database}", *options]
    return subprocess.run(command, capture_output=True, text=True, errors="replace", **more)


def functions(database):
    rows = psql(database, "-At", "-F", "\t", "-c", CATALOG, check=True).stdout.splitlines()
    found = []
    for signature, path, name, kind, is_trigger, is_strict, names, kinds in (row.split("\t") for row in rows):
        kinds = kinds.split(",") if kinds else []
        names = names.split(",") if names else [f"${n}" for n in range(1, len(kinds) + 1)]
        found.append(Function(signature, path, name, kind, is_trigger == "t", is_strict == "t", list(zip(names, kinds))))
    return found


def executable(database, role):
    """The functions that a role may execute, as PostgreSQL sees it."""
    text = "SELECT p.oid::regprocedure FROM pg_proc p WHERE p.pronamespace = 'claims'::regnamespace AND has_function_privilege(p.oid, 'EXECUTE')"
    return set(psql(database, "-At", "-c", text, role=role, check=True).stdout.splitlines())


# --- which calls ----------------------------------------------------------------------------------------------------


def systematic(function):
    """One that may go through, one with nothing but NULL, and for each argument each odd value beside values that may go through."""
    yield Call(function, function.plausible(), is_plausible=True)
    if not function.arguments:
        return
    yield Call(function, ["NULL"] * len(function.arguments))
    for place, (_, kind) in enumerate(function.arguments):
        for value in odd(kind):
            values = function.plausible()
            values[place] = value
            yield Call(function, values)


def sample(function, draw):
    """For roles that go the way of others: as `systematic`, with one odd value for each argument."""
    yield Call(function, function.plausible(), is_plausible=True)
    if function.arguments:
        yield Call(function, ["NULL"] * len(function.arguments))
    for place, (_, kind) in enumerate(function.arguments):
        values = function.plausible()
        values[place] = draw.choice(odd(kind))
        yield Call(function, values)


def refused(function, draw):
    """For roles that PostgreSQL itself refuses."""
    yield Call(function, function.plausible())
    if function.arguments:
        yield Call(function, ["NULL"] * len(function.arguments))
        yield combination(function, draw)


# Statements that the transaction may have executed before the call.
BEFORE = [(), (), ("BEGIN READ ONLY",), ("BEGIN ISOLATION LEVEL REPEATABLE READ", "SELECT FROM app.names"), ("BEGIN ISOLATION LEVEL SERIALIZABLE",),
          ("BEGIN", "SAVEPOINT s", "INSERT INTO app.names VALUES (1000, 'new', 1)"), ("BEGIN", "DELETE FROM app.names", "SET CONSTRAINTS ALL IMMEDIATE"),
          ("SET search_path = app, pg_temp",), ("SET synchronous_commit = off",)]


def combination(function, draw):
    def value(argument, kind):
        return plausible(function.name, argument, kind) if draw.random() < 0.4 else draw.choice(odd(kind))

    before = draw.choice(BEFORE) if function.kind == "f" else ()
    return Call(function, [value(*argument) for argument in function.arguments], before=before)


# --- sending them ---------------------------------------------------------------------------------------------------


def send(database, role, calls):
    """Fills in the answers."""
    lines = ["\\set VERBOSITY verbose", "\\o /dev/null", f"SET statement_timeout = '{STATEMENT_TIMEOUT}';", "SET claims.service_timeout = '50s';"]
    for number, call in enumerate(calls):
        statement = f"{call.function.call(call.values)};"
        lines.append(f"\\warn @{number}")
        if call.function.kind == "p":
            # It ends transactions by itself.
            lines.append(statement)
        elif call.before:
            begin = [] if call.before[0].startswith("BEGIN") else ["BEGIN"]
            lines += [f"{text};" for text in (*begin, *call.before)] + [statement, "ROLLBACK;"]
        else:
            # One message, which is one transaction.
            lines.append(f"{call.function.call(call.values)}\\; ROLLBACK;")
    lines.append(f"\\warn @{len(calls)}")
    script = os.path.join(FOLDER, f"{database}.{role}.sql")
    with open(script, "w") as file:
        file.write("\n".join(lines) + "\n")
    answer = psql(database, "-f", script, role=role).stderr
    current = None
    for line in answer.splitlines():
        if marker := re.fullmatch(r"@(\d+)", line):
            # The one before has been answered: the connection is still there.
            if current and current.answer == "lost":
                current.answer = "00000"
            current = calls[int(marker[1])] if int(marker[1]) < len(calls) else None
        elif current and current.answer == "lost" and (error := re.search(r"(?:ERROR|FATAL|PANIC):  ([0-9A-Z]{5}): (.*)", line)):
            current.answer, current.message = error[1], error[2]
        elif current and "server closed the connection" in line:
            current.answer, current.message = "lost", line


# --- judging --------------------------------------------------------------------------------------------------------


@dataclass
class Rule:
    """A line of the list: which roles succeed in which functions, where, with which arguments, and why."""
    roles: list[str]
    databases: list[str]
    functions: list[str]
    condition: str
    reason: str
    used: bool = False

    def allows(self, database, role, call):
        if role not in self.roles or database not in self.databases or call.function.name not in self.functions:
            return False
        holds = self.condition == "" or eval(self.condition, {"own": CELLS.get(role, [])}, call.named())
        self.used |= holds
        return holds


def rules():
    found = []
    with open(ALLOWED) as file:
        for line in file:
            if line.strip() and not line.startswith("#"):
                roles, databases, names, condition, reason = (part.strip() for part in line.split("|"))
                found.append(Rule(roles.split(), databases.split(), names.split(), condition, reason))
    return found


def problem(database, role, call, listed):
    """Returns the problem with the answer to a call, if there is one."""
    if call.answer == "lost":
        return "the connection was lost"
    if call.answer.startswith("XX"):
        return "an internal error"
    if call.answer == "57014":
        return "it waits"
    if call.answer in ("42883", "42725") and re.search(r"claims\.\S+ (does not exist|is not unique)", call.message):
        return "the campaign calls it wrongly"
    if call.answer != "00000" or role not in UNPRIVILEGED or call.is_answered_by_planner():
        return None
    # A list, so that every rule is asked: each must be used at least once.
    return None if any([rule.allows(database, role, call) for rule in listed]) else "it succeeds, and is not in the list"


def check_values():
    """A value that is none would have a function never called with it."""
    for kind, values in ODD.items():
        for value in values:
            tried = psql("service", "-c", f"SELECT ({value})::{kind}", "-o", "/dev/null")
            if tried.returncode:
                sys.exit(f"FAILED: {value[:100]} is no {kind}: {tried.stderr}")


def main():
    check_values()
    seed = int(os.environ.get("EVERY_SEED", time.time_ns() % 1_000_000))
    print(f"seed {seed} (EVERY_SEED)")
    draw, listed, until = random.Random(seed), rules(), None
    tally, problems, went_through = collections.Counter(), collections.Counter(), set()
    examples = {}
    only = os.environ.get("EVERY_ONLY")
    known = {database: [function for function in functions(database) if only in (None, function.name)] for database in DATABASES}
    may = {(database, role): executable(database, role) for database in DATABASES for role in ROLES}

    def round_of(database, make):
        for role in ROLES:
            if until and time.monotonic() > until:
                return
            calls = [call for function in known[database] for call in make(role, function, function.signature in may[database, role])]
            while calls:
                send(database, role, calls)
                for call in calls:
                    tally[role, call.answer] += 1
                    if call.answer == "00000" and call.is_plausible:
                        went_through.add(call.function.signature)
                    if wrong := problem(database, role, call, listed):
                        key = (wrong, database, role, call.function.name, call.answer)
                        problems[key] += 1
                        examples.setdefault(key, call)
                    if call.answer == "lost":
                        break
                # After a call that lost its connection the next one uses a new connection.
                lost = next((place for place, call in enumerate(calls) if call.answer == "lost"), len(calls))
                calls = calls[lost + 1:]

    def all_databases(make):
        with ThreadPoolExecutor(len(DATABASES)) as pool:
            list(pool.map(lambda database: round_of(database, make), DATABASES))

    def first(role, function, executable):
        if not executable:
            return refused(function, draw)
        # A superuser tries all calls that no other role tries.
        tried = role == "superuser" and any(function.signature in may["cell", other] for other in TRYING)
        return sample(function, draw) if (role in SAMPLED or tried) and SECONDS < LONG else systematic(function)

    all_databases(first)
    systematic_calls = sum(tally.values())
    until = time.monotonic() + SECONDS
    while time.monotonic() < until and not problems:
        all_databases(lambda role, function, executable: [combination(function, draw) for _ in range(3 if executable else 1)])

    print(f"{systematic_calls} systematic calls, {sum(tally.values()) - systematic_calls} combinations")
    for role in ROLES:
        print(f"  {role}: " + ", ".join(f"{answer} {count}" for (of, answer), count in sorted(tally.items()) if of == role))
    for key, count in sorted(problems.items()):
        wrong, database, role, name, answer = key
        print(f"FAILED: {wrong}: {name} as {role} in {database}, {count} times, {answer} {examples[key].message}\n"
              f"    {examples[key].function.call(examples[key].values)[:600]}")
    if only:
        sys.exit(1 if problems else 0)
    stuck = sorted(function.signature for function in known["service"] if function.signature not in went_through and not function.is_trigger)
    declared = {name for rule in listed if rule.roles == ["-"] for name in rule.functions}
    for signature in stuck:
        if not any(signature.startswith(f"claims.{name}(") or signature.startswith(f'claims."{name}"(') for name in declared):
            problems["stuck"] += 1
            print(f"FAILED: no call of {signature} succeeds, so what it does was not tried: values.py gives its arguments")
    names = {function.name for functions in known.values() for function in functions}
    with_cell = {function.name for function in known["cell"] if "cell_id" in dict(function.arguments)}
    for rule in listed:
        for name in rule.functions:
            if name in with_cell and set(rule.roles) & set(CELLS) and "cell_id" not in rule.condition:
                problems["list"] += 1
                print(f"FAILED: the list lets cells call {name} for any cell")
            if name not in names:
                problems["list"] += 1
                print(f"FAILED: the list names {name}, which is no function")
        if not rule.used and rule.roles != ["-"]:
            problems["list"] += 1
            print(f"FAILED: nobody succeeds by this line of the list: {rule}")
    sys.exit(1 if problems else 0)


main()
