"""Compares the output in README's example with that of psql: examples.py ROOT < OUTPUT; examples.py ROOT --script makes the script."""

import re
import sys

from markdown import Document


def blocks(root):
    with open(f"{root}/README.md", encoding="utf-8") as file:
        document = Document("README.md", file.read())
    first, last = (next(line for line, heading in document.headings if heading == title) for title in ("Try it in a minute", "What it costs"))
    return [text for line, language, text in document.blocks if first < line < last and language == ""]


def normalized(line):
    return re.sub(r'"lease_age_seconds":[0-9.]+', '"lease_age_seconds":…', line.rstrip())


def main(root, *options):
    lines = [line for block in blocks(root) for line in block.split("\n") if line.strip()]
    if options:
        statement = False
        for line in lines:
            # A statement goes from its first line to that with the semicolon, or \gset.
            statement = statement or re.match(r"(CREATE|SELECT|SET) ", line) is not None
            if statement:
                print(line)
            statement = statement and not re.search(r"(;|\\gset)$", line)
        return 0
    output = [normalized(line) for line in sys.stdin]
    at = 0
    for line in map(normalized, lines):
        if line not in output[at:]:
            print(f"README.md: psql does not print: {line}")
            return 1
        at = output.index(line, at) + 1
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
