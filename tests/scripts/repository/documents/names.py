"""Names in the documents that the code does not have."""

import fnmatch
import os
import re

# Files that the build makes.
MADE = re.compile(r"target(/|$)")
ROOTS = r"(?:src|crates|sql|tests|scripts|docs|examples|bench|packaging)"
CODE_FILE = re.compile(r"[\w./-]+\.(rs|sql|sh|spec|bash|py|js|rb|toml|md|yaml)")
# A part of a path that stands for others: NAME, VERSION, N.N.N.
PLACEHOLDER = re.compile(r"[A-Z]{2,}|[*…]")
STANDS_FOR_OTHERS = re.compile(r"(?<![A-Za-z])(NAME|VERSION|MAJOR)(?![A-Z])")
# Words that a document may invent: values of names, and words of earlier versions.
VALUES = {"docs/names.md", "docs/internals/names.md"}
HISTORY = {"CHANGELOG.md"}
UPGRADES = {"CONTRIBUTING.md"}
# Words of drivers and proxies, docs/programs.md.
DRIVERS = {"setString", "stringtype", "setObject", "autosave", "default_query_exec_mode", "simple_protocol", "max_prepared_statements",
           "server_reset_query", "targetServerType"}
# Examples, and words of other programs.
FOREIGN = DRIVERS | {"Foo", "slug", "OnCalendar", "QueryCanceled", "StatementInvalid"} | {
    "create_distributed_table", "create_reference_table", "citus_add_local_table_to_metadata", "undistribute_table", "citus_update_node",
    "innodb_lock_wait_timeout", "innodb_flush_log_at_trx_commit"}


def problems(tree):
    for path, document in sorted(tree.documents.items()):
        yield from (f"{path}:{line}: {what}" for line, what in _links(tree, path, document))
        if tree.only is None or path in tree.only:
            yield from (f"{path}:{line}: {what}" for line, what in _of_document(tree, path, document))
    yield from _of_sources(tree)
    yield from _of_comments(tree)


def _of_document(tree, path, document):
    yield from _paths(tree, path, document)
    yield from _targets(tree, document)
    if path in HISTORY:
        yield from _history(tree, document)
        return
    yield from _objects(tree, path, document)
    yield from _calls(tree, document)
    yield from _signatures(tree, document)
    yield from _tests(tree, document)
    if path not in VALUES:
        yield from _words(tree, path, document)


def _links(tree, path, document):
    for line, text, target in document.links():
        if re.match(r"https?://", target):
            continue
        name, _, anchor = target.partition("#")
        name = os.path.normpath(os.path.join(os.path.dirname(path), name)) if name else path
        if name not in tree.files and name not in tree.folders:
            yield line, f"link to {target}: no such file"
        elif anchor and name in tree.documents and anchor not in tree.documents[name].anchors:
            yield line, f"link to {target}: no such heading"
        # A text that looks like a path is read as one.
        if CODE_FILE.fullmatch(text) and not tree.has_path(text, path):
            yield line, f"link text {text}: no such file"


def _paths(tree, path, document):
    for number, text in enumerate(document.text.split("\n"), 1):
        # make -C leads into other sources.
        for found in re.finditer(rf"(?<![\w./-])(?<!-C ){ROOTS}/[\w./*…-]*", text):
            name = found.group(0).rstrip(".")
            if not PLACEHOLDER.search(name) and not tree.has_path(name, path):
                yield number, f"{name}: no such file"
    for line, span in document.spans():
        word = span.split()[0]
        is_path = (CODE_FILE.fullmatch(word) or re.fullmatch(r"(?:[\w.-]+/)+", word)) and path not in VALUES
        if is_path and word[0] not in "/." and not PLACEHOLDER.search(word) and not MADE.match(word) and not tree.has_path(word, path):
            yield line, f"{word}: no such file"


def _targets(tree, document):
    texts = [(line, span) for line, span in document.spans()] + [(line, text) for line, language, text in document.blocks if language == "sh"]
    for line, text in texts:
        for found in re.finditer(r"(?:^|[;&]\s*|\n)\s*(?:[A-Z_]+=\S+ )*make((?: [a-z][a-z-]*)+)", text):
            for target in found.group(1).split():
                if target not in tree.targets:
                    yield line + text[: found.start()].count("\n"), f"make {target}: no such target"


def _history(tree, document):
    for line, span in document.spans():
        for name in re.findall(r"\bclaims\.(\w+)", span):
            if name not in tree.objects and name not in tree.released:
                yield line, f"claims.{name}: never was"


def _sql(document):
    yield from document.spans()
    yield from ((line, text) for line, _, text in document.blocks)


def _objects(tree, path, document):
    """claims.object, claims.relation.column, claims.prefix_*: in spans and blocks."""
    for line, text in _sql(document):
        for found in re.finditer(r"(?<![\w.@/-])claims\.(\w+|\w*\*)(?:\.(\w+))?", text):
            name, column = found.groups()
            at = line + text[: found.start()].count("\n")
            if "*" in text[found.start() : found.end() + 1]:
                if not fnmatch.filter(tree.objects, name.rstrip("*") + "*"):
                    yield at, f"claims.{name}*: there is nothing of that name"
            elif name not in tree.objects and not (name in tree.released and path in UPGRADES) and not tree.has_path(f"claims.{name}"):
                yield at, f"claims.{name}: there is no such object or setting"
            elif column and name in tree.relations and column not in tree.relations[name]["columns"]:
                yield at, f"claims.{name}.{column}: there is no such column"


