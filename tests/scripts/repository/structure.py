"""Prints circles of imports: of files of src/ and of each crate, and of the files and folders that one folder has in it; and places below the
SQL functions that ask where the tables of the service are. With --ceilings also numbers of the tree that are larger than they may be.

Reads what `use` and paths from `crate`, `super` and `self` name; macros that are seen because of their place in the text are none of it."""
import re
import sys
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

Module = tuple[str, ...]


def modules_of(root: Path) -> dict[Module, str]:
    """The modules that are files, with their texts; without comments and tests."""
    found = {}
    for file in root.rglob("*.rs"):
        parts = file.relative_to(root).with_suffix("").parts
        text = re.sub(r"//[^\n]*|pub\(in [^)]*\)", "", file.read_text())
        found[parts[:-1] if parts[-1] in ("mod", "lib") else parts] = text.split("#[cfg(test)]")[0]
    return found


def paths_of(tree: str, before: Module = ()) -> list[Module]:
    """The paths of `a::{b, c::{d, e}}`."""
    whole = re.fullmatch(r"((?:\w+::)*)\{(.*)\}", tree.strip(), re.DOTALL)
    if not whole:
        return [before + tuple(re.sub(r"\s+as\s.*", "", tree.strip()).split("::"))]
    head = before + tuple(part for part in whole[1].split("::") if part)
    depth, parts = 0, [""]
    for character in whole[2]:
        depth += {"{": 1, "}": -1}.get(character, 0)
        if character == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    return [path for part in parts if part.strip() for path in paths_of(part, head)]


def named_in(text: str, here: Module, modules: dict[Module, str]) -> set[Module]:
    """The modules that a module's text names."""
    # A module within the file belongs to the file, and names it with `super`.
    text = re.sub(r"\n(?:pub )?mod \w+ \{\n.*?\n\}", "", text, flags=re.DOTALL)
    paths = [path for use in re.findall(r"\buse\s+([^;]+);", text) for path in paths_of(use)]
    paths += [tuple(path.split("::")) for path in re.findall(r"\b(?:crate|super|self)(?:::\w+)+", text)]
    named = set()
    for path in paths:
        if path[0] not in ("crate", "super", "self"):
            path = ("self", *path)
        base = here
        while path and path[0] in ("crate", "super", "self"):
            base = {"crate": (), "super": base[:-1], "self": base}[path[0]]
            path = path[1:]
        target = base + path
        while target not in modules:
            target = target[:-1]
        named.add(target)
    # lib.rs uses every module; what others name in it is another crate under a second name.
    return named - {here, ()}


def circle(graph: dict[Module, set[Module]]) -> list[str]:
    """Returns one circle, starting with its first module by name."""
    try:
        TopologicalSorter({here: sorted(named) for here, named in sorted(graph.items())}).prepare()
    except CycleError as error:
        modules = error.args[1][:0:-1]
        first = modules.index(min(modules))
        around = [*modules[first:], *modules[: first + 1]]
        return [" uses ".join("::".join(module) or "lib" for module in around)]
    return []


def between_folders(graph: dict[Module, set[Module]]) -> list[str]:
    """A circle among what one folder has in it: files, and folders as a whole."""
    for folder in sorted({module[:depth] for module in graph for depth in range(len(module))}):
        depth = len(folder)
        places: dict[Module, set[Module]] = {}
        for here, named in graph.items():
            if here[:depth] != folder or len(here) == depth:
                continue
            others = {module[: depth + 1] for module in named if module[:depth] == folder and len(module) > depth}
            places.setdefault(here[: depth + 1], set()).update(others - {here[: depth + 1]})
        if found := circle(places):
            return found
    return []


# Files without SQL functions that choose the door to the tables: what administrators do begins in the first one, and all other calls in
# the second; the others are what the session keeps, what a background worker does, and a COMMIT.
CHOOSE_THE_DOOR = {("kernel", "admin_action"), ("kernel", "call"), ("kernel", "catalog"), ("worker", "attendance"), ("service", "durability")}
CHOICE = r"\btables::(?:at_entry|of_this_database)\(|\b(?:Cell)?Call::(?:run|run_as_owner|over)\("
HANDED = r"\b(?:tables: Tables|call: &(?:Cell)?Call)\b"
FUNCTION = r"\n *(?:pub(?:\(\w+\))? )?fn (\w+)(.*?)\n(?=[^ ]|    \})"


def door_problems(modules: dict[Module, str], graph: dict[Module, set[Module]]) -> list[str]:
    """Places that ask where the tables are although their caller knows it, and those that know what is behind the door."""
    problems = []
    for here, text in sorted(modules.items()):
        name = "::".join(here)
        # What is behind the door knows it.
        if here[:1] == ("citus",) or here == ("kernel", "tables"):
            continue
        if here and any(module[:1] == ("citus",) for module in graph[here]):
            problems.append(f"{name} knows what is behind the door")
        if "is_distributed(" in text:
            problems.append(f"{name} asks Citus, and not the door")
        if re.search(CHOICE, text) and "#[pg_extern" not in text and here not in CHOOSE_THE_DOOR:
            problems.append(f"{name} chooses a door, and has no SQL function")
        for function, rest in re.findall(FUNCTION, text, flags=re.DOTALL):
            if re.search(HANDED, rest) and re.search(CHOICE, rest):
                problems.append(f"{name}::{function} was handed a door, and chooses another one")
    return problems


