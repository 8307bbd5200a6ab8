"""Nothing half done stays in the tree: no notes to self, no conflict markers, no stray white space."""

import re

import source_tree

# Written so that this file does not hold the words it looks for.
NOTE = re.compile(r"\b(TO" r"DO|FIX" r"ME|XX" r"X|HA" r"CK)\b")
CONFLICT = re.compile(r"^(<{7}|>{7}|\|{7}) |^={7}$")
TEXT_SUFFIXES = {".c", ".h", ".py", ".txt", ".md", ".json", ".cmake", ".in", ".map", ".sh", ".yml", ""}


def line_problem(line):
    note = NOTE.search(line)
    if note:
        return f"{note.group()}: do it, or describe the limit in words"
    if CONFLICT.search(line):
        return "conflict marker"
    if line != line.rstrip():
        return "white space at the end"
    if "\t" in line:
        return "tab: indent with spaces"
    return None


def is_text(tree, path):
    if not any(path.endswith(suffix) for suffix in TEXT_SUFFIXES if suffix) and "." in path.rsplit("/", 1)[-1][1:]:
        return False
    with open(tree.root / path, "rb") as file:
        return b"\0" not in file.read(4096)


def problems(tree):
    found = []
    for path in tree.paths():
        if not is_text(tree, path):
            continue
        for number, line in enumerate(tree.text(path).split("\n"), start=1):
            problem = line_problem(line)
            if problem:
                found.append(f"{path}:{number}: {problem}")
    return found


class Leftovers(source_tree.Rule):
    def test_project(self):
        self.assert_clean(problems(source_tree.project()))

    def test_rejects_each_kind(self):
        for line in ("/* TO" "DO: later */", "// FIX" "ME", "<<<<<<< ours", "int a; ", "\tint a;"):
            with self.subTest(line), source_tree.example({"lib/core/base/a.c": f"\n{line}\n"}) as tree:
                self.assert_one(problems(tree), r"^lib/core/base/a\.c:2: ")

    def test_rejects_in_scripts(self):
        with source_tree.example({"tools/run": "#!/bin/sh\n# FIX" "ME\n"}) as tree:
            self.assert_one(problems(tree), r"^tools/run:2: ")


if __name__ == "__main__":
    source_tree.main()
