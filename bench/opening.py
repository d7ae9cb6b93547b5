#!/usr/bin/env python3
"""Writes the opening of RESULTS.md, and its plot, from the tables of RESULTS.md: what a user asks, what it would be without this extension, and what
was missed before.

    opening.py              writes both anew; it measures nothing
    opening.py FILE         prints the opening that the tables of FILE call for, if FILE has another one

run.py calls renew() whenever it has written tables. A row whose numbers are not there is left out."""

import re
import sys
from pathlib import Path

import misses

HERE = Path(__file__).resolve().parent
PLOT = HERE / "results.svg"
TITLE = "## What a user asks"
NEXT = "## Wanted and found"

TEXT = """\
Times without a network, in µs, medians of one client. *Without* is what one would have otherwise, as the last column says. Where the service is `r` away,
add `r` for each transaction there: one for a save in automatic mode, two for begin and commit, one for a look-up. The tables below have each number,
its machine and its day.

![µs with and without claims](results.svg)
"""

LETTERS = """\
In all tables **a** is this extension, **b** the same protocol written literally in PL/pgSQL functions, **c** its statements sent by the client, and
**d** the floor: two durable transactions with an INSERT of one row each. `a / b` is a's time divided by b's, or its leases a second by b's.
"""


def cells(line):
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


class Results:
    """The tables of RESULTS.md."""

    def __init__(self, text):
        self.sections = {part.split("\n", 1)[0]: part for part in text.split("\n## ")[1:]}

    def number(self, section, caption, row, column):
        """The number in the table with this caption, or None. A row is named by the text of its first column; None: the first row."""
        found = re.search(rf"^{re.escape(caption)}[^\n]*:\n\n((?:\|.*\n?)+)", self.sections.get(section, ""), re.M)
        if not found:
            return None
        header, _, *rows = map(cells, found.group(1).strip().split("\n"))
        for line in rows:
            if column in header and (row is None or line[0].replace(",", "") == row.replace(",", "")):
                return float(line[header.index(column)].replace(",", ""))
        return None


def times(results):
    """(question, µs with claims, µs without, what without is)."""
    per = lambda second: second and 1e6 / second
    save = lambda way: 1000 * (results.number("A save in a cell", "Milliseconds a save", "1", way) or 0)
    lease = lambda way: per(results.number("End to end", "Million table, leases a second", "1 / 1", way))
    read = lambda way: per(results.number("Reading", "Reads a second", "1", way))
    bulk = lambda way: 1000 / 25_000 * (results.number("Taking claims into use", "25000 rows in one statement, ms", None, way) or 0)
    return [
        ("a save of a new name, automatic mode", save("auto"), save("plain"), "the row alone"),
        ("a save of a new name, in one database", save("here"), save("plain, one database"), "the row alone"),
        ("begin and commit, among a million names", lease("a"), lease("b"), "PL/pgSQL functions (b)"),
        ("begin and commit, among a million names", lease("a"), lease("d"), "two durable INSERTs (d)"),
        ("a row of a statement with 25,000", bulk("captured and claimed"), bulk("plain"), "the row alone"),
        ("a look-up, `get_record`", read("get_record"), read("prepared SELECT"), "a prepared SELECT of the row"),
    ]


def opening(text):
    results = Results(text)
    rows = [row for row in times(results) if row[1] and row[2]]
    lines = ["| what | µs | without | times | without is |", "|---|---:|---:|---:|---|"]
    lines += [f"| {what} | {here:.0f} | {other:.0f} | {here / other:.1f} | {name} |" for what, here, other, name in rows]
    imported = results.number("Taking claims into use", "The import of 2000000 rows", None, "rows a second")
    if imported:
        lines.append(f"| import of a row from before | {1e6 / imported:.1f} | | | {imported:.0f} rows a second, while the application saves |")
    verified = [results.number("Verification", "Seconds and rows", row, "seconds") for row in ("all in order", "the plain way")]
    if all(verified):
        lines.append("| comparing a row with its claim, a million in order | {:.2f} | {:.2f} | {:.1f} | listing all claims |".format(
            *verified, verified[0] / verified[1]))
    size = [results.number("Size", "Bytes a claim", "10000000", column) for column in ("table", "names", "sources")]
    if all(size):
        lines.append(f"| bytes a name, table and indexes | {sum(size):.0f} bytes | | | among ten million |")
    return "\n".join([TITLE, "", TEXT, *lines, "", LETTERS, misses.table(results)]), rows


def plot(rows):
    """Two bars for each question, on one scale."""
    left, width, high, longest = 290, 700, 46, max(max(row[1:3]) for row in rows)
    bar = lambda y, value, color, label: (
        f'<rect x="{left}" y="{y}" width="{value / longest * (width - 220):.0f}" height="16" fill="{color}"/>'
        f'<text x="{left + value / longest * (width - 220) + 6:.0f}" y="{y + 13}">{label}</text>')
    lines = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{left + width}" height="{len(rows) * high + 40}" font-family="sans-serif" font-size="13">',
             '<rect width="100%" height="100%" fill="white"/>']
    for number, (what, here, other, name) in enumerate(rows):
        y = 12 + number * high
        lines += [f'<text x="{left - 10}" y="{y + 21}" text-anchor="end">{what.replace("`", "")}</text>',
                  bar(y, here, "#336791", f"{here:.0f} µs"), bar(y + 17, other, "#b8c9d9", f"{other:.0f} µs: {name}")]
    lines += [f'<text x="{left}" y="{len(rows) * high + 28}" fill="#555">dark: with claims; light: without; without a network</text>', "</svg>"]
    return "\n".join(lines) + "\n"


def renewed(text):
    """Returns the text of RESULTS.md with the opening that its tables call for."""
    head, rest = text.split(f"\n{NEXT}\n", 1)
    head = head.split(f"\n{TITLE}\n")[0].rstrip("\n")
    return f"{head}\n\n{opening(text)[0]}\n{NEXT}\n{rest}"


def renew(path):
    text = path.read_text(encoding="utf-8")
    path.write_text(renewed(text), encoding="utf-8")
    rows = opening(text)[1]
    if rows:
        PLOT.write_text(plot(rows), encoding="utf-8")


def main(path=None):
    if path is None:
        renew(HERE / "RESULTS.md")
        return
    text = Path(path).read_text(encoding="utf-8")
    if renewed(text) != text:
        print(opening(text)[0])
    if opening(text)[1] and plot(opening(text)[1]) != PLOT.read_text(encoding="utf-8"):
        print("results.svg is another plot")


if __name__ == "__main__":
    main(*sys.argv[1:])
