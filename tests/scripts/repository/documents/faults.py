"""Makes one fault of each kind, and fails if the check does not find it: faults.py ROOT CATALOG ERRCODES."""

import json
import sys

from check import load, problems

# (kind, document, old text, new text, expected report); without an old text the new one is added at the end.
DOCUMENTS = [
    ("a promise in a table", "docs/internals/states-and-locks.md", "| `purge_while_settling` |", "| |", "no test is named for “`purge_outcomes`”"),
    ("a promise", "docs/internals/states-and-locks.md", "transaction (`many_troubles.sql`).", "transaction.", "no test is named for “Crash.”"),
    ("a spec", "docs/service/waiting.md", ", `lease_wait_one_node.spec`", "", "lease_wait_one_node.spec: no document names it"),
    ("a link to a file", "README.md", None, "[x](docs/none.md)", "link to docs/none.md: no such file"),
    ("a link to a heading", "README.md", "(docs/errors.md)", "(docs/errors.md#none)", "link to docs/errors.md#none: no such heading"),
    ("a link to a heading of its own", "docs/operations.md", "(#with-citus)", "(#with-citrus)", "link to #with-citrus: no such heading"),
    ("a link whose text is another file", "README.md", "[`examples/python/claim.py`]", "[examples/python/claims.py]", "link text examples/python/claims.py: no such file"),
    ("a heading that links lead to", "docs/operations.md", "## Leases that stay", "## Stuck leases", "#leases-that-stay: no such heading"),
    ("a file", "docs/internals/architecture.md", None, "`src/service/lease/none.rs`", "src/service/lease/none.rs: no such file"),
    ("a folder", "docs/internals/architecture.md", None, "`src/none/`", "src/none/: no such file"),
    ("a file in a picture", "docs/internals/architecture.md", "src/service/lease/begin.rs", "src/service/lease/start.rs", "src/service/lease/start.rs: no such file"),
    ("a file by its name", "docs/cell/recovery.md", None, "`none_such.sh`", "none_such.sh: no such file"),
    ("a target of make", "CONTRIBUTING.md", "`make test-rust`", "`make test-crates`", "make test-crates: no such target"),
    ("a target of make in a block", "README.md", "make demo ", "make show ", "make show: no such target"),
    ("a function", "README.md", None, "`claims.begin_updates()`", "claims.begin_updates: there is no such object"),
    ("a function in a block", "docs/operations.md", "SELECT claims.purge_outcomes();", "SELECT claims.purge_outcome();", "claims.purge_outcome: there is no such object"),
    ("a function without its schema", "docs/cell/capture.md", None, "`none_such(1)`", "none_such(): there is no such function"),
    ("functions by a pattern", "README.md", None, "`claims.remove_all_*`", "claims.remove_all_*: there is nothing of that name"),
    ("a table", "docs/operations.md", "claims.lease_outcomes", "claims.leases_outcomes", "claims.leases_outcomes: there is no such object"),
    ("a column", "docs/operations.md", None, "`claims.claims.cell_id`", "claims.claims.cell_id: there is no such column"),
    ("a setting", "docs/operations.md", "claims.wait_timeout", "claims.waiting_timeout", "claims.waiting_timeout: there is no such object"),
    ("an argument", "docs/cell/first-steps.md", "correct => true", "corrected => true", "verify(corrected => …): there is no such argument"),
    ("arguments in a table", "docs/reference.md", "`track_lease(lease_uuid)`", "`track_lease(lease)`", "track_lease(lease): its arguments are (lease_uuid)"),
    ("columns in a table", "docs/reference.md", "→ (lease_uuid, verdict)", "→ (lease, verdict)", "judge_leases → (lease, verdict)"),
    ("arguments in a heading", "docs/internals/recovery.md", "## track_lease(lease_uuid)", "## track_lease(lease)", "track_lease(lease): its arguments are"),
    ("who may call", "docs/reference.md", "`track_lease(lease_uuid)` | cell", "`track_lease(lease_uuid)` | monitor", "track_lease: it is for cell"),
    ("a default", "docs/reference.md", "| `claims.max_batch_size` | 2000", "| `claims.max_batch_size` | 1000", "claims.max_batch_size: its default is 2000"),
    ("who may set", "docs/reference.md", "| 2000 | superuser", "| 2000 | everybody", "claims.max_batch_size: it can be set by superuser"),
    ("a statement without a test", "docs/security.md", " (`epochs.sql`)", "", "no test is named for “It can have an epoch"),
    ("a role's right without a test", "docs/security.md", "begin anything, read leases (`grant_read.sql`)", "begin anything, read leases", "no test is named for “begin anything"),
    ("a test", "docs/internals/states-and-locks.md", "(`commit_update.sql`, ", "(`commit_updates`, ", "commit_updates: no such test"),
    ("an environment variable", "CONTRIBUTING.md", "`TEST_JOBS`", "`TEST_TASKS`", "TEST_TASKS: nothing in the code has this name"),
    ("a word of the interface", "docs/errors.md", "`in_flight`", "`in_air`", "in_air: nothing in the code has this name"),
    ("an SQLSTATE", "docs/error-messages.md", "| 23505 | lease uuid … is in use", "| 23503 | lease uuid … is in use", "“lease uuid … is in use”: nothing raises it"),
    ("an SQLSTATE, seen from the code", "docs/error-messages.md", "| 23505 | lease uuid … is in use", "| 23503 | lease uuid … is in use", "“lease uuid {lease} is in use”: no document has a row for it"),
    ("a message", "docs/error-messages.md", "lease … was committed", "lease … has been committed", "“lease {lease} was committed”: no document has a row for it"),
    ("a problem of input", "docs/error-messages.md", "unknown key …", "strange key …", "“unknown key {path}”: no document has a row for it"),
    ("an SQLSTATE of the overview", "docs/errors.md", "| 2F003 | text |", "| 2F004 | text |", "2F003 has no row in"),
    ("what check() finds", "docs/operations.md", "lease is outstanding and settled", "lease is settled twice", "check() can find “lease is outstanding and settled”"),
    ("what check() does not find", "docs/operations.md", "lease is outstanding and settled", "lease is settled twice", "“lease is settled twice”: check() finds no such thing"),
    ("a word that is explained twice", "docs/internals/architecture.md", "| probe | ", "| claim | ", "the glossary has “claim” twice"),
    ("more words than one can learn", "docs/internals/architecture.md", "| probe | ", "| one | x |\n| probe | ", "the glossary has 41 words, more than 40"),
    ("what a version had", "CHANGELOG.md", "`claims.bucket_key`", "`claims.bucket_keys`", "claims.bucket_keys: never was"),
]


