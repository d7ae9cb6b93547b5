"""What the measurements once missed: what was wanted, found before, and is found now by the tables of RESULTS.md."""

from typing import NamedTuple

TITLE = "## Missed before, and now"

TEXT = """\
Before: what these sections found on 2026-11-25 or 26. Now: what each found last, on 2026-11-28 or 29, on the machine that its section names: the
numbers to count on. The floor is what the best possible program would find, as the last column says: a better number cannot be had.
"""

CHECKS = "Wanted and found"


class Miss(NamedTuple):
    what: str
    section: str        # whose table of checks has it
    check: str          # the row of that table, without what it says in parentheses at its end; a number that no section finds stands here itself
    wanted: str
    before: str
    floor: object = ""  # the number itself, or (section, caption, row, column) of a table
    why: str = ""       # what the floor is


ROWS, FLEET, WAITING = "Taking claims into use", "A fleet", "Waiting for a name"

MISSES = [
    Miss("`get_record` over a prepared SELECT, 1 client", CHECKS, "1 connections: get_record / prepared SELECT", "0.95", "0.91", lambda results: reader(results, 1),
         "a function that only reads and returns the row, in [instructions](PROFILE.md#a-get_record)"),
    Miss("the same, 8 clients", CHECKS, "8 connections: get_record / prepared SELECT", "0.95", "0.85", lambda results: reader(results, 8), "the same"),
    Miss("25,000 rows in one statement, claimed, over the plain INSERT", ROWS, "25000 rows captured and claimed / the plain INSERT of them", "2.6", "4.49",
         (ROWS, "25000 rows in one statement, ms", None, "floor / plain"), "the rows, and a COPY of as many rows of claims to the service; "
         "[what lies between](PROFILE.md#what-many-rows-two-services-and-many-sessions-cost-at-least)"),
    Miss("500 sessions with at most 50 calls at once over 50 sessions", FLEET, "500 sessions, cap 50 / 50 sessions: saves a second", "0.9", "0.67",
         (FLEET, "500 sessions over 50", None, "the row alone"), "rows without claims, 500 sessions over 50"),
    Miss("500 sessions through 50 places over 50 sessions", FLEET, "500 sessions, 50 places / 50 sessions: saves a second", "0.9", "0.64", "0.83",
         "computed: plain rows, by [as many new processes a second](PROFILE.md#500-sessions-and-50-places); single runs found 0.52 to 0.91"),
    Miss("half of the begins meet a lease: `lease_wait` over the best retry loop", WAITING, "50 % meet a lease: batches a second, lease_wait / retry",
         "1.5", "1.26", lambda results: ratio(results, WAITING, "Eight clients", "5, a perfect queue, simulated", "5, tenacity", "batches"),
         "a perfect queue, simulated, over the retry loop"),
    Miss("a save with names of two services over one", FLEET, "a save with names of two services / of one", "1.3", "1.46",
         (FLEET, "A save of two names, µs", "floor", "ratio"), "a durable row at each of two servers at the same time, over one; "
         "before, [both were one server](PROFILE.md#what-many-rows-two-services-and-many-sessions-cost-at-least)"),
    Miss("change feed on over off, one claim", CHECKS, "change feed, 1 a batch: begin + commit on / off", "1.05", "1.15",
         ("The change feed", "In the server", "1", "floor of on / off"), "the rows of the feed alone, by one statement"),
    Miss("`begin_first`, the tenth of ten is free, over a begin that conflicts", CHECKS,
         "begin_first, the tenth of ten is free, exact / a begin that conflicts", "1.5", "1.77", "1.67",
         "a conflict, nine look-ups, and the taking of a name, in [instructions](PROFILE.md#one-claim-a-conflict-ten-names-and-the-feed)"),
    Miss("among a million over almost empty, 1 a batch", CHECKS, "1 a batch: million / empty table", "1.3", "1.39", "1.29",
         "the rows alone, [in long sessions](#begin-and-commit-in-the-server)"),
    Miss("the same, 1,000 a batch", CHECKS, "1000 a batch: million / empty table", "1.3", "1.45", "1.29",
         "the rows alone, [in long sessions](PROFILE.md#a-batch-of-1000-among-a-million)"),
    Miss("requests a second over pgmq, 1 client", CHECKS, "requests a second, 1 connections: claims / pgmq: read, archive", "1.2", "1.12"),
    Miss("the same, 8 clients", CHECKS, "requests a second, 8 connections: claims / pgmq: read, archive", "1.2", "1.03"),
    Miss("an automatic save over (plain + begin + commit), 8 clients", "A save in a cell", "auto / (plain + begin + commit), 8 clients", "1.0", "1.45", "1.01",
         "the same without any time in the extension's own code, by [a profile](PROFILE.md#an-automatic-save-in-instructions)"),
    Miss("`list_leases` of none over 1.1.0, rate", "", "1.01", "1.0", "0.97"),
    Miss("`check()` over 1.1.0, rate", "", "0.98", "1.0", "0.91", "", "nearly all of the difference is what it checks since then"),
    Miss("`metrics()` over 1.1.0, rate", "", "1.07", "1.0", "0.92", "", "half of its work is metrics that 1.1.0 did not have"),
    Miss("`make demo` and `make test`, two cores, min", "", "29, with the packages there; the demo after 4.3 (9.5 before)", "20, bare", "25 to 36, bare", "27",
         "the processor time of both, 53 min, on two processors"),
    Miss("transfer: prepare and finish of 5,000 of three million names, s", "", "0.3 and 0.3", "by their number", "85 and 40", "",
         "with [the index by subject](../docs/service/transfer.md), 7 and 7 without it"),
]


# Of the instructions that a get_record takes more than the SELECT, thousands: all, and those of a function that only reads the row and returns it.
MORE, READER = 44.2, 31.5


def reader(results, clients):
    """The rate of a function that only reads the row and returns it, over that of the SELECT, if all instructions take as long."""
    now = found(results, CHECKS, f"{clients} connections: get_record / prepared SELECT")
    return now and f"{1 / (1 + READER / MORE * (1 / float(now) - 1)):.2f}"


def ratio(results, section, caption, row, other, column):
    numbers = [results.number(section, caption, each, column) for each in (row, other)]
    return f"{numbers[0] / numbers[1]:.2f}" if all(numbers) else ""


def found(results, section, check):
    """The number that the check's row has in the section's table, or None."""
    for line in results.sections.get(section, "").split("\n"):
        row = [cell.strip() for cell in line.split("|")[1:-1]]
        if len(row) == 4 and f"{row[0]} (".startswith(f"{check} ("):
            return row[1]
    return None


def table(results):
    lines = [TITLE, "", TEXT, "| what | wanted | before | now | floor | what the floor is |", "|---|---:|---:|---:|---:|---|"]
    for miss in MISSES:
        now = found(results, miss.section, miss.check) if miss.section else miss.check
        floor = miss.floor
        if isinstance(floor, tuple):
            floor = results.number(*floor)
            floor = "" if floor is None else f"{floor:.2f}"
        elif callable(floor):
            floor = floor(results)
        if now:
            lines.append(f"| {miss.what} | {miss.wanted} | {miss.before} | {now} | {floor} | {miss.why} |")
    return "\n".join(lines) + "\n"
