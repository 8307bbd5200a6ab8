"""Every test has the label of each part of kolo that it needs, so that ctest -L table runs what a change in the parameter
server can break. The presets give no test a label that nobody knows."""

import json
import os
import subprocess

import source_tree

PARTS = {"core", "machines", "table", "training", "bindings", "tools"}
KINDS = {"unit", "ranks", "processes", "threads", "system", "net", "lab", "faults", "schedules", "models", "fuzz", "stress",
         "tidy", "install", "python", "torch", "mpi", "valgrind", "latency"}
ALONE = {"configs"}  # other presets: they have tests of their own


def problems(tests):
    """tests: of ctest's list, (name, labels)."""
    found = []
    for name, labels in tests:
        if not labels & (PARTS | ALONE):
            found.append(f"{name}: no label of a part ({', '.join(sorted(PARTS))})")
        for label in sorted(labels - PARTS - KINDS - ALONE):
            found.append(f"{name}: label {label} is not in {os.path.basename(__file__)}")
    return found


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
        self.assert_clean(problems(tests))

    def test_rejects_a_test_of_no_part(self):
        self.assert_one(problems([("ranks.a", {"ranks", "core"}), ("ranks.b", {"ranks"})]), "^ranks.b: no label")

    def test_rejects_an_unknown_label(self):
        self.assert_one(problems([("ranks.a", {"core", "quick"})]), "label quick")


if __name__ == "__main__":
    source_tree.main()
