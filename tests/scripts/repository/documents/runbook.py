"""The commands of docs/runbook.md and docs/rollout.md, each with the step that it belongs to, and where and by whom it is executed.

    runbook.py ROOT DOCUMENT SECTION STEP   prints a line for each: PLACE, ROLE and the command, with tabs between
    runbook.py ROOT DOCUMENT                the same lines for the whole document

A step is `Look`, `Act`, `Act 3`, `Check`. SECTION is a heading.
"""

import re
import sys

PLACES = {"service", "cell"}
# The role of the setup that docs/cell/first-steps.md makes.
ROLES = {"monitor": "monitor", "administrator": "claims_admin", "application": "app", "superuser": "postgres"}
WHO = rf"\((?:({'|'.join(PLACES)}), )?({'|'.join(ROLES)})\)"
COMMAND = re.compile(r"(?:SELECT|SHOW|SET|ALTER|CREATE|DROP|GRANT|UPDATE|DELETE|VACUUM|ANALYZE|CALL|COMMIT|ROLLBACK)\b.*;$", re.S)


class Command:
    def __init__(self, where, section, step, place, role, sql):
        self.where, self.section, self.step = where, section, step
        self.place, self.role, self.sql = place, role, sql

    def __str__(self):
        return f"{self.where}: {self.section}, {self.step} ({self.place}, {self.role}): {self.sql}"


def commands(text, document="docs/runbook.md"):
    """All commands, in their order. ValueError: nothing says where and by whom one is executed."""
    section, label, default = "", "", None
    for start, paragraph in _paragraphs(text, document):
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
            where = f"{document}:{start + paragraph[: span.start()].count(chr(10))}"
            who = re.match(rf"\s{WHO}", paragraph[span.end() :])
            if not who and not default:
                raise ValueError(f"{where}: nothing says where and by whom this is executed: {sql}")
            place, role = who.groups() if who else default
            place = place or (default or (None, None))[0]
            if not place:
                raise ValueError(f"{where}: nothing says where this is executed: {sql}")
            yield Command(where, section, f"{label} {number}".strip(), place, ROLES[role], sql)


def _paragraphs(text, document):
    """(line, text) of headings, paragraphs and list items, without the marks of lists; tables and blocks have no commands."""
    found, fenced = [], False
    for number, line in enumerate(text.split("\n"), 1):
        if line.startswith("```"):
            fenced = not fenced
            if line == "```sql":
                raise ValueError(f"{document}:{number}: commands stand in code spans, where they can be executed by whom the text says")
        line = line.strip()
        new = re.match(r"#|\*\*|\d+\. |- ", line)
        if fenced or not line or line.startswith("|") or new:
            if found:
                yield found[0][0], "\n".join(part for _, part in found)
            found = []
        if not fenced and line and not line.startswith(("|", "```")):
            found.append((number, line.removeprefix("- ")))
    if found:
        yield found[0][0], "\n".join(part for _, part in found)


def load(root, document="docs/runbook.md"):
    with open(f"{root}/{document}", encoding="utf-8") as file:
        return list(commands(file.read(), document))


def main(root, document, section=None, step=None):
    found = [command for command in load(root, document) if section is None or (command.section, command.step) == (section, step)]
    if not found:
        sys.exit(f"{document}: no command in {section!r}, {step!r}")
    for command in found:
        print(command.place, command.role, command.sql, sep="\t")


if __name__ == "__main__":
    main(*sys.argv[1:])
