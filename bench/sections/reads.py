"""get_record against a prepared SELECT by the unique key."""

from lib import CONNECTIONS, LOADED, QUICK, Section, in_turns, median, pgbench, ratio_of, say

# A difference of a few hundredths needs many rounds.
ROUNDS = 2 if QUICK else 15
SECONDS = 1 if QUICK else 2
NAME = f"\\set g random(1, {LOADED // 1000}) * 1000000\n\\set i random(1, 1000)\n"
GET_RECORD = NAME + "SELECT * FROM claims.get_record('ROUTES', :g || '/p' || :i);\n"
# The table of the literal protocol: its unique key is the plain columns, what a person would write without the extension.
SELECT = NAME + "SELECT * FROM literal.claims WHERE bucket_type = 1 AND bucket_value = :g || '/p' || :i;\n"

SIDES = {"get_record": GET_RECORD, "prepared SELECT": SELECT}


def run():
    section = Section("Reading", "Reads a second with pgbench (-M prepared) among a million claims; medians, and the median of the ratios of the rounds.")
    rows = []
    for clients in CONNECTIONS:
        say(f"reading, {clients} connections")
        found = in_turns(SIDES, ROUNDS, lambda side, _: pgbench("million", SIDES[side], clients, seconds=SECONDS))
        ratio = ratio_of(found, *SIDES)
        rows.append([clients, *(f"{median(found[side]):.0f}" for side in SIDES), f"{ratio:.2f}"])
        section.at_least(f"{clients} connections: get_record / prepared SELECT", ratio, 0.95)
    section.tables.append(("reads a second", ["connections", *SIDES, "ratio"], rows))
    return section
