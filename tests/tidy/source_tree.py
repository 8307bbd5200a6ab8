"""The files of a source tree, as the rules of tests/tidy/ look at them."""

import contextlib
import os
import pathlib
import re
import sys
import tempfile
import unittest

PLACES = ("include", "lib", "tools", "bench", "tests", ".ci", ".github")
SKIPPED_DIRS = {"__pycache__", ".git", "build"}
C_SUFFIXES = (".c", ".h")

_COMMENT_OR_LITERAL = re.compile(
    r"""//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'""", re.DOTALL)


class SourceTree:
    """A tree rooted at `root`; paths given out are relative to it, with forward slashes."""

    def __init__(self, root):
        self.root = pathlib.Path(root)

    def paths(self, *places, suffixes=None):
        """Sorted paths below `places` (all of ours if none), and the files of the top level with them."""
        found = []
        for place in places or PLACES:
            for folder, dirs, names in os.walk(self.root / place):
                dirs[:] = [d for d in dirs if d not in SKIPPED_DIRS]
                found += [pathlib.Path(folder) / name for name in names]
        if not places:
            found += [p for p in self.root.iterdir() if p.is_file()]
        return sorted(
            p.relative_to(self.root).as_posix() for p in found if suffixes is None or p.suffix in suffixes)

    def text(self, path):
        return (self.root / path).read_text(encoding="utf-8", errors="replace")

    def scripts(self, interpreter):
        """Paths of the files whose first line calls `interpreter`."""
        for path in self.paths():
            with open(self.root / path, "rb") as file:
                first_line = file.readline(200)
            if first_line.startswith(b"#!") and interpreter.encode() in first_line:
                yield path


def without_comments(c_text, keep_literals=True):
    """C text with comments blanked out, and literals too on request; line numbers stay."""

    def blank(match):
        piece = match.group()
        if keep_literals and piece[0] != "/":
            return piece
        return "\n" * piece.count("\n") or " "

    return _COMMENT_OR_LITERAL.sub(blank, c_text)


def project():
    return SourceTree(pathlib.Path(__file__).resolve().parents[2])


@contextlib.contextmanager
def example(files):
    """A temporary tree of {path: text}, for showing that a rule catches an offender."""
    with tempfile.TemporaryDirectory(prefix="kolo-tidy-") as root:
        for path, text in files.items():
            target = pathlib.Path(root) / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text, encoding="utf-8")
        yield SourceTree(root)


class Rule(unittest.TestCase):
    """A rule gives `problems(tree)`: a list of lines "path:line: what is wrong and what to do"."""

    def assert_clean(self, problems):
        if problems:
            self.fail("\n" + "\n".join(problems))

    def assert_one(self, problems, pattern):
        self.assertEqual(1, len(problems), "\n" + "\n".join(problems))
        self.assertRegex(problems[0], pattern)


def main():
    """Runs the calling file's tests; exits with 77 where all of them were skipped."""
    result = unittest.main(module="__main__", exit=False, verbosity=2).result
    if not result.wasSuccessful():
        sys.exit(1)
    sys.exit(77 if result.testsRun and len(result.skipped) == result.testsRun else 0)
