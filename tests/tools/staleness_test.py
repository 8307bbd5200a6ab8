"""bench/staleness: what it measures, writes and draws, and what it says to bad options."""

import importlib.util
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "bench" / "staleness"
sys.path.insert(0, str(ROOT / "bench"))

from staleness import staleness_command  # noqa: E402 (the path has to be set first)

KOLO_BUILD = os.environ["KOLO_BUILD"]


def staleness(*arguments):
    return subprocess.run([sys.executable, "-B", SCRIPT, *map(str, arguments)], capture_output=True, text=True,
                          timeout=120, stdin=subprocess.DEVNULL, check=False)


class Measured(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="kolo-staleness-test-")
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        cls.json, cls.report = cls.folder / "results.json", cls.folder / "report.md"
        cls.done = staleness("--quick", "--kolo-build", KOLO_BUILD, "--cache", cls.folder, "--json", cls.json, "--results",
                             cls.report, "--problems", "factorization", "--stalenesses", "unbounded,10,0", "--workers", 3,
                             "--step-ms", 6)

    def setUp(self):
        self.assertEqual(0, self.done.returncode, self.done.stderr)

    def parts(self):
        return json.loads(self.json.read_text(encoding="utf-8"))["parts"]

    def test_every_cell_is_measured(self):
        self.assertEqual(["last", "any"], [part["straggler"] for part in self.parts()])
        for part in self.parts():
            self.assertEqual([(staleness, slowdown) for slowdown in (1, 5) for staleness in (0, 10, "unbounded")],
                             [(run["staleness"], run["slowdown"]) for run in part["runs"]])
            self.assertLess(part["known_loss"], part["until"])
            for run in part["runs"]:
                self.assertLessEqual(run["reached"]["loss"], part["until"])
                self.assertGreater(run["reached"]["iterations"], 10)

    def test_slow_worker_delays_bsp_most(self):
        # Seconds to the loss vary with how stale the gradients happen to be; a slow worker's part is in the rate.
        for part in self.parts():
            reached = {staleness: staleness_command.medians(part, staleness, 5) for staleness in part["stalenesses"]}
            rates = {staleness: each["iterations"] / each["seconds"] for staleness, each in reached.items()}
            for staleness in 10, "unbounded":
                self.assertGreater(rates[staleness], 1.1 * rates[0])

    def test_tables(self):
        text = self.report.read_text(encoding="utf-8")
        for what in "seconds", "iterations":
            for who in "one worker is slow", "in each step another worker is slow":
                self.assertRegex(self.done.stdout, rf"factorization, {who}: {what} to the loss\n +slowdown +slowdown\n"
                                 r" +staleness +1 +5\n +0 \(BSP\) +[\d.]+ +[\d.]+\n +10 +[\d.]+ +[\d.]+\n"
                                 r"unbounded \(ASP\) +[\d.]+ +[\d.]+\n")
                self.assertIn(f"## Factorization, {who}\n", text)
        self.assertIn("factorization, one worker is slow: times as fast as BSP", self.done.stdout)
        self.assertRegex(text, r"\n\| 10( \| [\d.]+ \(\d+, [\d.]+\)){2} \|\n")
        self.assertRegex(text, r"3 workers, a step takes 6 ms \(slept for what computing leaves of it\), until the RMSE is 0.3; "
                         r"0\.25\d+ is known to be possible")

    @unittest.skipUnless(importlib.util.find_spec("matplotlib"), "matplotlib is not installed")
    def test_plots(self):
        drawn = staleness("--replot", self.json, "--plots", self.folder / "plots")
        self.assertEqual((0, ""), (drawn.returncode, drawn.stderr))
        self.assertIn("times as fast as BSP", drawn.stdout)
        self.assertEqual({"staleness-factorization.png", "staleness-factorization.svg"},
                         {path.name for path in (self.folder / "plots").iterdir()})
        drawing = (self.folder / "plots" / "staleness-factorization.svg").read_text(encoding="utf-8")
        for name in "s = 0 (BSP)", "s = 10", "s = unbounded (ASP)":
            self.assertIn(f"<!-- {name} -->", drawing)


class Medians(unittest.TestCase):
    def reached(self, *seconds):
        runs = [{"staleness": 3, "slowdown": 5, "reached": each and {"seconds": each, "iterations": 10 * each}}
                for each in seconds]
        return staleness_command.medians({"runs": runs}, 3, 5)

    def test_of_runs_that_got_there(self):
        self.assertEqual({"seconds": 2, "iterations": 20}, self.reached(9, 1, 2))
        self.assertEqual({"seconds": 5, "iterations": 50}, self.reached(9, None, 1))

    def test_most_must_get_there(self):
        self.assertIsNone(self.reached(9, None, None))
        self.assertIsNone(self.reached(9, None))


class Refused(unittest.TestCase):
    def test_bad_values(self):
        for pattern, *arguments in (("'x' is not a number from 0", "--stalenesses", "0,x"),
                                    ("'lasso' is none of digits logistic factorization", "--problems", "lasso"),
                                    ("'first' is none of last any", "--stragglers", "first"),
                                    ("'0' is not a number", "--slowdowns", "0"), ("'1' is not a number", "--workers", "1"),
                                    ("cannot be written", "--json", "/nowhere/a.json")):
            with self.subTest(arguments):
                done = staleness(*arguments)
                self.assertEqual((2, ""), (done.returncode, done.stdout))
                self.assertIn(pattern, done.stderr)

    def test_no_kolo(self):
        with tempfile.TemporaryDirectory(prefix="kolo-staleness-test-") as folder:
            done = staleness("--cache", folder, "--kolo-build", folder)
            self.assertEqual(1, done.returncode)
            self.assertIn("has no bin/kolorun", done.stderr)

    def test_training_that_fails(self):
        with tempfile.TemporaryDirectory(prefix="kolo-staleness-test-") as folder:
            done = staleness("--quick", "--cache", folder, "--kolo-build", KOLO_BUILD, "--problems", "logistic",
                             "--train=--hidden 8")
            self.assertEqual(1, done.returncode)
            self.assertIn("kolo-train failed: ended with 2", done.stderr)


if __name__ == "__main__":
    unittest.main()
