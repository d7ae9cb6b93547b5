"""Prints the blocks of SQL below a heading of a document: steps.py ROOT DOCUMENT HEADING. Subordinate headings belong to it."""

import re
import sys


def blocks(text, heading):
    level, found, fence, block = None, False, None, []
    for line in text.split("\n"):
        mark = re.match(r"\s*```(\w*)", line)
        if fence is not None:
            if mark:
                if found and fence == "sql":
                    yield "\n".join(block)
                fence, block = None, []
            else:
                block.append(line)
            continue
        if mark:
            fence = mark.group(1)
            continue
        title = re.match(r"(#+) (.*)", line)
        if title and title.group(2) == heading:
            level, found = len(title.group(1)), True
        elif title and found and len(title.group(1)) <= level:
            return


def main(root, document, heading):
    with open(f"{root}/{document}", encoding="utf-8") as file:
        found = list(blocks(file.read(), heading))
    if not found:
        sys.exit(f"{document}: no SQL below {heading!r}")
    print("\n".join(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
