"""Prints the doc comments of checked folders that begin with a word which needs another comment to be understood."""
import re
import sys
from pathlib import Path

OPENINGS = ("The same", "What", "Whose", "Of which", "By whom", "That")

CHECKED = ["crates", "src", "tests/harness"]


def blocks(text: str) -> list[tuple[int, str]]:
    """The doc comments of a file: the number and the text of the first line of each."""
    found, previous = [], None
    for number, line in enumerate(text.splitlines(), 1):
        match = re.match(r"\s*(///|//!)(?!/) ?(.*)", line)
        if match and match[1] != previous:
            found.append((number, match[2]))
        previous = match[1] if match else None
    return found


def check(tree: Path) -> list[str]:
    begins = re.compile(rf"({'|'.join(OPENINGS)})\b")
    files = [file for folder in CHECKED for file in (tree / folder).rglob("*.rs")]
    return [
        f"{file.relative_to(tree)}:{number}: {line}"
        for file in sorted(files)
        for number, line in blocks(file.read_text())
        if begins.match(line)
    ]


for problem in check(Path(sys.argv[1])):
    print(problem)
