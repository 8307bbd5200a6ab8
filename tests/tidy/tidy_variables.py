"""Every KOLO_* environment variable that the library names is one that `kolo-info --env` explains. There are few; each is
in a guide, and in a test. Those that the Python package alone reads are named below them."""

import json
import os
import re
import subprocess
import unittest

import source_tree

VARIABLE = re.compile(r"\bKOLO_[A-Z0-9_]*[A-Z0-9]\b")
NOT_VARIABLES = re.compile(r"KOLO_(ALLOC_SHARED|ANY_\w+|ERR_\w+|LIBRARY|MACHINES|RANKS_MAX|OPTIONS_INIT|SLOTS|VERSION_\w+)$")
VARIABLES_MAX = 30
READ_IN_PYTHON = re.compile(r"""\benviron(?:\.\w+\(|\[)["'](KOLO_\w+)""")
LITERAL = re.compile(r'"(?:\\.|[^"\\\n])*"')


def named(tree):
    """{variable: "path:line"} of the variables in the library's string literals, error messages included."""
    found = {}
    for path in tree.paths("lib", suffixes=source_tree.C_SUFFIXES):
        code = source_tree.without_comments(tree.text(path))
        for number, line in enumerate(code.split("\n"), start=1):
            for literal in LITERAL.findall(line):
                for name in VARIABLE.findall(literal):
                    if not NOT_VARIABLES.match(name):
                        found.setdefault(name, f"{path}:{number}")
    return found


def problems(tree, explained):
    names = named(tree)
    found = [f"{place}: kolo-info --env does not explain {name}"
             for name, place in sorted(names.items()) if name not in explained]
    found += [f"kolo-info --env explains {name}, which the library does not read"
              for name in sorted(explained - names.keys())]
    found += [f"{name}: kolo-info --env gives no {key}"
              for name, entry in sorted(getattr(explained, "entries", {}).items())
              for key in ("meaning", "default") if not entry.get(key)]
    return found


def few_problems(tree, explained):
    guides = [path for path in tree.paths(suffixes=(".md",)) if path != "CHANGELOG.md"]
    tests = tree.paths("tests", suffixes=(*source_tree.C_SUFFIXES, ".py"))
    found = []
    for kind, paths in (("guide", guides), ("test", tests)):
        there = {name for path in paths for name in VARIABLE.findall(tree.text(path))}
        found += [f"kolo-info --env explains {name}, which is in no {kind}" for name in sorted(explained - there)]
    if len(explained) > VARIABLES_MAX:
        found.append(f"{len(explained)} variables, {VARIABLES_MAX} at most: make one of several")
    return found


def python_problems(tree, printed):
    """printed: what `kolo-info --env` prints as text."""
    for path in tree.paths("lib/bindings/python", suffixes=(".py",)):
        for number, line in enumerate(tree.text(path).split("\n"), start=1):
            for name in READ_IN_PYTHON.findall(line):
                if name not in VARIABLE.findall(printed):
                    yield f"{path}:{number}: kolo-info --env does not name {name}"


class Explained(set):
    """The names of a list of entries as `kolo-info --env --json` prints it."""

    def __init__(self, entries):
        self.entries = {entry["name"]: entry for entry in entries}
        super().__init__(self.entries)


def entry(name, default="1"):
    return {"name": name, "meaning": "what it does", "default": default, "value": None}


class Variables(source_tree.Rule):
    EXAMPLE = {"lib/core/base/a.c": '/* "KOLO_NOT" */\nget("KOLO_A");\nputs("KOLO_ERR_ARG: set KOLO_B=1");\n'}

    @unittest.skipUnless("KOLO_INFO" in os.environ, "KOLO_INFO does not name the built kolo-info")
    def test_project(self):
        tree = source_tree.project()
        self.assertIn("KOLO_RANK", named(tree))
        listed, printed = (subprocess.run([os.environ["KOLO_INFO"], "--env", *how], check=True, capture_output=True,
                                          text=True, timeout=200).stdout for how in (["--json"], []))
        explained = Explained(json.loads(listed)["env"])
        self.assert_clean([*problems(tree, explained), *few_problems(tree, explained), *python_problems(tree, printed)])

    def check(self, entries, pattern):
        with source_tree.example(self.EXAMPLE) as tree:
            self.assert_one(problems(tree, Explained(entries)), pattern)

    def test_accepts_what_is_explained(self):
        with source_tree.example(self.EXAMPLE) as tree:
            self.assert_clean(problems(tree, Explained([entry("KOLO_A"), entry("KOLO_B")])))

    def test_rejects_unexplained(self):
        self.check([entry("KOLO_A")], r"lib/core/base/a\.c:3: .* does not explain KOLO_B")

    def test_rejects_unread(self):
        self.check([entry("KOLO_A"), entry("KOLO_B"), entry("KOLO_C")], "explains KOLO_C, which")

    def test_rejects_missing_default(self):
        self.check([entry("KOLO_A"), entry("KOLO_B", default="")], "KOLO_B: .* no default")

    def test_rejects_what_is_in_no_guide(self):
        with source_tree.example({"README.md": "KOLO_AB\n", "tests/a.c": 'puts("KOLO_A");\n'}) as tree:
            self.assert_one(few_problems(tree, {"KOLO_A"}), "KOLO_A, which is in no guide")

    def test_rejects_what_python_alone_reads(self):
        source = 'a = environ.get("KOLO_A")\nb = os.environ["KOLO_B"]\n'
        with source_tree.example({"lib/bindings/python/a.py": source}) as tree:
            self.assert_one([*python_problems(tree, "KOLO_A KOLO_BC")], r"python/a\.py:2: .* does not name KOLO_B")

    def test_rejects_many(self):
        names = {f"KOLO_A{number}" for number in range(VARIABLES_MAX + 1)}
        with source_tree.example({"README.md": " ".join(names), "tests/a.py": " ".join(names)}) as tree:
            self.assert_one(few_problems(tree, names), "31 variables, 30 at most")


if __name__ == "__main__":
    source_tree.main()
