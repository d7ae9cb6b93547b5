"""Executes every command of docs/runbook.md as the role named there: runbook_commands.py ROOT PLACES [SECTION...]

PLACES is a JSON file with the addresses of the service and the two cells of docs/cell/first-steps.md. SETUP makes the trouble that a section is about.
FILL replaces the placeholders that a reader replaces. BEFORE has the steps that the text describes between two commands. An error or a warning is a
failure; so is a command that does nothing although there is something to do (WANTED). With SECTION, only these sections are executed, from a document
on the standard input.
"""

import json
import re
import subprocess
import sys

sys.path.insert(0, f"{sys.argv[1]}/tests/scripts/repository/documents")
import runbook  # noqa: E402

PLACES = json.load(open(sys.argv[2], encoding="utf-8"))
# The lease and the transfers that commands name as '…'.
LEASE = "00000000-0000-4000-8000-000000000077"
MOVED, GIVEN_UP = ("00000000-0000-4000-8000-00000000000a", "00000000-0000-4000-8000-00000000000b")
BATCH = '[{"bucket": {"type": "ROUTES", "value": "%s"}, "subject": {"type": "GROUP", "id": 1}, "source": {"type": "RAILS_TABLE_ROUTES", "id": 1}}]'
# The session that pg_terminate_backend ends.
STAYS = "(SELECT pid FROM pg_stat_activity WHERE application_name = 'stays')"


def prepared(place, role, *names):
    return [(place, role, f"BEGIN; SELECT pg_current_xact_id(); PREPARE TRANSACTION '{name}'") for name in names]


def slot(name):
    return ("service", "postgres", f"SELECT pg_create_physical_replication_slot('{name}')")


def lease(name):
    return ("service", "cell_1", f"SELECT claims.begin_update(1, '{BATCH % name}', lease_uuid => '{LEASE}')")


# Steps before a section.
SETUP = {
    "Saves fail with 55P03": [lease("held"), ("service", "cell_1", "STAYS"), *prepared("service", "cell_1", "to-roll-back")],
    "Saves fail with 55000, in mode …": [("service", "claims_admin", "SELECT claims.set_mode('settle_only', 'test'), claims.set_mode('read_only', 'test', 1)")],
    "A lease is stuck": [("cell", "app", "STAYS"), *prepared("cell", "app", "to-commit", "to-roll-back")],
    "A clock has jumped": [("service", "claims_admin", "SELECT claims.add_expiring('kind', '{key}')"),
                           ("service", "postgres", "UPDATE claims.claims SET updated_at = now() + interval '1 day' WHERE bucket_value = 'gitlab-org'; "
                            "UPDATE claims.pass_log SET ended_at = now() + interval '1 day' WHERE id = (SELECT id FROM claims.pass_log LIMIT 1)")],
    "A snapshot is held": [("service", "cell_1", "STAYS"), *prepared("service", "cell_1", "to-commit", "to-roll-back"), slot("unused")],
    "The change feed is held": [("service", "cell_1", "STAYS"), *prepared("service", "cell_1", "to-roll-back")],
    "The service's disk is full": [slot("unused")],
    "A customer moves": [("cell", "app", "INSERT INTO routes (namespace_id, path) VALUES (9970, 'moves')")],
    "A leaked password": [("service", "cell_1", "STAYS"), *prepared("service", "cell_1", "to-roll-back")],
    "An upgrade is half done": [("cell", "postgres", "CREATE EXTENSION dblink; CREATE SERVER warehouse FOREIGN DATA WRAPPER dblink_fdw OPTIONS (host '127.0.0.1'); GRANT USAGE ON FOREIGN SERVER warehouse TO claims_owner")],
}
# Steps after a section, which undo changes that later sections do not expect.
CLEANUP = {
    "Saves fail with 53400": [("service", "claims_admin", "SELECT claims.set_cell_limits(1, 'over')")],
    "Another database acts as the cell": [("cell", "app", "SELECT claims.attend(1, 'claims_service')")],
    "A customer moves": [("service", "claims_admin", "SELECT claims.set_mode('open', 'over', 1)")],
    "A cell hammers": [("service", "claims_admin", "SELECT claims.set_mode('open', 'over', 1)")],
    "Saves fail with 55000, in mode …": [("service", "claims_admin", "SELECT claims.set_mode('open', 'over', 1), claims.set_mode('open', 'over')")],
}
# Steps before a command.
BEFORE = {
    "SELECT * FROM claims.finish_transfer(": [("service", "claims_admin", f"SELECT claims.switch_transfer('{MOVED}', 'right after all')")],
    "SELECT * FROM claims.cancel_transfer(": [
        ("service", "cell_1", f"SELECT claims.commit_update(1, claims.begin_update(1, '{BATCH % 'stays'}'))"),
        ("service", "claims_admin", f"""SELECT * FROM claims.prepare_transfer('{GIVEN_UP}', 1, 2, '[{{"type": "GROUP", "ids": [1]}}]', 'by mistake', '5 s')""")],
}
# The beginning of a command, the placeholder, and its value; the first line that fits counts.
FILL = [
    ("SELECT pg_terminate_backend(4711)", "4711", STAYS),
    ("COMMIT PREPARED", "…", "to-commit"),
    ("ROLLBACK PREPARED", "…", "to-roll-back"),
    ("SELECT pg_drop_replication_slot", "…", "unused"),
    ("SELECT * FROM claims.cancel_transfer", "…", GIVEN_UP),
    ("SELECT * FROM claims.prepare_transfer", "…", MOVED),
    ("SELECT claims.switch_transfer", "…", MOVED),
    ("SELECT claims.reverse_transfer", "…", MOVED),
    ("SELECT * FROM claims.finish_transfer", "…", MOVED),
    ("CREATE ROLE", "…", PLACES["password"]),
    ("CREATE USER MAPPING", "/etc/postgresql/claims/passfile", f"{PLACES['secrets']}/cell1/passfile"),
    # There is one service here.
    ("ALTER SERVER", "shared.staging.example", "shared.example"),
    ("SELECT", "…", LEASE),
]
# The output of commands that say whether they have done anything.
WANTED = [
    ("SELECT pg_terminate_backend(4711)", "t"),
    ("SELECT claims.force_rollback(1, '…'", r".*held.*"),
    ("SELECT * FROM claims.prepare_transfer", r".*\|t.*"),
    ("SELECT * FROM claims.cancel_transfer", r".*\|t.*"),
    ("SELECT * FROM claims.finish_transfer", r".*\|t.*"),
    ("SELECT claims.retry_requests", "0"),
]
# Sections that destroy what all others need.
LAST = ["A cell is gone for good"]
# A command that hangs fails.
SETTINGS = "-c statement_timeout=120s -c idle_in_transaction_session_timeout=120s"

