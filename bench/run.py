#!/usr/bin/env python3
"""make bench: measure, print, and write RESULTS.md. Names of sections as arguments run only those, and renew only their parts.

A section is a module in sections/ with run(), which returns a lib.Section. Add it to SECTIONS. One that makes all its databases
itself says OWN_DATABASES = True: alone it does not wait for the others'. Those in APART take long and share nothing with the others:
each runs by its name alone, and writes its own part of RESULTS.md, which whole runs leave there."""

import datetime
import importlib
import os
import sys
from pathlib import Path

from lib import HERE, LOADED, QUICK, markdown_table, psql, say
import opening
import workload

SECTIONS = ["in_server", "end_to_end", "changes", "reads", "conflict", "snapshot", "verification", "requests",
            "names", "counters"]
APART = ["cell_save", "rollout", "fleet", "contention", "size", "fillfactor", "distributed", "transfer", "histories", "one_database", "distance", "footprint"]
RESULTS = HERE / "RESULTS.md"
VERDICTS = "## Wanted and found"


def machine():
    cpu = next((line.split(":", 1)[1].strip() for line in Path("/proc/cpuinfo").read_text().splitlines()
                if line.startswith("model name")), "unknown processor")
    memory = int(Path("/proc/meminfo").read_text().split()[1]) / 2**20
    version = " ".join(psql("postgres", "SELECT version()").split()[:2])
    settings = ", ".join(psql("postgres", f"SELECT string_agg('{name} ' || current_setting('{name}'), '')")
                         for name in ("fsync", "synchronous_commit", "shared_buffers", "max_wal_size"))
    return (f"{os.cpu_count()} cores ({cpu}), {memory:.0f} GB of memory, Linux {os.uname().release.split('-')[0]}; "
            f"{version} with {settings}; clients on the same machine, through a unix socket; "
            f"{datetime.date.today()}.")


def report(sections, checks):
    parts = ["# Measurements", "", "Written by `make bench`. " + machine()]
    if QUICK:
        parts += ["", f"A short look (BENCH_QUICK): few rounds, and the \"million\" table holds {LOADED} claims."]
    parts += ["", *verdicts(checks)]
    for section in sections:
        parts += ["", *described(section)]
    return "\n".join(parts) + "\n"


def verdicts(checks):
    """The lines of what was wanted and found."""
    missed = [check for check in checks if not check[3]]
    return [VERDICTS, "",
            f"{len(checks) - len(missed)} of {len(checks)} met. Sections that run by themselves ({', '.join(APART)}) have such tables of their own.",
            *(f"- Missed: {c[0]} is {c[1]}, wanted {c[2]}." for c in missed),
            "", wanted_and_found(checks)]


def described(section, *more):
    """The lines of one section."""
    lines = [f"## {section.title}", "", section.text, *more]
    for caption, header, rows in section.tables:
        lines += ["", f"{caption[0].upper()}{caption[1:]}:", "", markdown_table(header, rows)]
    return lines


def wanted_and_found(checks):
    return markdown_table(["what", "found", "wanted", ""], [[*check[:3], "ok" if check[3] else "MISSED"] for check in checks])


def part_of_results(title):
    """Returns the part of RESULTS.md under this title, if there is one."""
    parts = RESULTS.read_text().split("\n## ")[1:] if RESULTS.exists() else []
    return next((f"\n## {part.rstrip()}\n" for part in parts if part.startswith(f"{title}\n")), "")


def write_apart(section):
    """Puts the section in the place of its former self, or at the end."""
    text = "\n" + "\n".join(described(section, "", machine(), "", wanted_and_found(section.checks))) + "\n"
    results, former = RESULTS.read_text(), part_of_results(section.title)
    RESULTS.write_text(results.replace(former, text) if former else results.rstrip() + "\n" + text)
    opening.renew(RESULTS)
    say(f"written to bench/RESULTS.md: {section.title}")


def write_some(sections):
    """Puts sections in the place of their former selves, each with its machine and day, and their checks among those of the others."""
    text, checks = RESULTS.read_text(), []
    former = part_of_results(VERDICTS.removeprefix("## "))
    for line in former.split("\n"):
        row = [cell.strip() for cell in line.split("|")[1:-1]]
        if row and row[0] != "what" and not row[0].startswith("---"):
            checks.append((*row[:3], row[3] == "ok"))
    for section in sections:
        text = text.replace(part_of_results(section.title), "\n" + "\n".join(described(section, "", machine())) + "\n")
        names = {check[0] for check in section.checks}
        place = next((at for at, check in enumerate(checks) if check[0] in names), len(checks))
        checks = [check for check in checks[:place] if check[0] not in names] + section.checks + [
            check for check in checks[place:] if check[0] not in names]
    RESULTS.write_text(text.replace(former, "\n" + "\n".join(verdicts(checks)) + "\n"))
    opening.renew(RESULTS)
    say(f"written to bench/RESULTS.md: {', '.join(section.title for section in sections)}")


def main():
    names = sys.argv[1:] or SECTIONS
    if len(names) > 1 and set(names) & set(APART):
        raise SystemExit(f"each of {APART} runs alone")
    modules = [importlib.import_module(f"sections.{name}") for name in names]
    shared = not all(getattr(module, "OWN_DATABASES", False) for module in modules)
    if shared:
        workload.make_all()
    sections = [module.run() for module in modules]
    checks = [check for section in sections for check in section.checks]
    violations = [psql(database, "SELECT count(*) FROM claims.check()") for database in ("empty", "million") if shared]
    if any(found != "0" for found in violations):
        raise RuntimeError(f"claims.check() found violations afterwards: {violations}")
    text = report(sections, checks)
    print(text)
    if names[0] in APART and not QUICK and sections[0].tables:
        write_apart(sections[0])
    elif QUICK or not all(section.tables for section in sections):
        say("nothing written: RESULTS.md is for whole runs")
    elif sys.argv[1:]:
        write_some(sections)
    else:
        RESULTS.write_text(text + "".join(part_of_results(importlib.import_module(f"sections.{name}").TITLE) for name in APART))
        opening.renew(RESULTS)
        say("written to bench/RESULTS.md")


if __name__ == "__main__":
    main()