def _calls(tree, document):
    """name => value in a call of claims.function(…)."""
    for line, text in _sql(document):
        for found in re.finditer(r"(?:claims\.)?(\w+)\(", text):
            variants = tree.functions.get(found.group(1))
            if not variants:
                continue
            for argument in re.findall(r"(\w+) =>", _inside(text, found.end())):
                if not any(argument in function["arguments"] for function in variants):
                    yield line + text[: found.start()].count("\n"), f"{found.group(1)}({argument} => …): there is no such argument"


def _inside(text, start):
    """Returns the text between parentheses, without the text in inner ones."""
    depth, inside = 1, []
    for character in text[start:]:
        depth += {"(": 1, ")": -1}.get(character, 0)
        if depth == 0:
            break
        if depth == 1:
            inside.append(character)
    return "".join(inside)


def _signatures(tree, document):
    """`function(argument, …)` in a heading, or in the first column of a table: all arguments, in order."""
    places = [(line, re.findall(r"(\w+)\(([^()]*)\)()", heading)) for line, heading in document.headings]
    for line, _, header, cells in document.rows:
        if header[0].startswith("function"):
            for span in re.findall(r"`([^`]+)`", cells[0]):
                places.append((line, re.findall(r"(\w+)\(([^()]*)\)(?: → \(([^()]*)\))?", span)))
    for line, signatures in places:
        for name, arguments, columns in signatures:
            if name not in tree.functions:
                if tree.functions and ("," in arguments or columns):
                    yield line, f"{name}({arguments}): there is no such function"
                continue
            variants = tree.functions[name]
            given = [word.strip() for word in arguments.split(",") if word.strip()]
            if given and "…" not in arguments and all(given != function["arguments"] for function in variants):
                yield line, f"{name}({arguments}): its arguments are ({', '.join(variants[0]['arguments'])})"
            wanted = [word.strip() for word in columns.split(",") if word.strip()]
            if wanted and all(wanted != function["columns"] for function in variants):
                yield line, f"{name} → ({columns}): its columns are ({', '.join(variants[0]['columns'])})"


def _tests(tree, document):
    """(`name`, `name.sql`): where one of them is a test, all are."""
    for line, text in document.prose:
        for found in re.finditer(r"\(((?:`[^`]+`(?:, | and |,\n *)?)+)\)", text):
            given = re.findall(r"`([^`]+)`", found.group(1))
            stems = [re.sub(r"\.(sql|spec|sh)$", "", name) for name in given]
            known = [stem in tree.tests or stem == "protocol" or "/" in stem for stem in stems]
            if len(given) > 1 and any(stem in tree.tests and "_" in stem for stem in stems) and not all(known):
                yield line, f"{given[known.index(False)]}: no such test"


def _words(tree, path, document):
    """A code span that is one word, or a call."""
    for line, span in document.spans():
        call = re.fullmatch(r"(\w+)\(.*\)", span)
        word = call.group(1) if call else span.split("=")[0] if re.fullmatch(r"\w+=\S*", span) else span
        if not re.fullmatch(r"[A-Za-z_]\w*\*?|\w*\*\w*", word):
            continue
        if "*" in word:
            if not fnmatch.filter(tree.names | tree.postgres, word):
                yield line, f"{word}: there is nothing of that name"
        elif call and word.islower() and word not in tree.functions and word not in tree.postgres and word not in tree.words:
            yield line, f"{word}(): there is no such function"
        elif not tree.knows(word) and word not in FOREIGN and not STANDS_FOR_OTHERS.search(word):
            yield line, f"{word}: nothing in the code has this name"


def _of_sources(tree):
    """Documents and files that the code names."""
    for path, text in sorted(tree.sources.items()):
        if path.endswith(".md") or path.startswith(("tests/scripts/repository/documents/", "sql/releases/")) or tree.only is not None and path not in tree.only:
            continue
        for found in re.finditer(r"\bdocs/[\w/-]+\.md(?:#([\w-]+))?", text):
            name = found.group(0).split("#")[0]
            line = text[: found.start()].count("\n") + 1
            if name not in tree.documents:
                yield f"{path}:{line}: {name}: no such file"
            elif found.group(1) and found.group(1) not in tree.documents[name].anchors:
                yield f"{path}:{line}: {found.group(0)}: no such heading"
        for number, comment in enumerate(re.findall(r"^\s*(?:///?!?|--|#)\s(.*)$|^.*$", text, re.M), 1):
            for name in re.findall(rf"(?<![\w./-])({ROOTS}/[\w/-]+\.[a-z]+)\b", comment):
                if not name.startswith("docs/") and not PLACEHOLDER.search(name) and not tree.has_path(name):
                    yield f"{path}:{number}: {name}: no such file"


def _of_comments(tree):
    """Functions that comments of the catalog name."""
    for comment in tree.comments:
        for name in re.findall(r"\bclaims\.(\w+)", comment):
            if name not in tree.objects:
                yield f"comment “{comment[:60]}…”: claims.{name}: there is no such object or setting"
        for name in re.findall(r"(?<![\w.])(\w+)\(\)", comment):
            if name not in tree.functions and name not in tree.postgres:
                yield f"comment “{comment[:60]}…”: {name}(): there is no such function"
