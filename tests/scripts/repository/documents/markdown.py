"""The parts of a document that have names: code spans, code blocks, links, headings, tables."""

import re


def slug(heading):
    """The anchor that GitHub makes of a heading."""
    text = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading).replace("`", "").strip().lower()
    return re.sub(r"[^\w\- ]", "", text).replace(" ", "-")


class Document:
    def __init__(self, path, text):
        self.path = path
        self.text = text
        self.blocks = []        # (line, language, text)
        self.headings = []      # (line, text)
        self.prose = []         # (line, text), a paragraph or a line of a table, without code blocks
        self.rows = []          # (line, heading before it, header cells, cells)
        self._read()
        self.anchors = self._anchors()

    def _read(self):
        fence, start, block, paragraph, header, heading = None, 0, [], [], None, ""

        def flush():
            if paragraph:
                self.prose.append((paragraph[0][0], "\n".join(line for _, line in paragraph)))
                paragraph.clear()

        for number, line in enumerate(self.text.split("\n"), 1):
            mark = re.match(r"\s*```(\w*)", line)
            if fence is not None:
                if mark:
                    self.blocks.append((start, fence, "\n".join(block)))
                    fence, block = None, []
                else:
                    block.append(line)
                continue
            if mark:
                flush()
                fence, start = mark.group(1), number + 1
                continue
            title = re.match(r"#+ (.*)", line)
            if title:
                flush()
                heading = title.group(1)
                self.headings.append((number, heading))
                self.prose.append((number, heading))
                header = None
            elif line.startswith("|"):
                flush()
                self.prose.append((number, line))
                cells = [cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
                if header is None:
                    header = cells
                elif not all(re.fullmatch(r":?-+:?", cell) for cell in cells):
                    self.rows.append((number, heading, header, cells))
            elif not line.strip():
                flush()
                header = None
            else:
                header = None
                if re.match(r"\s*([-*]|\d+\.) ", line):
                    flush()
                paragraph.append((number, line))
        flush()

    def _anchors(self):
        anchors = set()
        for _, heading in self.headings:
            anchor, count = slug(heading), 0
            while (anchor if not count else f"{anchor}-{count}") in anchors:
                count += 1
            anchors.add(anchor if not count else f"{anchor}-{count}")
        return anchors

    def spans(self):
        """(line, text) of each code span."""
        for line, text in self.prose:
            for span in re.finditer(r"(?<!`)`([^`]+)`(?!`)", text):
                yield line + text[: span.start()].count("\n"), " ".join(span.group(1).split())

    def links(self):
        """(line, text, target) of each link."""
        for line, text in self.prose:
            for link in re.finditer(r"\[((?:[^][]|\[[^]]*\])*)\]\(([^)\s]+)\)", text):
                yield line + text[: link.start()].count("\n"), link.group(1), link.group(2)
