"""What the measurements once missed: what was wanted, found before, and is found now by the tables of RESULTS.md."""

from typing import NamedTuple

TITLE = "## Missed before, and now"

TEXT = """\
Before: what these sections found on 2026-11-25 or 26, or, where a row names another way, what that found. The floor is what the best possible
program would find, as the last column says; a wanted number below it cannot be had.
"""

CHECKS = "Wanted and found"


class Miss(NamedTuple):
    what: str
    section: str        # whose table of checks has it
    check: str          # the row of that table; a number that no section finds stands here itself
    wanted: str
    before: str
    floor: str = ""     # a row of the same table, or the number itself
    why: str = ""       # what the floor is


MISSES = [
    Miss("`get_record` over a prepared SELECT, 1 client", CHECKS, "1 connections: get_record / prepared SELECT", "0.95", "0.91", "0.94",
         "a function that only reads and returns the row, in [instructions](PROFILE.md#a-get_record)"),
    Miss("the same, 8 clients", CHECKS, "8 connections: get_record / prepared SELECT", "0.95", "0.85"),
    Miss("25,000 rows in one statement, claimed, over the plain INSERT", "Taking claims into use",
         "25000 rows captured and claimed / the plain INSERT of them", "2.6", "4.49"),
    Miss("500 sessions with at most 50 calls at once over 50 sessions", "A fleet", "500 sessions, cap 50 / 50 sessions: saves a second", "0.9", "0.67"),
    Miss("500 sessions through 50 places over 50 sessions", "A fleet", "500 sessions, 50 places / 50 sessions: saves a second", "0.9", "0.64"),
    Miss("half of the begins meet a lease: `lease_wait` over the best retry loop", "Waiting for a name",
         "50 % meet a lease: batches a second, lease_wait / retry", "1.5", "1.26"),
    Miss("a save with names of two services over one", "A fleet", "a save with names of two services / of one", "1.3", "1.46"),
    Miss("change feed on over off, one claim", CHECKS, "change feed, 1 a batch: begin + commit on / off", "1.05", "1.15"),
    Miss("`begin_first`, the tenth of ten is free, over a begin that conflicts", CHECKS,
         "begin_first, the tenth of ten is free, exact / a begin that conflicts", "1.5", "1.77"),
    Miss("among a million over almost empty, 1 a batch", CHECKS, "1 a batch: million / empty table", "1.3", "1.39"),
    Miss("the same, 1,000 a batch", CHECKS, "1000 a batch: million / empty table", "1.3", "1.45"),
    Miss("requests a second over pgmq, 1 client", CHECKS, "requests a second, 1 connections: claims / pgmq: read, archive", "1.2", "1.12"),
    Miss("the same, 8 clients", CHECKS, "requests a second, 8 connections: claims / pgmq: read, archive", "1.2", "1.03"),
    Miss("an automatic save over (plain + begin + commit), 8 clients", "A save in a cell", "auto / (plain + begin + commit), 8 clients", "1.0", "1.45"),
    Miss("`list_leases` of none over 1.1.0", "", "0.97", "1.0", "0.97"),
    Miss("`check()` over 1.1.0", "", "0.91", "1.0", "0.91"),
    Miss("`metrics()` over 1.1.0", "", "0.92", "1.0", "0.92"),
    Miss("`make demo` and `make test`, bare machine, two cores, min", "", "32", "20", "25 to 36"),
    Miss("transfer: prepare and finish of 5,000 of three million names, s", "", "0.3 and 0.3", "by their number", "85 and 40", "",
         "with [the index by subject](../docs/service/transfer.md), 7 and 7 without it"),
]


def found(results, section, check):
    """The number that the check's row has in the section's table, or None."""
    for line in results.sections.get(section, "").split("\n"):
        row = [cell.strip() for cell in line.split("|")[1:-1]]
        if len(row) == 4 and row[0] == check:
            return row[1]
    return None


def table(results):
    lines = [TITLE, "", TEXT, "| what | wanted | before | now | floor | what the floor is |", "|---|---:|---:|---:|---:|---|"]
    for miss in MISSES:
        now, floor = (number and found(results, miss.section, number) or number for number in (miss.check, miss.floor))
        if not miss.section or now != miss.check:
            lines.append(f"| {miss.what} | {miss.wanted} | {miss.before} | {now} | {floor} | {miss.why} |")
    return "\n".join(lines) + "\n"
