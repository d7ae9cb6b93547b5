"""Every error that the code raises has a row in a document, with its SQLSTATE; every row is an error that the code raises."""

import re


# Notices and warnings are no errors. HV000 is a placeholder: src/kernel/error/text.rs completes it by the SQLSTATE of the service.
NO_ERRORS = {"00000", "01000", "HV000"}
# Declares nothing: a cancel that PostgreSQL has raised as a lock timeout.
RAISING = {"crates/pg/src/interrupts.rs"}
# The forms of RAISE whose SQLSTATE and message are read.
READ = r" (?:EXCEPTION USING ERRCODE = (.*?),|WARNING USING) MESSAGE = (?:format\()?'((?:[^']|'')*)'"
# The head of a declaration in `errors!` or of a `text!`: its SQLSTATE, which may be an expression; and the message behind it.
DECLARED = r"(?:=>|\btext!\()\s*(?:(ERRCODE_\w+)|\{(?:[^{}]|\{[^{}]*\})*\})\s*:"
MESSAGE = r"\s*\(?\s*(\"(?:[^\"\\]|\\.)*\")"
# They declare no error: they have the macros, and what these use.
MACROS = {"src/kernel/error/declare.rs", "src/kernel/error/text.rs"}


def declares(path):
    """Whether errors may be declared in this file: in that of a slice, or in src/kernel/error."""
    return path not in MACROS and (path.startswith("src/kernel/error/") or bool(re.fullmatch(r"src/.*/(errors|refused_save)\.rs", path)))


class Condition:
    def __init__(self, place, sqlstate, message):
        self.place = place
        self.sqlstate = sqlstate        # None: whatever the cause had
        self.message = message
        parts = [re.escape(part) for part in re.split(r"\{[^{}]*\}|%s|%I", plain(message))]
        self.pattern = re.compile(".*".join(parts), re.S)


def plain(message):
    return re.sub(r"\s+", " ", message.replace('\\"', "").replace('"', "").replace("`", "")).strip()


def problems(tree, sqlstates):
    conditions = list(_of_rust(tree, sqlstates)) + list(_of_sql(tree))
    rows = list(_rows(tree))
    for condition in conditions:
        if not any(_fits(condition, states, text) for _, _, states, text in rows):
            yield f"{condition.place}: {condition.sqlstate or 'any SQLSTATE'} “{condition.message}”: no document has a row for it"
    for path, line, states, text in rows:
        if not any(_fits(condition, states, text) for condition in conditions):
            yield f"{path}:{line}: {', '.join(states)} “{text}”: nothing raises it"
    overview = {state for line, heading, header, cells in tree.documents["docs/errors.md"].rows
                if header[0] == "SQLSTATE" and heading.startswith("What to do") for state in re.findall(r"\b[0-9A-Z]{5}\b", cells[0])}
    raised = {condition.sqlstate for condition in conditions if condition.sqlstate} | set(_codes(tree, sqlstates))
    for state in sorted(raised - overview - NO_ERRORS):
        yield f"docs/errors.md: {state} has no row in “What to do, by SQLSTATE”"


def _codes(tree, sqlstates):
    """Every SQLSTATE that Rust raises, whatever its message is made of."""
    for path, text in tree.sources.items():
        if declares(path) or path in MACROS | RAISING:
            yield from (sqlstates[code] for code in re.findall(r"\b(ERRCODE_\w+)", text))


def elsewhere(tree):
    """Errors that this check does not read: of Rust in a file that declares none or in another form, and of SQL in another form of RAISE."""
    for path, text in sorted(tree.sources.items()):
        if path.endswith(".rs") and path.startswith(("src/", "crates/pg/src/")) and not declares(path) and path not in MACROS | RAISING:
            pattern, what = r"\bErrorReport::new\(|\b(?:ereport|errors|text)!\s*[({]", "raises an error outside of the files that declare errors"
        elif declares(path):
            pattern, what = rf"{DECLARED}(?!{MESSAGE})|\btext!\((?!\s*(?:ERRCODE_|\{{))|\bErrorReport::new\(", "a message that is not compared with docs/error-messages.md"
        elif is_script(path):
            pattern, what = rf"\bRAISE\b(?!{READ})(?!;)", "RAISE in a form that is not compared with docs/error-messages.md"
        else:
            continue
        for found in re.finditer(pattern, text):
            yield f"{path}:{text[: found.start()].count(chr(10)) + 1}: {what}"


def _fits(condition, states, text):
    return (condition.sqlstate is None or condition.sqlstate in states) and condition.pattern.fullmatch(text)


def _rows(tree):
    """(path, line, SQLSTATEs, message) of each message in a table of errors; Postgres' own messages, and those of Citus, are not ours to know."""
    for path, document in sorted(tree.documents.items()):
        for line, _, header, cells in document.rows:
            if header[:2] != ["SQLSTATE", "message"] or header[2:3] == ["raised by"] and re.search("PostgreSQL|Citus", cells[2]):
                continue
            states = re.findall(r"\b[0-9A-Z]{5}\b", cells[0])
            for message in cells[1].split("; "):
                yield path, line, states, plain(message)


def _of_rust(tree, sqlstates):
    """`ERRCODE_…: "…"` in the declarations of errors."""
    for path, text in sorted(tree.sources.items()):
        if not declares(path):
            continue
        for found in re.finditer(DECLARED + MESSAGE, text):
            code, literal = found.groups()
            place = f"{path}:{text[: found.start()].count(chr(10)) + 1}"
            yield Condition(place, sqlstates[code] if code else None, literal[1:-1])


def is_script(path):
    """Whether this version runs a file of SQL: at CREATE EXTENSION, or at an upgrade."""
    return bool(re.fullmatch(r"sql/(install|upgrade)/.*\.sql|sql/releases/claims--[^/]*--[^/]*\.sql", path))


def _of_sql(tree):
    for path, text in sorted(tree.sources.items()):
        if not is_script(path):
            continue
        for found in re.finditer(rf"\bRAISE{READ}", text):
            place = f"{path}:{text[: found.start()].count(chr(10)) + 1}"
            states = re.findall(r"'([0-9A-Z]{5})'", found.group(1)) if found.group(1) else ["01000"]
            for state in states or [None]:
                yield Condition(place, state, found.group(2).replace("''", "'"))


def violations(tree):
    """Every problem that claims.check() can find has a row in docs/operations.md, and every row is such a problem."""
    text = "".join(tree.sources[f"sql/install/{name}.sql"] for name in ("service/check", "service/check_distributed", "check_database"))
    found = set(re.findall(r"(?:SELECT|problem :=) '([a-z][a-z ,]{15,})'[,;]", text))
    told = {}
    for line, _, header, cells in tree.documents["docs/operations.md"].rows:
        if header[0] == "problem":
            told.update({problem.strip(): line for problem in cells[0].split(";")})
    for problem in sorted(found - set(told)):
        yield f"docs/operations.md: check() can find “{problem}”, which has no row"
    for problem in sorted(set(told) - found):
        yield f"docs/operations.md:{told[problem]}: “{problem}”: check() finds no such thing"
