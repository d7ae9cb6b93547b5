"""Prints circles of imports: of files of src/ and of each crate, and of the top level of src/, whose modules use only modules below them.

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
        text = re.sub(r"//[^\n]*", "", file.read_text())
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
    # What stands in a module within the file is of this file, and names it with `super`.
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
    return named - {here}


def circle(graph: dict[Module, set[Module]]) -> list[str]:
    """One circle, told from the first of its modules on."""
    try:
        TopologicalSorter({here: sorted(named) for here, named in sorted(graph.items())}).prepare()
    except CycleError as error:
        modules = error.args[1][:0:-1]
        first = modules.index(min(modules))
        around = [*modules[first:], *modules[: first + 1]]
        return [" uses ".join("::".join(module) or "lib" for module in around)]
    return []


def check(tree: Path) -> list[str]:
    problems = []
    for root in [tree / "src", *sorted(tree.glob("crates/*/src"))]:
        modules = modules_of(root)
        graph = {here: named_in(text, here, modules) for here, text in modules.items()}
        problems += [f"{root.relative_to(tree)}: {found}" for found in circle(graph)]
        places: dict[Module, set[Module]] = {}
        for here, named in graph.items():
            places.setdefault(here[:1], set()).update(module[:1] for module in named if module[:1] != here[:1])
        problems += [f"{root.relative_to(tree)}: {found}" for found in circle(places) if not problems]
    return problems


for problem in check(Path(sys.argv[1])):
    print(problem)
