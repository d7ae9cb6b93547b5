"""Prints the SQL commands in the code spans of a paragraph: spans.py ROOT DOCUMENT BEGINNING. The paragraph, or its list item, begins with that text."""

import re
import sys


def main(root, document, beginning):
    with open(f"{root}/{document}", encoding="utf-8") as file:
        paragraphs = re.split(r"\n\s*\n|\n(?=(?:- |\d+\. ))", file.read())
    found = [paragraph for paragraph in paragraphs if paragraph.startswith(beginning)]
    if len(found) != 1:
        sys.exit(f"{document}: {len(found)} paragraphs begin with {beginning!r}")
    spans = (" ".join(span.split()) for span in re.findall(r"(?<!`)`([^`]+)`(?!`)", found[0]))
    commands = [span for span in spans if span.endswith(";")]
    if not commands:
        sys.exit(f"{document}: no command in the paragraph {beginning!r}")
    print("\n".join(commands))


if __name__ == "__main__":
    main(*sys.argv[1:])
