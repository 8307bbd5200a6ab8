"""The README as a reader takes it: what to type, what to save as a file, and what is shown then. Programs of
tools/examples say the same of themselves, in their opening comment."""

import re
import textwrap

FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


class Step:
    """Commands of one block, and what the README shows of their output, or None."""

    def __init__(self, text):
        self.commands = [line for line in text.replace("\\\n", " ").split("\n") if line.strip()]
        self.shown, self.any_order, self.other_numbers = None, False, False


def parse(readme):
    """(steps in order, {name of a file: its content}). A file precedes the steps that need it."""
    steps, files, end = [], {}, 0
    for fence in FENCE.finditer(readme):
        words = readme[end:fence.start()]
        language, text, end = fence.group(1), fence.group(2), fence.end()
        if language == "sh":
            steps.append(Step(text))
        elif language in ("c", "python"):
            files[re.search(r"Save this as `([\w.]+)`:", words).group(1)] = text
        elif language == "text":
            steps[-1].shown = text.rstrip("\n").split("\n")
            steps[-1].any_order = "any order" in words
            steps[-1].other_numbers = "other numbers" in words
    return steps, files


def example(source):
    """The Step that an example's opening comment describes: commands, and what they print, as indented paragraphs."""
    comment = re.match(r'(?:/\*|""").*?(?=\*/|""")', source, re.DOTALL).group()
    paragraphs = re.sub(r"^ \*", "", comment, flags=re.MULTILINE).rstrip() + "\n"
    words, commands, last, shown = re.split(r"\n\s*\n", paragraphs)
    step, = parse(f"{words}\n```sh\n{textwrap.dedent(commands)}\n```\n{last}\n```text\n{textwrap.dedent(shown)}```\n")[0]
    return step


def excerpts(document):
    """(name of a program in tools/examples, what the document shows of it), for each block whose words link to one."""
    name, end = None, 0
    for fence in FENCE.finditer(document):
        words, end = document[end:fence.start()], fence.end()
        linked = re.findall(r"\]\(\S*examples/(\w+\.(?:c|py))\)", words)
        name = linked[-1] if linked else name if not words.strip() else None
        if name and fence.group(1) in ("c", "python"):
            yield name, fence.group(2)


def _pattern(line, other_numbers):
    pattern = re.sub(r"(\\?\s)+", r"\\s+", re.escape(line.strip()))
    return re.compile(r"\s*" + (re.sub(r"\d+", r"\\d+", pattern) if other_numbers else pattern) + r"\s*$")


def difference(step, printed):
    """None if the output is what the README shows, else what is missing in it. A line "..." stands for any lines."""
    lines, shown = printed.rstrip("\n").split("\n"), step.shown
    if step.any_order:
        lines, shown = sorted(lines), sorted(shown)
    if not step.other_numbers:
        return None if lines == shown else f"README shows {shown}, but this came: {lines}"
    patterns = [(line, _pattern(line, True)) for line in shown]
    at = next((i for i, line in enumerate(lines) if patterns[0][1].match(line)), None)
    gap = at is None
    for line, pattern in patterns:
        if line == "...":
            gap = True
            continue
        found = [i for i in range(at or 0, len(lines)) if pattern.match(lines[i])]
        if not found or (not gap and found[0] != at):
            return f"README shows '{line}', which did not come"
        at, gap = found[0] + 1, False
    return None