staying = []


def psql(place, role, sql, **options):
    environment = {"PATH": PLACES["path"], "PGUSER": role, "PGOPTIONS": SETTINGS, "LC_ALL": "C", **PLACES[place]}
    if role == "cell_1" and place == "service":
        environment.update(PGHOST="127.0.0.1", PGPASSWORD=PLACES["password"])
    return subprocess.run(["psql", "-XqAt", "-v", "ON_ERROR_STOP=1", "-c", sql], env=environment, capture_output=True, text=True, **options)


def stay(place, role):
    """A session that waits until it is ended."""
    environment = {"PATH": PLACES["path"], "PGUSER": role, "PGAPPNAME": "stays", **PLACES[place]}
    if role == "cell_1":
        environment.update(PGHOST="127.0.0.1", PGPASSWORD=PLACES["password"])
    staying.append(subprocess.Popen(["psql", "-Xq"], env=environment, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
    while psql(place, "postgres", f"SELECT count(*) FROM pg_stat_activity WHERE pid = {STAYS}").stdout.strip() != "1":
        if staying[-1].poll() is not None:
            sys.exit(f"{role} cannot connect to {place}")


def do(steps):
    for place, role, sql in steps:
        if sql == "STAYS":
            stay(place, role)
            continue
        done = psql(place, role, sql)
        if done.returncode:
            yield f"the test itself: {place}, {role}: {sql}: {done.stderr}"


def filled_in(sql):
    for beginning, pattern, value in FILL:
        if sql.startswith(beginning) and pattern in sql:
            return sql.replace(pattern, value)
    return sql


def failures(commands):
    by_section = {}
    for command in commands:
        by_section.setdefault(command.section, []).append(command)
    for section in sorted(by_section, key=LAST.__contains__):
        yield from do(SETUP.get(section, []))
        for command in by_section[section]:
            yield from do(next((steps for beginning, steps in BEFORE.items() if command.sql.startswith(beginning)), []))
            done = psql(command.place, command.role, filled_in(command.sql))
            said = " ".join(done.stderr.split())
            if done.returncode or "WARNING" in said:
                yield f"{command}: {said}"
            wanted = next((answer for beginning, answer in WANTED if command.sql.startswith(beginning)), None)
            if wanted and not re.fullmatch(wanted, done.stdout.strip(), re.S):
                yield f"{command}: it answers {done.stdout.strip()!r}"
        yield from do(CLEANUP.get(section, []))


def main():
    if len(sys.argv) > 3:
        commands = [command for command in runbook.commands(sys.stdin.read()) if command.section in sys.argv[3:]]
    else:
        commands = runbook.load(sys.argv[1])
        sections = {command.section for command in commands}
        for name in {*SETUP, *CLEANUP, *LAST} - sections:
            sys.exit(f"docs/runbook.md has no section {name!r} with commands")
        for beginning in [*BEFORE, *(each[0] for each in WANTED)]:
            if not any(command.sql.startswith(beginning) for command in commands):
                sys.exit(f"docs/runbook.md has no command {beginning!r}")
    print("\n".join(failures(commands)))
    for session in staying:
        session.kill()


if __name__ == "__main__":
    try:
        main()
    except ValueError as unclear:
        sys.exit(str(unclear))
