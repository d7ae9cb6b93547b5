"""Checks the glossary, the words of docs/decide.md and of the architecture together: there are few, and none occurs twice."""

from collections import Counter

MOST = 40
TABLES = [("docs/decide.md", "Words"), ("docs/internals/architecture.md", "Glossary")]


def words(tree):
    for path, section in TABLES:
        for _, heading, header, cells in tree.documents[path].rows:
            if heading == section and header == ["word", "meaning"]:
                yield cells[0]


def problems(tree):
    counts = Counter(words(tree))
    if sum(counts.values()) > MOST:
        yield f"the glossary has {sum(counts.values())} words, more than {MOST}"
    if not counts:
        yield "the glossary has no words"
    for word, count in counts.items():
        if count > 1:
            yield f"the glossary has “{word}” twice"
