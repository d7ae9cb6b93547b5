"""Prints circles of imports: of files of src/ and of each crate, and of the files and folders that one folder has in it; and places below the
SQL functions that ask where the tables of the service are.

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


# Files without SQL functions that choose the door to the tables: what administrators do begins in the first one; the others are what
# the session keeps, what a background worker does, and a COMMIT.
CHOOSE_THE_DOOR = {("admin_action",), ("store", "catalog"), ("worker", "attendance"), ("service", "durability")}
# Modules outside of the folder that name what is behind the door: the door itself, and what distributes the tables.
KNOW_CITUS = {("tables",), ("service", "admin", "distribute")}
CHOICE = r"\btables::(?:connect|at_entry|of_this_database)\("
FUNCTION = r"\n *(?:pub(?:\(\w+\))? )?fn (\w+)(.*?)\n(?=[^ ]|    \})"


def door_problems(modules: dict[Module, str], graph: dict[Module, set[Module]]) -> list[str]:
    """Places that ask where the tables are although their caller knows it, and those that know what is behind the door."""
    problems = []
    for here, text in sorted(modules.items()):
        name = "::".join(here)
        known = {module[1] for module in graph[here] if module[:1] == ("tables",) and len(module) > 1} & {"citus", "local"}
        if here and here not in KNOW_CITUS and known - {here[1] if here[0] == "tables" else ""}:
            problems.append(f"{name} knows what is behind the door")
        if here[:1] == ("tables",):
            continue
        if "is_distributed(" in text:
            problems.append(f"{name} asks Citus, and not the door")
        if re.search(CHOICE, text) and "#[pg_extern" not in text and here not in CHOOSE_THE_DOOR:
            problems.append(f"{name} chooses a door, and has no SQL function")
        for function, rest in re.findall(FUNCTION, text, flags=re.DOTALL):
            if "tables: &dyn Tables" in rest and re.search(CHOICE, rest):
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


for problem in check(Path(sys.argv[1])):
    print(problem)
