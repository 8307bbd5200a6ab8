"""The manual page of a command, from what its --help prints (tools/command_line.h): paragraphs at the margin; below
them, indented, items with a gap between name and explanation, or lines as they are typed."""

import re

COLUMNS = 80  # at which --help breaks lines
GAP = re.compile(r"^( +)(\S(?:.*?\S)??)(?: {2,}(\S.*))?$")
SECTIONS = {"usage": "SYNOPSIS", "exit status": "EXIT STATUS", "exit code": "EXIT STATUS", "example": "EXAMPLES",
            "examples": "EXAMPLES", "environment of the ranks": "ENVIRONMENT"}
ORDER = ("NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", "ENVIRONMENT", "NOTES", "EXIT STATUS", "EXAMPLES", "SEE ALSO")
CHOICE = re.compile(r" *[\w:, ]+(?: \(default\))?: ")  # an explanation of a word that an option takes


def joined(lines):
    """Paragraphs of lines that --help has broken: a line that had room for the next word was ended on purpose, and so
    was one before the next of several choices."""
    found = []
    for number, line in enumerate(lines):
        before = lines[number - 1] if number else ""
        chosen = CHOICE.match(lines[0]) and CHOICE.match(line)
        if found and len(before) + 1 + len(line.split()[0]) > COLUMNS and not chosen:
            found[-1] += " " + line.strip()
        else:
            found.append(line.strip())
    return found


def indent(line):
    return len(line) - len(line.lstrip())


def blocks(text):
    """(lines at the margin, indented lines behind them) of each part between empty lines."""
    for part in text.strip("\n").split("\n\n"):
        lines = part.split("\n")
        while lines:
            margin = next((i for i, line in enumerate(lines) if indent(line)), len(lines))
            end = next((i for i, line in enumerate(lines[margin:], margin) if not indent(line)), len(lines))
            yield lines[:margin], lines[margin:end]
            lines = lines[end:]


def items(lines):
    """[(name, its lines)], none if these lines have no explanations beside or below names."""
    column = next((line.index(match.group(3), match.end(2)) for line in lines
                   for match in [GAP.match(line)] if match.group(3)), None)
    if column is None:
        return []
    found = []
    for line in lines:
        match = GAP.match(line)
        if indent(line) >= column:
            found[-1][1].append(line)
        else:
            found.append((match.group(2), [" " * column + match.group(3)] if match.group(3) else []))
    return found


class CommandPage:
    """Written into a page of roff.Page's methods, whose sections stand in ORDER."""

    def __init__(self, name, help_text, page):
        self.page, self.has_options = page, False
        usage, rest = re.match(r"(?is)usage: (.*?\n)((?! ).*)", help_text).groups()
        summary = next(" ".join(margin) for margin, _ in blocks(rest) if margin)
        summary = re.match(r"(.*?)[.:](?: |$)", summary).group(1)
        page.name([name], summary[0].lower() + summary[1:])
        page.enter("SYNOPSIS")
        page.verbatim([line.strip() for line in usage.strip().split("\n")])
        for margin, indented in blocks(rest):
            self.add(margin, indented)
        page.see_also([("kolo", 3)] if name == "kolorun" else [("kolorun", 1), ("kolo", 3)])

    def add(self, margin, indented):
        """Paragraphs or a heading of one line, and what is indented below."""
        rows = items(indented)
        paragraphs = joined(margin)
        found = re.match(r"([A-Za-z ]+):? ?", paragraphs[0]) if paragraphs else None
        section = SECTIONS.get(found.group(1).strip().lower()) if found else None
        if section:
            paragraphs[0] = paragraphs[0][found.end():]
        elif rows and rows[0][0].startswith("-"):
            section, self.has_options = "OPTIONS", True
        else:
            section = "NOTES" if self.has_options else "DESCRIPTION"
        self.page.enter(section)
        if len(margin) == 1 and indented and paragraphs[0][-1:].isalnum():
            self.page.subheading(paragraphs.pop())
        for text in filter(None, paragraphs):
            if section == "EXAMPLES" and not indented:
                self.page.verbatim([text])
            else:
                self.page.paragraph(text)
        for name, lines in rows:
            self.page.item(name, joined(lines))
        if indented and not rows:
            self.page.verbatim([line[2:] for line in indented])

    def text(self):
        return self.page.text()
