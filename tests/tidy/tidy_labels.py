"""Every test has the label of each part of kolo that it needs, so that ctest -L table runs what a change in the parameter
server can break. The presets give no test a label that nobody knows. A test of one part calls no function of another, or
a build without that one would not link."""

import json
import os
import re
import subprocess

import source_tree

PARTS = {"core", "machines", "table", "training", "bindings", "tools"}
KINDS = {"unit", "ranks", "processes", "threads", "system", "net", "lab", "faults", "schedules", "models", "fuzz", "stress",
         "tidy", "install", "python", "torch", "mpi", "valgrind", "latency"}
ALONE = {"configs"}  # other presets: they have tests of their own
OPTIONAL = ("table", "training")  # parts with public functions that a build can leave out
DEFINITION = re.compile(r"^(?!static\b)[a-z][\w *]*?\b(kolo_\w+)\(", re.MULTILINE)
TEST = re.compile(r"^add_(?:rank|unit)_test\((\w+) (\w+)", re.MULTILINE)


def problems(tests):
    """tests: of ctest's list, (name, labels)."""
    found = []
    for name, labels in tests:
        if not labels & (PARTS | ALONE):
            found.append(f"{name}: no label of a part ({', '.join(sorted(PARTS))})")
        for label in sorted(labels - PARTS - KINDS - ALONE):
            found.append(f"{name}: label {label} is not in {os.path.basename(__file__)}")
    return found


def link_problems(tree):
    defined = {name: part for part in OPTIONAL for path in tree.paths(f"lib/{part}", suffixes=(".c",))
               for name in DEFINITION.findall(tree.text(path))}
    for lists in tree.paths("tests", suffixes=(".txt",)):
        folder = os.path.dirname(lists)
        present = set(tree.paths(folder))
        for name, part in TEST.findall(tree.text(lists)):
            for path in {f"{folder}/{name}.c", f"{folder}/{name}_test.c"} & present:
                called = set(re.findall(r"\bkolo_\w+", source_tree.without_comments(tree.text(path), keep_literals=False)))
                for function in sorted(called & set(defined)):
                    if defined[function] != part:
                        yield f"{path}:1: a test of {part} calls {function} of {defined[function]}: test that there"


def listed():
    shown = subprocess.run([os.environ["CTEST"], "--test-dir", os.environ["KOLO_BUILD"], "--show-only=json-v1"],
                           capture_output=True, text=True, check=True)
    for test in json.loads(shown.stdout)["tests"]:
        yield test["name"], {label for item in test.get("properties", ()) if item["name"] == "LABELS"
                             for label in item["value"]}


class Labels(source_tree.Rule):
    def test_project(self):
        tests = list(listed())
        self.assertTrue(tests)
        self.assert_clean([*problems(tests), *link_problems(source_tree.project())])

    def test_rejects_a_call_of_another_part(self):
        files = {"lib/training/exact.c": "int kolo_exact_sum(int a) {}\nstatic int kolo_own(int a) {}\n",
                 "tests/ranks/CMakeLists.txt": "add_rank_test(lanes core processes)\nadd_rank_test(exact training)\n",
                 "tests/ranks/lanes_test.c": "/* kolo_exact_sum */ int a = kolo_exact_sum(1) + kolo_own(1);\n",
                 "tests/ranks/exact_test.c": "int a = kolo_exact_sum(1);\n"}
        with source_tree.example(files) as tree:
            self.assert_one([*link_problems(tree)], r"^tests/ranks/lanes_test\.c:1: a test of core calls kolo_exact_sum")

    def test_rejects_a_test_of_no_part(self):
        self.assert_one(problems([("ranks.a", {"ranks", "core"}), ("ranks.b", {"ranks"})]), "^ranks.b: no label")

    def test_rejects_an_unknown_label(self):
        self.assert_one(problems([("ranks.a", {"core", "quick"})]), "label quick")


if __name__ == "__main__":
    source_tree.main()
