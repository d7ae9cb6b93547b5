"""The commands of docs/runbook.md, each with the step that it belongs to, and where and by whom it is executed.

    runbook.py ROOT SECTION STEP        prints a line for each: PLACE, ROLE and the command, with tabs between

A step is `Look`, `Act`, `Act 3`, `Check`. SECTION is a heading.
"""

import re
import sys

PLACES = {"service", "cell"}
# The role of the setup that docs/cell/first-steps.md makes.
ROLES = {"monitor": "monitor", "administrator": "claims_admin", "application": "app", "superuser": "postgres"}
WHO = rf"\((?:({'|'.join(PLACES)}), )?({'|'.join(ROLES)})\)"
COMMAND = re.compile(r"(?:SELECT|SHOW|SET|ALTER|CREATE|DROP|GRANT|UPDATE|DELETE|VACUUM|ANALYZE|COMMIT|ROLLBACK)\b.*;$", re.S)


class Command:
    def __init__(self, line, section, step, place, role, sql):
        self.line, self.section, self.step = line, section, step
        self.place, self.role, self.sql = place, role, sql

    def __str__(self):
        return f"docs/runbook.md:{self.line}: {self.section}, {self.step} ({self.place}, {self.role}): {self.sql}"


def commands(text):
    """All commands, in their order. ValueError: nothing says where and by whom one is executed."""
    section, label, default = "", "", None
    for start, paragraph in _paragraphs(text):
        if paragraph.startswith("#"):
            section, label, default = paragraph.lstrip("# "), "", None
            continue
        begin = re.match(rf"\*\*(\w+)\*\*(?: {WHO})?|\*\*(\w+)\.\*\*", paragraph)
        if begin:
            label = begin.group(1) or begin.group(4)
            default = (begin.group(2), begin.group(3)) if begin.group(3) else None
        item = re.match(r"(\d+)\. ", paragraph)
        number = item.group(1) if item else ""
        for span in re.finditer(r"(?<!`)`([^`]+)`(?!`)", paragraph):
            sql = " ".join(span.group(1).split())
            if not label or not COMMAND.match(sql):
                continue
            line = start + paragraph[: span.start()].count("\n")
            who = re.match(rf"\s{WHO}", paragraph[span.end() :])
            if not who and not default:
                raise ValueError(f"docs/runbook.md:{line}: nothing says where and by whom this is executed: {sql}")
            place, role = who.groups() if who else default
            place = place or (default or (None, None))[0]
            if not place:
                raise ValueError(f"docs/runbook.md:{line}: nothing says where this is executed: {sql}")
            yield Command(line, section, f"{label} {number}".strip(), place, ROLES[role], sql)


def _paragraphs(text):
    """(line, text) of headings, paragraphs and list items; tables and blocks have no commands."""
    found, fenced = [], False
    for number, line in enumerate(text.split("\n"), 1):
        if line.startswith("```"):
            fenced = not fenced
            if line == "```sql":
                raise ValueError(f"docs/runbook.md:{number}: commands stand in code spans, where they can be executed by whom the text says")
        new = re.match(r"#|\*\*|\d+\. |- ", line)
        if fenced or not line.strip() or line.startswith("|") or new:
            if found:
                yield found[0][0], "\n".join(part for _, part in found)
            found = []
        if not fenced and line.strip() and not line.startswith(("|", "```")):
            found.append((number, line))
    if found:
        yield found[0][0], "\n".join(part for _, part in found)


def load(root):
    with open(f"{root}/docs/runbook.md", encoding="utf-8") as file:
        return list(commands(file.read()))


def main(root, section, step):
    found = [command for command in load(root) if command.section == section and command.step == step]
    if not found:
        sys.exit(f"docs/runbook.md: no command in {section!r}, {step!r}")
    for command in found:
        print(command.place, command.role, command.sql, sep="\t")


if __name__ == "__main__":
    main(*sys.argv[1:])
