"""The manual pages of a public header. Its opening comment is the page of the header; each comment with the
declarations below it, up to an empty line, is a page, under the names of all of its functions, or of its type. What has
no comment of its own is on the header's page."""

import re
import textwrap

import roff

SYNOPSIS_COLUMNS = 72
PARAGRAPH_INDENT = 4  # of the first line of a paragraph in a comment, and of a list's dashes
COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
FUNCTION = re.compile(r"^KOLO_API\b[^;(]*?\b(\w+)\(", re.MULTILINE)
TYPE = re.compile(r"^\} (\w+);|^typedef (?:struct \w+|int|void) (?:(\w+);|\(\*(\w+)\)\()", re.MULTILINE)
MACRO = re.compile(r"^#define (KOLO_\w+)\b", re.MULTILINE)
HIDDEN = re.compile(r'^(?:#(?:if|ifn?def|else|endif|include)\b.*|#define (?:KOLO_API\b.*|KOLO_\w*H))$')


def comment_lines(comment):
    """Its text, line by line, each with the indent that it has behind the asterisk."""
    lines = re.sub(r"^/\*+ ?|\s*\*/$", "", comment).split("\n")
    lines = [lines[0]] + [re.sub(r"^ \* ?", "", line) for line in lines[1:]]
    return [line.rstrip() for line in lines if not line.startswith("SPDX-")]


def paragraphs(comment):
    """[kind, text] of each: "plain" or "bullet"; "item" has a name behind its text. A new one begins after an empty line,
    at an indent, and at a dash. What belongs to a bullet or an item is indented more than that."""
    found, fresh, inside = [], True, 0
    for line in comment_lines(comment):
        text, inner = line.strip(), len(line) - len(line.lstrip())
        if not text:
            fresh = True
            continue
        if found and found[-1][0] != "plain":
            fresh = fresh or inner <= inside
        elif inner == PARAGRAPH_INDENT:
            fresh = True
        item = re.match(r"(kolo_\w+\.h) {2,}(.*)", text)
        if item and inner:
            found.append(["item", item.group(2), item.group(1)])
            inside = inner
        elif inner and text.startswith("- "):
            found.append(["bullet", text[2:]])
            inside = inner if inner == PARAGRAPH_INDENT else -1  # a wider list has no indent below its dashes
        elif fresh:
            found.append(["plain", text])
        else:
            found[-1][1] += " " + text
        fresh = False
    return found


def described(page, comment):
    for kind, text, *tag in paragraphs(comment):
        if kind == "bullet":
            page.bullet(text)
        elif kind == "item":
            page.item(tag[0], [text])
        else:
            page.paragraph(text)


def summary_of(comment):
    """The first sentence, without a name before it."""
    text = re.sub(r"^[\w.]*kolo[\w.]*: ", "", paragraphs(comment)[0][1])
    return re.split(r"(?<![.\s])\.(?: +(?=[A-Z])|$)|:(?: |$)", text)[0]


def wrapped(declaration):
    """A declaration for a terminal; a struct and the like as it is."""
    if "\n" in declaration and not declaration.startswith("KOLO_API"):
        return re.sub(r"\s*\\\n\s*", " ", declaration).split("\n")
    declaration = re.sub(r"^KOLO_API ", "", re.sub(r"\s+", " ", declaration))
    declaration = re.sub(r"(?<!,) ", "\N{NO-BREAK SPACE}", declaration)  # lines are broken behind commas
    lines = textwrap.wrap(declaration, SYNOPSIS_COLUMNS, subsequent_indent="    ", break_long_words=False)
    return [line.replace("\N{NO-BREAK SPACE}", " ") for line in lines]


