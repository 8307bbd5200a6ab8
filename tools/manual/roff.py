"""A manual page: its parts, and how text becomes one."""

import re
import textwrap

COLUMNS = 72
NAME = re.compile(r"\bkolo(?:run|-[a-z]+|_\w+)\b|\bKOLO_\w+\b")


def escaped(text):
    """Text as roff prints it, whatever it begins with."""
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return "\\&" + text if text[:1] in (".", "'") else text


def prose(text):
    """Lines of the same, with kolo's names in bold."""
    lines = textwrap.wrap(text, COLUMNS, break_long_words=False, break_on_hyphens=False)
    return "\n".join(NAME.sub(lambda name: f"\\fB{name.group()}\\fP", escaped(line)) for line in lines)


class Page:
    """What is added goes into the section that was entered last; those stand in the order of their names in `order`,
    or, if there are none, as they were entered first."""

    def __init__(self, name, section, date, version, order=()):
        self.title = f'.TH "{escaped(name.upper())}" "{section}" "{date}" "kolo {version}" "kolo"'
        self.sections = {part: [] for part in order}
        self.lines = []

    def enter(self, section):
        self.lines = self.sections.setdefault(section, [])

    def subheading(self, text):
        self.lines.append(f'.SS "{escaped(text)}"')

    def begin_paragraph(self):
        if self.lines and not self.lines[-1].startswith(".SS"):
            self.lines.append(".PP")

    def paragraph(self, text):
        self.begin_paragraph()
        self.lines.append(prose(text))

    def item(self, tag, texts):
        """`tag` stands out, the first of `texts` is beside or below it, the others are paragraphs below."""
        self.lines += [".TP", f"\\fB{escaped(tag)}\\fP"]
        for number, text in enumerate(texts):
            self.lines += [".IP", prose(text)] if number else [prose(text)]

    def bullet(self, text):
        self.lines += [".IP \\(bu 2", prose(text)]

    def verbatim(self, lines):
        self.begin_paragraph()
        self.lines += [".nf", *(escaped(line) for line in lines), ".fi"]

    def name(self, names, summary):
        self.enter("NAME")
        self.lines.append(f"{', '.join(map(escaped, names))} \\- {escaped(summary)}")

    def see_also(self, references):
        self.enter("SEE ALSO")
        self.lines.append(",\n".join(f"\\fB{escaped(page)}\\fP({section})" for page, section in references))

    def text(self):
        parts = [f'.SH "{section}"\n' + "\n".join(lines) for section, lines in self.sections.items() if lines]
        return "\n".join([self.title, *parts]) + "\n"
