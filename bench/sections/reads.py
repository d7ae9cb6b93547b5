"""get_record against a prepared SELECT by the unique key."""

from lib import CONNECTIONS, LOADED, QUICK, Section, median, pgbench, say

ROUNDS = 2 if QUICK else 5
SECONDS = 1 if QUICK else 2
NAME = f"\\set g random(1, {LOADED // 1000}) * 1000000\n\\set i random(1, 1000)\n"
GET_RECORD = NAME + "SELECT * FROM claims.get_record('ROUTES', :g || '/p' || :i);\n"
# The table of the literal protocol: its unique key is the plain columns, what a person would write without the extension.
SELECT = NAME + "SELECT * FROM literal.claims WHERE bucket_type = 1 AND bucket_value = :g || '/p' || :i;\n"


def run():
    section = Section("Reading", "Reads a second with pgbench (-M prepared) among a million claims, in alternating rounds.")
    rows = []
    for clients in CONNECTIONS:
        say(f"reading, {clients} connections")
        function, select = [], []
        for _ in range(ROUNDS):
            function.append(pgbench("million", GET_RECORD, clients, seconds=SECONDS))
            select.append(pgbench("million", SELECT, clients, seconds=SECONDS))
        ratio = median(function) / median(select)
        rows.append([clients, f"{median(function):.0f}", f"{median(select):.0f}", f"{ratio:.2f}"])
        section.at_least(f"{clients} connections: get_record / prepared SELECT", ratio, 0.95)
    section.tables.append(("reads a second", ["connections", "get_record", "prepared SELECT", "ratio"], rows))
    return section