class Block:
    """A comment and what it is about."""

    def __init__(self, comment, code):
        self.comment, self.code = comment, code
        plain = COMMENT.sub("", code)
        self.functions = FUNCTION.findall(plain)
        self.types = ["".join(found) for found in TYPE.findall(plain)]
        self.macros = MACRO.findall(plain)
        self.names = self.functions + self.types if self.comment else []

    def synopsis(self):
        plain = re.sub(r"[ \t]+$", "", COMMENT.sub("", self.code), flags=re.MULTILINE)
        plain = re.sub(r"(?<=\S) {2,}", " ", plain)
        for declaration in re.split(r"(?<=;)\n(?=\S)|\n(?=#define|KOLO_API)", re.sub(r"\n{2,}", "\n", plain.strip())):
            yield from wrapped(declaration)

    def members(self):
        """(declaration, explanation) of fields, constants and functions with a comment behind them."""
        for line in re.finditer(r"^ *(?P<code>\S[^\n]*?)[;,]? +(?P<comment>/\*.*?\*/)$", self.code,
                                re.MULTILINE | re.DOTALL):
            code = re.sub(r"^KOLO_API |^#define ", "", line["code"])
            yield re.sub(r" {2,}", " ", code), " ".join(part.strip() for part in comment_lines(line["comment"]))


class Header:
    def __init__(self, text):
        pieces = re.findall(r"/\*.*?\*/|.+?(?=/\*|\Z)", text, re.DOTALL)
        self.comment = pieces[0]
        kept = "\n".join(line for line in text[len(pieces[0]):].split("\n") if not HIDDEN.match(line))
        self.blocks = []
        for comment, code in self.split(kept):
            self.blocks.append(Block(comment, code))

    @staticmethod
    def split(text):
        """(comment or "", code) of each part between empty lines; those inside comments and braces do not count."""
        part, depth = [], 0
        for line in [*text.split("\n"), ""]:
            depth += line.count("{") - line.count("}") + line.count("/*") - line.count("*/")
            if line.strip() or depth > 0:
                part.append(line)
                continue
            joined, part = "\n".join(part), []
            if joined.strip() in ("", "}"):
                continue
            comment = re.match(r"/\*.*?\*/\n?", joined, re.DOTALL)
            yield (comment.group().strip(), joined[comment.end():]) if comment else ("", joined)


class HeaderPages:
    """`include`: the header that programs include for it; `others`: pages to which that of the header refers."""

    def __init__(self, name, include, text, date, version, others):
        self.name, self.include, self.date, self.version, self.others = name, include, date, version, others
        self.header = Header(text)
        self.links = {}  # {name: the page on which it is}

    def begin(self, names, summary):
        page = roff.Page(names[0], 3, self.date, self.version)
        page.name(names, summary)
        page.enter("SYNOPSIS")
        page.lines.append(f"\\fB#include <{self.include}>\\fP")
        return page

    def members(self, page, block):
        members = list(block.members())
        if members:
            page.subheading("Values" if block.code.startswith(("typedef enum", "#define")) else
                            "Functions" if block.functions else "Members")
        for code, explanation in members:
            page.item(code, [explanation])

    def block_page(self, block):
        page = self.begin(block.names, summary_of(block.comment))
        page.verbatim(list(block.synopsis()))
        page.enter("DESCRIPTION")
        described(page, block.comment)
        self.members(page, block)
        page.see_also([(name, 3) for name in sorted({self.name, "kolo"})])
        return page.text()

    def header_page(self):
        page = self.begin([self.name], summary_of(self.header.comment))
        page.enter("DESCRIPTION")
        described(page, self.header.comment)
        for block in self.header.blocks:
            if block.comment and not block.names:
                if paragraphs(block.comment)[0][1].rstrip(".") == summary_of(block.comment):
                    page.subheading(summary_of(block.comment))
                else:
                    described(page, block.comment)
            if not block.names and block.code.strip():
                page.verbatim(list(block.synopsis()))
                for code, explanation in block.members():
                    page.item(code, [explanation])
                self.links.update((name, self.name) for name in block.functions + block.types)
        names = [block.names[0] for block in self.header.blocks if block.names]
        page.see_also([(name, 3) for name in names + self.others])
        return page.text()

    def texts(self):
        """{name: text}, of all pages."""
        pages = {self.name: self.header_page()}
        for block in self.header.blocks:
            if not block.names:
                continue
            pages[block.names[0]] = self.block_page(block)
            self.links.update((name, block.names[0]) for name in block.names[1:])
        for name, target in self.links.items():
            pages.setdefault(name, f".so man3/{target}.3\n")  # a type may have the name of a header
        return pages
