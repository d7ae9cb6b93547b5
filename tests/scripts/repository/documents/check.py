"""Compares what the documents say with what the code has: check.py ROOT CATALOG ERRCODES. One line a difference."""

import re
import sys

import conditions
import coverage
import glossary
import names
from tree import Tree


def problems(tree, sqlstates):
    yield from names.problems(tree)
    yield from coverage.problems(tree)
    yield from glossary.problems(tree)
    yield from conditions.problems(tree, sqlstates)
    yield from conditions.violations(tree)
    yield from conditions.elsewhere(tree)


def load(root, catalog, errcodes):
    with open(catalog, encoding="utf-8") as file:
        tree = Tree(root, file.read())
    with open(errcodes, encoding="utf-8") as file:
        lines = re.findall(r"^(\w{5})\s+[ESW]\s+(ERRCODE_\w+)", file.read(), re.M)
    return tree, {name: state for state, name in lines}


if __name__ == "__main__":
    found = list(problems(*load(*sys.argv[1:4])))
    print("\n".join(found))
    sys.exit(bool(found))