def check(tree: Path) -> list[str]:
    problems = []
    for root in [tree / "src", *sorted(tree.glob("crates/*/src"))]:
        modules = modules_of(root)
        graph = {here: named_in(text, here, modules) for here, text in modules.items()}
        found = (circle(graph) or between_folders(graph)) + (door_problems(modules, graph) if root == tree / "src" else [])
        problems += [f"{root.relative_to(tree)}: {problem}" for problem in found]
    return problems


# The most that each number of the whole tree may be. A change that makes a number smaller lowers its ceiling, too; none rises.
CEILINGS = {
    "functions that take the tables": 3,
    "functions that take the tables and a connection": 0,
    "functions with six or more parameters": 9,
    "columns read by number": 2,
    "parameters of statements by number": 8,
    # Two write names that are kept back: one turns a claim into such a name, one changes the right to it, its time, and the lease that reclaims it.
    # A lease that reclaims it does not touch the columns of a claim, so that a rollback leaves the name as it was.
    "statements that write claims": 12,
    "names of types declared more than once": 3,
    "lines of code": 49400,
}
WRITES_CLAIMS = r"(?:INSERT INTO|UPDATE) claims\.claims\b|insert_into!\(\"claims\"\)|\b(?:activate_held|replace_claim|create_claim)!\("


def parameters(text: str) -> list[tuple[bool, list[str]]]:
    """The parameters of each function of a text without comments, and whether it is a function or a statement of SQL."""
    found = []
    for function in re.finditer(r"\bfn \w+(?=[(<])", text):
        depth, at, parts = 0, function.end(), [""]
        # The parameters are the first parentheses that are not within the angle brackets of the generics.
        while depth or text[at] != "(":
            depth += {"<": 1, ">": -(text[at - 1] != "-")}.get(text[at], 0)
            at += 1
        depth, at = 1, at + 1
        while depth:
            depth += {"(": 1, "[": 1, "{": 1, "<": 1, ")": -1, "]": -1, "}": -1, ">": -(text[at - 1] not in "-=")}.get(text[at], 0)
            if text[at] == "," and depth == 1:
                parts.append("")
            elif depth:
                parts[-1] += text[at]
            at += 1
        before = re.split(r"\n *(?:\}|\n)", text[: function.start()])[-1]
        # A statement's parameters are named in its text, and a function of SQL has those that SQL passes.
        is_sql = "#[pg_extern" in before or re.match(r"[^;{]*?=\s*\[\w+", text[at:])
        found.append((bool(is_sql), [part for part in parts if part.strip()]))
    return found


def numbers(tree: Path) -> dict[str, int]:
    """The numbers of a tree that have a ceiling."""
    roots = [tree / "src", *sorted(tree.glob("crates/*/src"))]
    texts = {root: [text for here, text in sorted(modules_of(root).items()) if not "".join(here).endswith("_test")] for root in roots}
    src, everything = texts[tree / "src"], [text for root in roots for text in texts[root]]
    functions = [function for text in everything for function in parameters(text)]
    tables = [parts for _, parts in functions if any(part.endswith(": Tables") for part in map(str.strip, parts))]
    declared = [name for text in everything for name in re.findall(r"\n(?:pub(?:\(\w+\))? )?(?:struct|enum|trait|type) (\w+)", text)]
    count = lambda pattern, texts: sum(len(re.findall(pattern, text)) for text in texts)
    return {
        "functions that take the tables": len(tables),
        "functions that take the tables and a connection": sum(any("&Connection" in part for part in parts) for parts in tables),
        "functions with six or more parameters": sum(len(parts) >= 6 for is_sql, parts in functions if not is_sql),
        "columns read by number": count(r"\.(?:must|get|get_bounded)(?:::<[^()]*>)?\(\d", src),
        "parameters of statements by number": count(r"\$\d", everything),
        "statements that write claims": count(WRITES_CLAIMS, everything),
        "names of types declared more than once": sum(declared.count(name) > 1 for name in set(declared)),
        "lines of code": sum(bool(line.strip()) for text in everything for line in text.splitlines()),
    }


if sys.argv[1] == "--numbers":
    for what, number in numbers(Path(sys.argv[2])).items():
        print(f"{number} {what}")
else:
    for problem in check(Path(sys.argv[1])):
        print(problem)
    if "--ceilings" in sys.argv:
        for what, number in numbers(Path(sys.argv[1])).items():
            if number > CEILINGS[what]:
                print(f"{number} {what}: the ceiling is {CEILINGS[what]}")
