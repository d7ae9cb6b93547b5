"""Functions, tables, settings and rights of the code that the documents lack or describe wrongly."""

import re

REFERENCE = "docs/reference.md"
SECURITY = "docs/security.md"
PROMISES = "docs/internals/states-and-locks.md"
# Sections that promise nothing: they explain, and name a test where they state what holds.
WITHOUT_TESTS = {"Security", "What is not defended against", "What an owner of a server may do"}
TRUSTED = "superusers of a cluster"
# The word of the column `who` there for each audience.
WHO = {"all": "everybody", "reader": "reader", "router": "router", "cell": "cell", "worker": "worker", "monitor": "monitor"}


def problems(tree):
    named = set()
    for path, document in tree.documents.items():
        if path == "CHANGELOG.md":
            continue
        for _, text in document.spans():
            named |= set(re.findall(r"\w+", text))
        for _, _, text in document.blocks:
            named |= set(re.findall(r"\w+", text))
        for _, heading in document.headings:
            named |= set(re.findall(r"\w+", heading))
    for name in sorted(tree.functions):
        if name not in named and not all(function["internal"] for function in tree.functions[name]):
            yield f"function claims.{name}: no document names it"
    for name, relation in sorted(tree.relations.items()):
        if relation["kind"] in "rv" and name not in named:
            yield f"claims.{name}: no document names it"
    yield from _settings(tree)
    yield from _security(tree)
    yield from _audiences(tree)
    yield from _promises(tree)
    yield from _specs(tree)


def _promises(tree):
    """Each row of a table, and each paragraph with a title of its own, names a test."""
    document = tree.documents[PROMISES]
    promises = [(line, cells[0], cells[-1] if header[-1] == "test" else "") for line, _, header, cells in document.rows]
    promises += [(line, text.split("**")[1], text) for line, text in document.prose if text.startswith("**")]
    for line, promise, text in promises:
        given = re.findall(r"`(\w+)(\.sql|\.sh)?`", text)
        if not any(name in (tree.tests if ending else tree.specs) for name, ending in given):
            yield f"{PROMISES}:{line}: no test is named for “{promise}”"


def _specs(tree):
    """A document leads to each isolation spec."""
    named = {name.removesuffix(".spec").rpartition("/")[2] for document in tree.documents.values() for _, name in document.spans()}
    for name in sorted(tree.specs - named - {"setup"}):
        yield f"{name}.spec: no document names it"


def _security(tree):
    """Each sentence, and each cell of a table, that says what somebody can and cannot do names a test."""
    for line, statement in _statements(tree.documents[SECURITY]):
        if not any(name in tree.tests for name in re.findall(r"`(\w+)\.(?:sql|spec|sh)`", statement)):
            yield f"{SECURITY}:{line}: no test is named for “{statement}”"


def _statements(document):
    for line, heading, _, cells in document.rows:
        if cells[0] != TRUSTED and heading not in WITHOUT_TESTS:
            yield from ((line, cell) for cell in cells[1:])
    heading, headings = "", dict(document.headings)
    for line, text in document.prose:
        heading = headings.get(line, heading)
        if line in headings or text.startswith("|") or heading in WITHOUT_TESTS:
            continue
        for sentence in re.split(r"(?<=[.:])\s+(?=[A-Z])", " ".join(text.split())):
            # The words before a list are no sentence.
            if sentence.endswith("."):
                yield line, sentence


def _settings(tree):
    reference = tree.documents[REFERENCE]
    rows = {cells[0].strip("`"): (line, header, cells) for line, _, header, cells in reference.rows if header[:2] == ["setting", "default"]}
    for name, setting in sorted(tree.settings.items()):
        if name not in rows:
            yield f"{REFERENCE}: setting {name} has no row"
            continue
        line, _, cells = rows[name]
        default = cells[1].replace(" ", "").strip("`").replace("empty", "")
        if default != setting["value"]:
            yield f"{REFERENCE}:{line}: {name}: its default is {setting['value'] or 'empty'}, not {cells[1]}"
        who = {"user": "everybody", "superuser": "superuser", "sighup": "server"}[setting["context"]]
        if who not in cells[2]:
            yield f"{REFERENCE}:{line}: {name}: it can be set by {who}, not by {cells[2]}"


def _audiences(tree):
    for line, _, header, cells in tree.documents[REFERENCE].rows:
        if header[:2] != ["function", "who"]:
            continue
        for name in re.findall(r"`(\w+)\(", cells[0]):
            for function in tree.functions.get(name, []):
                wanted = WHO.get(function["audience"], "admin")
                if wanted not in cells[1]:
                    yield f"{REFERENCE}:{line}: {name}: it is for {wanted}, not for {cells[1]}"