def main(root, catalog, errcodes):
    tree, sqlstates = load(root, catalog, errcodes)
    missed = []

    def expect(what, other, report):
        if not any(report in problem for problem in problems(other, sqlstates)):
            missed.append(f"{what}: {report}")

    for what, path, old, new, report in DOCUMENTS:
        text = tree.documents[path].text
        if old is not None and old not in text:
            missed.append(f"{what}: {path} does not have {old}: give the fault another place")
            continue
        expect(what, tree.changed(document=(path, text.replace(old, new) if old else f"{text}\n\n{new}\n")), report)

    # New conditions and links in the code.
    path = "src/holds/errors.rs"
    for what, more, report in (
        ("a condition of Rust", 'Full { what: String } => ERRCODE_DISK_FULL: "{what} is full";', "53100 “{what} is full”: no document has a row for it"),
        ("a condition with arguments", 'text!(ERRCODE_DISK_FULL: ("{} is full", what))', "53100 “{} is full”: no document has a row for it"),
        ("a condition whose SQLSTATE is computed", 'Full { what: String } => { if a { b } else { c } }: "{what} is full";', "any SQLSTATE “{what} is full”: no document has a row for it"),
        ("a condition whose message is computed", "Full { what: String } => ERRCODE_DISK_FULL: { what };", "a message that is not compared"),
        ("a text whose message is computed", "text!({ code }: { what })", "a message that is not compared"),
        ("a report without a declaration", "ErrorReport::new(Code::ERRCODE_DISK_FULL, what)", "a message that is not compared"),
    ):
        expect(what, tree.changed(source=(path, tree.sources[path] + more)), report)
    path = "sql/install/cell/cell.sql"
    more = "RAISE EXCEPTION USING ERRCODE = '53100', MESSAGE = format('\"%s\" is full', a)"
    expect("a condition of SQL", tree.changed(source=(path, tree.sources[path] + more)), "is full”: no document has a row for it")
    more = "RAISE EXCEPTION 'no' USING ERRCODE = '53100'"
    expect("a condition of SQL in another form", tree.changed(source=(path, tree.sources[path] + more)), "RAISE in a form that is not compared")
    path = "src/kernel/error/direct_call.rs"
    expect("an SQLSTATE without a message", tree.changed(source=(path, tree.sources[path] + "refuse(Code::ERRCODE_DISK_FULL, function)")), "docs/errors.md: 53100 has no row")
    path = "src/kernel/access.rs"
    expect("an error elsewhere", tree.changed(source=(path, tree.sources[path] + "ereport!(ERROR, code, text)")), "raises an error outside of the files")
    expect("a declaration elsewhere", tree.changed(source=(path, tree.sources[path] + 'text!(ERRCODE_DISK_FULL: "full")')), "raises an error outside of the files")
    expect("a document that the code names", tree.changed(source=("src/lib.rs", "// docs/none.md")), "src/lib.rs:1: docs/none.md: no such file")
    expect("a heading that the code names", tree.changed(source=("src/lib.rs", "// docs/errors.md#none")), "src/lib.rs:1: docs/errors.md#none: no such heading")

    expect("a file that the code names", tree.changed(source=("src/lib.rs", "// See src/none.rs.")), "src/lib.rs:1: src/none.rs: no such file")

    # New objects in the catalog.
    unheard_of = [{"name": "unheard_of", "arguments": [], "columns": [], "audience": "cell", "internal": False}]
    expect("a function", tree.changed(functions={**tree.functions, "unheard_of": unheard_of}), "function claims.unheard_of: no document names it")
    relations = {**tree.relations, "unheard_of": {"kind": "v", "columns": []}}
    expect("a view", tree.changed(relations=relations), "claims.unheard_of: no document names it")
    settings = {**tree.settings, "claims.unheard_of": {"context": "user", "value": "1"}}
    expect("a setting", tree.changed(settings=settings), "setting claims.unheard_of has no row")
    other = tree.changed(comments=["As claims.begin_updates() does.", "As begin_updates() does."])
    expect("a comment", other, "claims.begin_updates: there is no such object")
    expect("a comment without the schema", other, "begin_updates(): there is no such function")

    print("\n".join(f"not found: {what}" for what in missed))
    return bool(missed)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:4]))
